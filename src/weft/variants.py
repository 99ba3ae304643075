"""``weft.compare``: variants of a network side by side.

::

    found = weft.compare(["float.onnx", "pruned.onnx"], data="images.npz")
    for row in found.rows():
        print(row)
    Path("front.svg").write_text(found.plot("latency"))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from weft.api import CompiledNet, Net, load
from weft.datasets import DATASETS, data_set, gather
from weft.errors import UserError, above_zero
from weft.explore.comparison import Comparison, Variant, changes_of, unique
from weft.explore.trials import Call, Samples, qualities, read_samples, timings
from weft.export.golden import sample_inputs
from weft.ir.diff import diff
from weft.options import CompareKeywords, Options, chosen
from weft.plan.report import report
from weft.runtime.timing import from_c

_RANDOM_SAMPLES = 4


def compare(
    models: Sequence[str | Path | Net],
    *,
    names: Sequence[str] = (),
    data: str | Path | Mapping[str, np.ndarray] | None = None,
    target: str = "",
    run: bool = True,
    seconds: float = 2.0,
    options: Options | None = None,
    **keywords: Unpack[CompareKeywords],
) -> Comparison:
    """Compares networks: what they compute and need, how fast and how good they are.

    Args:
        models: networks or their files; the others are compared with the first.
        names: what they are called; by default by their files, or by their graphs.
        data: an ``.npz`` or its arrays, samples along the first axis: one array for each
            input and perhaps ``labels``, the classes, of which the share that the greatest
            element of the first output hits is the accuracy.  Without data the outputs for
            a few random inputs are compared.
        target: the machine that arena and flash are of; time is measured on this one.
        run: build the networks for this machine and run them.
        seconds: for how long all of them run for time.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.

    Returns:
        The figures, which are rows of a table, a record for JSON, and a plot.
    """
    asked = chosen(CompareKeywords, options, keywords, target=target)
    asked = replace(asked, threads=asked.threads or 1)
    if not models:
        raise UserError("expected at least one network", got="no network")
    above_zero("seconds", seconds)
    if isinstance(names, str) or not all(names):
        raise UserError("names are a sequence of texts that are not empty", got=repr(names))
    if names and len(names) != len(models):
        raise UserError("names must cover all networks", got=f"{len(names)} for {len(models)}")
    for each in models:
        if not isinstance(each, str | Path | Net):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError("a model must be a network or a file", got=type(each).__name__)
    nets = [(each if isinstance(each, Net) else load(each)).bound(asked.batch) for each in models]
    called = unique(names or [_name(each) for each in models])
    variants = [_variant(name, net, nets[0], asked) for name, net in zip(called, nets, strict=True)]
    if run:
        samples = samples_of(data, nets[0])
        named = dict(zip(called, nets, strict=True))
        variants = _tried(variants, named, samples, asked, seconds)
    elif data is not None:
        raise UserError(
            "data have no effect without running the networks", got="data, and not to run"
        )
    return Comparison(asked.machine().name, tuple(variants))


def _name(model: str | Path | Net) -> str:
    return model.graph.name if isinstance(model, Net) else Path(model).stem


def _variant(name: str, net: Net, first: Net, options: Options) -> Variant:
    counted = net.simplified().stats()
    planned = report(net.plan(options=options))
    return Variant(
        name=name,
        nodes=len(net.graph.nodes),
        ops=dict(Counter(node.op for node in net.graph.nodes)),
        macs=counted.macs,
        operations=counted.operations,
        parameters=counted.parameters,
        peak=counted.peak_bytes,
        arena=planned.arena_bytes,
        flash=planned.weight_bytes,
        changes=changes_of(diff(first.graph, net.graph)),
    )


def samples_of(data: str | Path | Mapping[str, np.ndarray] | None, net: Net) -> Samples:
    """The data, or random inputs as the first network takes them."""
    match data:
        case None:
            made = [
                sample_inputs([(type.dtype, type.dims) for type in net.inputs.values()], seed)
                for seed in range(_RANDOM_SAMPLES)
            ]
            arrays = [np.stack(each) for each in zip(*made, strict=True)]
            return Samples(dict(zip(net.inputs, arrays, strict=True)))
        case str() if data in DATASETS and not Path(data).exists():
            return _of_data_set(data, net)
        case str() | Path():
            return read_samples(Path(data))
        case _:
            arrays = dict(data)
            labels = arrays.pop("labels", None)
            return Samples(arrays, None if labels is None else np.asarray(labels).reshape(-1))


def _of_data_set(name: str, net: Net) -> Samples:
    """The samples of a data set, shaped as the first network takes them."""
    columns, labels = gather(data_set(name))
    types = list(net.inputs.values())
    sizes = [column[0].size for column in columns]
    if [type.size for type in types] != sizes:
        raise UserError(
            f"data set {name} must fit the inputs",
            got=f"{', '.join(map(str, sizes))} elements a sample",
            where=", ".join(f"{each} {type}" for each, type in net.inputs.items()),
        )
    pairs = zip(net.inputs, types, columns, strict=True)
    arrays = {each: column.reshape(-1, *type.dims) for each, type, column in pairs}
    return Samples(arrays, labels if labels.size else None)


def _tried(
    variants: Sequence[Variant],
    nets: Mapping[str, Net],
    samples: Samples,
    options: Options,
    seconds: float,
) -> list[Variant]:
    """The variants with what running them says."""
    built = {name: net.compile(options=options) for name, net in nets.items()}
    calls: dict[str, Call] = {name: partial(_call, each) for name, each in built.items()}
    types = {name: net.inputs for name, net in nets.items()}
    good = qualities(calls, types, samples)
    timers = {
        name: from_c(each.library, samples.inputs(0, types[name], name))
        for name, each in built.items()
    }
    fast = timings(timers, seconds)
    return [replace(each, timing=fast[each.name], quality=good[each.name]) for each in variants]


def _call(built: CompiledNet, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return built.library(*inputs)
