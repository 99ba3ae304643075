# pyright: basic
"""``weft.deploy``: a module as a C library that needs neither Python nor PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.api.net import Net
from weft.codegen.naming import identifier
from weft.errors import UserError
from weft.export.package import CLibrary, WeightsPlace
from weft.options import Options
from weft.plan.choice import MAX_ROUNDING
from weft.torch.aten.importer import Imported, import_all
from weft.torch.capture import Captured
from weft.torch.decomposition import capture_for
from weft.torch.execution import parameters_of
from weft.torch.module import Optimized
from weft.torch.specialise import checked_rounding


def deploy(
    model: torch.nn.Module | Net,
    example: Any = None,
    folder: str | Path = "",
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    target: str = "",
    threads: int = 1,
    exact: bool = False,
    tune: bool = False,
    precision: str = "float32",
    max_rounding: float = MAX_ROUNDING,
    weights: WeightsPlace = "file",
    version: str = "1.0.0",
) -> CLibrary:
    """Writes a C library of a module: sources, header, CMake package, weights and examples.

    Where it is built for this machine, with the compiler that Weft finds here, it computes the
    bits that ``weft.optimize`` computes with the same options.

    Args:
        model: a module in evaluation mode, or a ``weft.Net``.
        example: a tensor, or a tuple of all arguments; they decide sizes. Nested tensors are
            flattened. The library reads tensors in channels-last or another dense order of axes
            in that order, which its shapes show. Not needed for a net.
        folder: absent, empty, or an earlier library, which is replaced as a whole.
        kwargs: arguments by name.
        name: prefix of everything public; from the module's class if not given.
        target: the machine; this one if not given.
        threads: that a call can use.
        exact: as for ``weft.Options``.
        tune: measures alternatives.
        precision: that values and weights are stored in, as for ``weft.Options``.
        max_rounding: that faster algorithms may add in bfloat16, as for ``weft.Options``.
        weights: ``file`` for a file that the library reads, ``inside`` for a part of it.
        version: ``MAJOR.MINOR.PATCH``; the first number is that of the ABI.

    Raises:
        UserError: an op cannot be compiled (all are listed), the module changes its buffers or
            inputs, the folder has other files, or ``max_rounding`` of a module decides nothing.
    """
    options = Options(
        threads=threads,
        exact=exact,
        tune=tune,
        precision=precision,
        max_rounding=max_rounding,
        name=name,
        target=target,
    )
    if isinstance(model, Net):
        return model.deploy(folder, weights=weights, version=version, options=options)
    checked_rounding(options)
    if isinstance(model, Optimized):
        model = model._weft.module
    args = example if isinstance(example, tuple) else () if example is None else (example,)
    captured, imported = capture_for(import_all, model, args, kwargs)
    _check(captured, imported)
    net = named_ports(captured, imported)
    slots = {slot.node: slot for slot in captured.inputs}
    here = target in ("", "host")
    return net.deploy(
        folder,
        weights=weights,
        version=version,
        options=options,
        model=type(model).__name__,
        inputs=[
            imported.array(place, slots[node].value) for place, node in enumerate(imported.inputs)
        ],
        # As for ``weft.optimize``, whose code and bits these then are.
        parameters=tuple(parameters_of(imported)) if here else (),
    )


def _check(captured: Captured, imported: Imported) -> None:
    changed = [result.target.name for result in captured.results if result.target is not None]
    if changed:
        raise UserError(
            "a module that is deployed changes no buffers and no inputs",
            got=", ".join(changed),
            fix="Call eval() on it first.",
        )
    if imported.refused:
        told = "; ".join(f"{node.name}: {why}" for node, why in imported.refused.items())
        raise UserError("a C library needs every op of the module compiled", got=told)


# --- names ------------------------------------------------------------------------------------


def named_ports(captured: Captured, imported: Imported) -> Net:
    """A net whose inputs and outputs have names from the module: of arguments, keys and fields."""
    graph = imported.graph
    names = dict(zip(graph.inputs, _input_names(captured, imported), strict=True))
    names |= dict(zip(graph.outputs, _output_names(captured, imported), strict=True))
    return Net(graph).rename(values=_free(names, graph.types))


def _input_names(captured: Captured, imported: Imported) -> list[str]:
    """Names of the inputs: the parameters of ``forward``, with the places in nested ones."""
    return [node.name for node in imported.inputs]


def _output_names(captured: Captured, imported: Imported) -> list[str]:
    """Names of the outputs: keys, fields and places of what the module gives."""
    values = [result.value for result in captured.results]
    nested = pytree.tree_unflatten(list(range(len(values))), captured.out_spec)
    paths = {place: path for path, place in pytree.tree_flatten_with_path(nested)[0]}
    found: dict[torch.fx.Node, str] = {}
    for place, value in enumerate(values):
        if isinstance(value, torch.fx.Node):
            found.setdefault(value, _joined(paths[place]))
    return [found[node] for node in imported.outputs]


def _joined(path: Sequence[Any]) -> str:
    """``head_scores_0`` for ``["head"].scores[0]``; ``output`` for a value that is not nested."""
    words: list[str] = []
    for key in path:
        word = getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))
        words.append(str(word))
    name = identifier("_".join(words)) if words else "output"
    return f"output_{words[0]}" if words and words[0].isdecimal() and len(words) == 1 else name


def _free(wishes: Mapping[str, str], taken: Mapping[str, Any]) -> dict[str, str]:
    """New names of values, unlike each other and those of other values."""
    others = set(taken) - set(wishes)
    found: dict[str, str] = {}
    for old, wish in wishes.items():
        name, count = wish, 1
        while name in others or name in found.values():
            count += 1
            name = f"{wish}_{count}"
        if name != old:
            found[old] = name
        others.add(name)
    return found
