"""Import one official test, run it and compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from onnx import numpy_helper

from tests.conformance.cases import Case
from weft.errors import UserError
from weft.frontends.onnx import RefusedError, import_model
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS

Net: TypeAlias = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
Backend: TypeAlias = Callable[[Graph], Net]


# onnx's reference takes the length before it was rounded down; the specification takes the length.
_LENGTH = "the test contradicts the specification; PyTorch and onnxruntime give Weft's result"
DISPUTED = {
    "test_resize_downsample_scales_linear_align_corners": _LENGTH,
    "test_resize_downsample_scales_cubic_align_corners": _LENGTH,
}
"""Official tests whose results are wrong, and why; they count as failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a test.

    Attributes:
        status: ``passed``, ``folded`` (passed, but its outputs were all computed when the
            model was imported, so nothing ran), ``refused`` (the importer says why) or
            ``failed``.
        reason: one line, for refused and failed.
        constants: inputs whose values were taken as constants.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    status: str
    reason: str = ""
    constants: tuple[str, ...] = ()


def reference(graph: Graph) -> Net:
    """Runs a graph by the ops' references."""
    return lambda inputs: evaluate(graph, inputs, OPS)


def imported(case: Case, names: Sequence[str], values: Sequence[Any]) -> tuple[Graph, list[str]]:
    """The test's graph; only inputs that fix shapes or the like become constants."""
    given = dict(zip(names, values, strict=True))
    constants = [name for name, value in given.items() if value is None]
    while True:
        shapes = {name: shape_of(value) for name, value in given.items() if name not in constants}
        try:
            graph = import_model(
                case.model,
                shapes,
                {name: given[name] for name in constants},
                folder=case.folder,
            )
        except RefusedError as error:
            if not error.needed:
                raise
            constants += error.needed
        else:
            return graph, constants


def names_of(case: Case) -> list[str]:
    """The inputs that a data set gives values for."""
    weights = {each.name for each in case.model.graph.initializer}
    names = [each.name for each in case.model.graph.input]
    open_ = [name for name in names if name not in weights]
    return names if len(case.data[0][0]) > len(open_) else open_


def check(case: Case, backend: Backend) -> Outcome:
    """Import, run and compare; bugs of Weft other than wrong results are raised."""
    names = names_of(case)
    graph: Graph | None = None
    constants: list[str] = []
    net: Net | None = None
    for inputs, wanted in case.data:
        values = [as_array(value) for value in inputs]
        names = names[: len(values)]
        if net is None or constants:
            try:
                graph, constants = imported(case, names, values)
            except UserError as error:
                reason = " ".join(str(error).split())
                return Outcome(case.name, case.kind, case.ops, "refused", reason)
            verify(graph)
            net = backend(graph)
        assert graph is not None
        feeds = dict(flat(zip(names, values, strict=True)))
        found = net({name: feeds[name] for name in graph.inputs})
        reason = difference(case, graph, found, [as_array(value) for value in wanted])
        if reason:
            reason = DISPUTED.get(case.name, reason)
            return Outcome(case.name, case.kind, case.ops, "failed", reason, tuple(constants))
    assert graph is not None
    status = "passed" if computes(graph) else "folded"
    return Outcome(case.name, case.kind, case.ops, status, "", tuple(constants))


def computes(graph: Graph) -> bool:
    """Whether any output is made by a node, so that something runs."""
    return any(name in graph.producers for name in graph.outputs)


def difference(
    case: Case, graph: Graph, found: Mapping[str, np.ndarray], wanted: Sequence[Any]
) -> str:
    """What is wrong with the results; empty if nothing is."""
    flattened = [value for _, value in flat(("", each) for each in wanted)]
    if len(flattened) != len(graph.outputs):
        return f"{len(graph.outputs)} outputs, should be {len(flattened)}"
    for name, want in zip(graph.outputs, flattened, strict=True):
        got = found[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            return (
                f"{name} is {got.dtype}{list(got.shape)}, should be {want.dtype}{list(want.shape)}"
            )
        rtol = case.rtol
        if want.dtype.name == "bfloat16":  # as onnx.backend.test does
            rtol = max(rtol, 2**-6)
            got, want = got.astype(np.float32), want.astype(np.float32)
        if not np.allclose(got, want, rtol=rtol, atol=case.atol, equal_nan=True):
            with np.errstate(all="ignore"):
                off = np.abs(got.astype(np.float64) - want.astype(np.float64))
            return f"{name} is off by up to {np.nanmax(off):.3g}"
    return ""


def shape_of(value: Any) -> Any:
    """The shape of an array, or those of the items of a sequence."""
    return value.shape if isinstance(value, np.ndarray) else [shape_of(item) for item in value]


def flat(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays by name; the importer numbers the items of a sequence."""
    for name, value in values:
        if isinstance(value, list | tuple):
            yield from flat((f"{name}_{place}", item) for place, item in enumerate(value))
        else:
            yield name, value


def as_array(value: Any) -> Any:
    """A test's value as an array, or a list of arrays."""
    if isinstance(value, list | tuple):
        return [as_array(item) for item in value]
    if isinstance(value, np.generic):
        return np.asarray(value)
    if hasattr(value, "SerializeToString"):
        return numpy_helper.to_array(value)
    return value
