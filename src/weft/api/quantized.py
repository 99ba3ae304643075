"""Post-training quantization of networks that run compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, Unpack, cast

import numpy as np

from weft.api.network import Network, apply, bound
from weft.datasets import DATASETS, data_set, gather
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.npz import read_arrays
from weft.ir.types import TensorType
from weft.options import Options
from weft.quantize.config import QuantizationConfig, QuantizeKeywords, config_of
from weft.quantize.half import HalfPrecisionReport, half_precision_report
from weft.quantize.laboratory import Build, Run
from weft.quantize.ptq import AccuracyMetric, quantize_graph
from weft.quantize.report import FloatNode
from weft.quantize.samples import CalibrationSamples, SampleSource, collect_samples

LABELS = "labels"
NetMetric: TypeAlias = Callable[[Callable[..., Any]], float]
"""``metric(net)``: how good a network is that is called with arrays; more is better."""
Samples: TypeAlias = SampleSource | str | Path
_NOWHERE = "the recipe `integers` has no form of it between quantized values"
_LITERT = "the recipe `integers` has a form of it with rounding=litert only"
_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")


class Quantizable(Network, Protocol):
    """A network that can be compiled."""

    def compile(self, *, options: Options | None = None) -> Any:
        """Builds the net for this machine."""
        ...


N = TypeVar("N", bound=Quantizable)


def quantize(
    net: N,
    samples: Samples,
    *,
    accuracy: NetMetric | None = None,
    max_drop: float | None = None,
    labels: np.ndarray | Sequence[int] | None = None,
    test: Samples | None = None,
    limit: int | None = None,
    config: QuantizationConfig | None = None,
    options: Options | None = None,
    **keywords: Unpack[QuantizeKeywords],
) -> N:
    """The net in integers: a standard ONNX graph of QuantizeLinear and DequantizeLinear.

    The net is simplified first. ``quantization`` of the result is the report by layer; the recipe
    ``integers`` makes the layers ones of integers, and ``save`` writes the ONNX file.

    Args:
        samples: typical inputs, some hundred: an array with samples along the first axis, one for
            each input by name, an iterator that gives samples one by one, the path of an
            ``.npz`` file, or the name of a data set. ``labels`` beside the inputs are the classes.
        accuracy: how good a network is, as a function of what is called as a compiled net is;
            more is better. With labels the share of samples whose largest output is at the label,
            if not given.
        max_drop: by how much it may be less than in floating point. Layers that hurt most get more
            bits, or stay in floating point, until it is not.
        labels: class of each sample.
        test: labelled samples to measure accuracy with; the samples themselves if not given.
        limit: take no more than so many samples.
        config: all options in one record.
        options: threads for running the net; see ``weft.Options``.
        keywords: options in place of ``config``: bits of ``weights`` and ``activations``,
            ``calibration``, ``per_channel``, ``equalize``, ``bias_correction``,
            ``adaptive_rounding``, ``integer_io``, ``keep_float``, and others of
            ``QuantizationConfig``.

    Raises:
        UserError: samples do not fit, an option names no layer, or nothing can be quantized.
    """
    if config is not None and keywords:
        raise UserError("quantize: options come as config or as keywords", got="both")
    types = bound(net).graph.types
    inputs = {name: types[name] for name in net.graph.inputs}
    source, found = _read(samples, inputs)
    given = found if labels is None else np.asarray(labels).reshape(-1)
    if limit is not None and limit < 1:
        raise UserError("quantize: limit must be at least 1", got=str(limit))
    calibration = collect_samples(source, inputs, limit, given)
    metric = _metric(net, accuracy, calibration, test, inputs)
    made = quantize_graph(
        net.graph,
        calibration.inputs,
        _building(net, options),
        config or config_of(keywords),
        metric=metric,
        max_drop=max_drop,
    )
    result = net.with_graph(made.graph)
    report = replace(made.report, floats=tuple(remaining_floats(result, made.report.floats)))
    # Nets are values; this one is not known to anybody yet.
    object.__setattr__(result, "quantization", report)
    return result


def precision_report(
    net: Quantizable,
    samples: Samples,
    precision: str = "bfloat16",
    *,
    keep_float32: str | Sequence[str] = (),
    accuracy: NetMetric | None = None,
    max_drop: float | None = None,
    labels: np.ndarray | Sequence[int] | None = None,
    test: Samples | None = None,
    limit: int | None = None,
    options: Options | None = None,
) -> HalfPrecisionReport:
    """What storing values in half precision does to each layer, and to accuracy.

    The report's ``keep_float32``, given to ``compile`` or ``export`` beside the precision, leaves
    the layers in float32 that ``max_drop`` needs there.

    Args:
        samples: typical inputs, as for ``quantize``.
        precision: ``bfloat16`` or ``float16``.
        keep_float32: layers that stay in float32.
        accuracy: as for ``quantize``.
        max_drop: by how much it may be less than in float32; layers that hurt most stay in
            float32 until it is not.
        labels: class of each sample.
        test: labelled samples to measure accuracy with; the samples themselves if not given.
        limit: take no more than so many samples.
        options: threads for running the net; see ``weft.Options``.

    Raises:
        UserError: samples do not fit, there is no such precision, or an option names no layer.
    """
    asked = Options(precision=precision)
    if not asked.precision:
        rule = "the precision of a report must be bfloat16 or float16"
        raise UserError(rule, got=precision)
    asked = replace(asked, keep_float32=keep_float32)
    whole = bound(net)
    inputs = {name: whole.graph.types[name] for name in net.graph.inputs}
    source, found = _read(samples, inputs)
    given = found if labels is None else np.asarray(labels).reshape(-1)
    collected = collect_samples(source, inputs, limit, given)
    return half_precision_report(
        whole.simplification[0],
        collected,
        _building(whole, options),
        asked.precision,
        keep=asked.keep_float32,
        metric=_metric(net, accuracy, collected, test, inputs),
        max_drop=max_drop,
    )


def _read(
    samples: Samples, inputs: Mapping[str, TensorType]
) -> tuple[SampleSource, np.ndarray | None]:
    """Samples, and their labels if they come with them."""
    if isinstance(samples, str) and samples in DATASETS and not Path(samples).exists():
        columns, labels = gather(data_set(samples))
        arrays = {
            name: column.reshape(-1, *type.dims)
            for (name, type), column in zip(inputs.items(), columns, strict=False)
        }
        return arrays, labels if labels.size else None
    if isinstance(samples, str | Path):
        try:
            samples = read_arrays(Path(samples))
        except (OSError, ValueError) as error:
            raise UserError(
                "quantize: samples must be a NumPy file (.npz, .npy)", got=f"{samples}: {error}"
            ) from None
    if isinstance(samples, Mapping):
        arrays = dict(cast("Mapping[str, np.ndarray]", samples))
        labels = None if LABELS in inputs else arrays.pop(LABELS, None)
        return arrays, None if labels is None else np.asarray(labels).reshape(-1)
    return samples, None


# --- running --------------------------------------------------------------------------------


def _building(net: Quantizable, options: Options | None) -> Build:
    """What compiles graphs, and runs them on arrays by name."""
    asked = replace(options, parameters=(), plan=None) if options is not None else None

    def build(graph: Graph) -> Run:
        made = net.with_graph(graph)
        # States are inputs here: samples give them, and nothing is handed from run to run.
        object.__setattr__(made, "states", ())
        built = made.compile(options=asked)

        def run(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
            made = built.library(*(inputs[name] for name in graph.inputs))
            return dict(zip(graph.outputs, made, strict=True))

        return run

    return build


def _metric(
    net: Quantizable,
    accuracy: NetMetric | None,
    samples: CalibrationSamples,
    test: Samples | None,
    inputs: Mapping[str, TensorType],
) -> AccuracyMetric | None:
    """What is measured, as a function of what runs on arrays by name."""
    outputs = net.graph.outputs
    if accuracy is not None:
        if test is not None:
            raise UserError("quantize: accuracy has its own test samples", got="accuracy and test")
        return lambda run: accuracy(_callable(run, tuple(inputs), outputs))
    if test is not None:
        source, labels = _read(test, inputs)
        if labels is None:
            raise UserError("quantize: test samples need labels", got="none")
        samples = collect_samples(source, inputs, None, labels)
    if samples.labels is None:
        return None
    return lambda run: top_1(run, samples, outputs[0])


def _callable(run: Run, inputs: Sequence[str], outputs: Sequence[str]) -> Callable[..., Any]:
    """A run as a compiled net is called."""

    def call(*arrays: Any) -> Any:
        made = run(dict(zip(inputs, arrays, strict=True)))
        copies = tuple(np.array(made[name]) for name in outputs)
        return copies[0] if len(copies) == 1 else copies

    return call


def top_1(run: Run, samples: CalibrationSamples, output: str) -> float:
    """The share of labelled samples for which an output is largest at the label."""
    assert samples.labels is not None
    right = sum(
        int(run(sample)[output].argmax()) == int(label)
        for sample, label in zip(samples, samples.labels, strict=True)
    )
    return right / len(samples)


# --- what stays in floating point -----------------------------------------------------------


def remaining_floats(net: Quantizable, known: Iterable[FloatNode]) -> Iterator[FloatNode]:
    """The nodes that still compute in floating point where layers are ones of integers.

    Args:
        net: with QuantizeLinear and DequantizeLinear.
        known: nodes that are not quantized, with the reasons.
    """
    reasons = {each.name: each.reason for each in known}
    litert = {node.name for node in _float_nodes(apply(net, "integers", rounding="litert").graph)}
    for node in _float_nodes(apply(net, "integers").graph):
        reason = _NOWHERE if node.name in litert else _LITERT
        yield FloatNode(node.name, node.op, reasons.get(node.name, reason))


def _float_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        floats = any(graph.types[value].dtype.is_float for value in node.outputs if value)
        constant = all(value in graph.constants for value in node.reads)
        if floats and not constant and node.op not in _CONVERSIONS:
            yield node
