# pyright: basic
"""Functions of PyTorch against what their imports give."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from tests.turns import thorough
from weft.api.net import Net
from weft.torch.aten.importer import Imported, import_all
from weft.torch.capture import capture
from weft.torch.decomposition import capture_for
from weft.torch.tensors import as_array

Case = tuple[Callable[..., Any], *tuple[torch.Tensor, ...]]
"""A function or module, and the tensors that it is called with."""


class Cases(nn.Module):
    """Calls functions and modules, each with inputs of its own."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        super().__init__()
        self.cases = cases
        for name, (function, *_) in cases.items():
            if isinstance(function, nn.Module):
                self.add_module(f"of_{name}", function)

    def forward(self, inputs: Mapping[str, Sequence[torch.Tensor]]) -> dict[str, Any]:
        return {name: case[0](*inputs[name]) for name, case in self.cases.items()}


def check(
    cases: Mapping[str, Case], *, compiled: bool = False, rtol: float = 1e-4, atol: float = 1e-5
) -> Imported:
    """Compares every tensor that the cases give with what their import gives.

    Args:
        cases: by name; all are captured as one module.
        compiled: by compiled code, not by the ops' references; a third of the cases in `make test`.
        rtol: relative tolerance.
        atol: absolute tolerance.
    """
    if compiled and len(cases) > 6 and not thorough(",".join(cases)):
        cases = {name: case for place, (name, case) in enumerate(cases.items()) if place % 3 == 0}
    inputs = {name: list(tensors) for name, (_, *tensors) in cases.items()}
    module = Cases(cases).eval()
    captured, imported = capture_for(import_all, module, (inputs,))
    assert not imported.refused, list(imported.refused.items())
    slots = {slot.node: slot.value for slot in captured.inputs}
    arrays = [as_array(slots[node].contiguous()) for node in imported.inputs]
    net = Net(imported.graph)
    found: Any = net.compile(exact=True)(*arrays) if compiled else net.reference(*arrays)
    found = [found] if len(imported.outputs) == 1 and compiled else list(found)
    made = dict(zip(imported.outputs, found, strict=True))
    with torch.no_grad():
        expected = pytree.tree_leaves_with_path(module(inputs))
    wrong: list[str] = []
    for (path, value), result in zip(expected, captured.results, strict=True):
        if isinstance(result.value, fx.Node):
            got = torch.from_numpy(made[result.value].copy())
            value = torch.from_numpy(as_array(value).copy())  # complex numbers are pairs
            try:
                torch.testing.assert_close(got, value, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                wrong.append(f"{pytree.keystr(path)}: {error}; got {got}, not {value}")
    assert not wrong, "\n".join(wrong)
    return imported


def refusals(function: Callable[..., Any], *tensors: torch.Tensor) -> list[str]:
    """Why an import refuses."""
    captured = capture(Cases({"it": (function, *tensors)}).eval(), ({"it": list(tensors)},))
    return list(import_all(captured).refused.values())
