"""What several programs say a model computes, and who is right."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tests.fuzz.growing import session_of
from weft.api import Net
from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.onnx import import_model
from weft.ir.graph import Graph
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.runtime.compare import compare

TOLERANCE = {"float16": 2e-2, "bfloat16": 5e-2, "float64": 1e-6}
"""Of the range of an output; ``3e-4`` for others, nothing for integers."""
ROUNDING = 2e-2
"""Differences up to this may come of rounding, which double precision decides."""
WAYS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "plain C99": {"flavour": "c99", "plain": True, "threads": 1},
        "GNU C": {"flavour": "gnu", "threads": 1},
        "exact": {"exact": True, "threads": 1},
        "two threads": {"flavour": "c99", "threads": 2},
    }
)
"""How a model is compiled, and what for: arguments of ``Net.compile``."""
SECOND = {"GNU C": ("sse2", "avx2", ""), "two threads": ("c89", "c99", "gnu")}

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Verdict:
    """What became of a model.

    Attributes:
        kind: ``right``, ``unfit`` (onnxruntime cannot run it), ``refused`` (with a ``UserError``),
            ``other`` (only onnxruntime differs), ``wrong``, or ``bug`` (an exception that no user
            should see).
        way: of compiling it, where one is to blame.
        text: the first line of the error, or what differs by how much.
        detail: a trace.
    """

    kind: str
    way: str = ""
    text: str = ""
    detail: str = ""

    @property
    def bad(self) -> bool:
        """Whether it is Weft's fault."""
        return self.kind in {"wrong", "bug"}


def by_onnxruntime(model: onnx.ModelProto, feeds: Values) -> Values:
    """The outputs by onnxruntime without optimisation."""
    session = session_of(model)
    made = session.run(None, feeds)
    return dict(
        zip((each.name for each in session.get_outputs()), map(np.asarray, made), strict=True)
    )


def by_onnx(model: onnx.ModelProto, feeds: Values) -> Values | None:
    """The outputs by ONNX's reference implementation, if it has all that it takes."""
    try:
        with np.errstate(all="ignore"):
            made = ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # noqa: BLE001 (a voice may be silent)
        return None
    names = [each.name for each in model.graph.output]
    return {name: np.asarray(each) for name, each in zip(names, made, strict=True)}


def differences(found: Values, expected: Values, least: float = 0.0) -> list[str]:
    """Which values differ, and by how much of their range.

    Args:
        found: the values.
        expected: what they should be.
        least: what does not count as a difference, where more than the usual.
    """
    lines: list[str] = []
    for name, want in expected.items():
        difference = compare(name, found[name], want)
        floating = want.dtype.kind == "f"
        tolerance = max(least, TOLERANCE.get(str(want.dtype), 3e-4)) if floating else 0.0
        scale = max(difference.range, 1e-3)
        if difference.largest > tolerance * scale:
            got = found[name]
            wanted = f"{want.dtype}{list(want.shape)}"
            if (got.dtype, got.shape) != (want.dtype, want.shape):
                lines.append(f"{name} is {got.dtype}{list(got.shape)}, should be {wanted}")
            else:
                lines.append(f"{name} {wanted} is off by {difference.largest / scale:.1e}")
    return lines


def _called(run: Callable[..., Sequence[np.ndarray]], net: Net, feeds: Values) -> Values:
    arrays = [np.ascontiguousarray(feeds[name]) for name in net.graph.inputs]
    shaped = [a.reshape(feeds[n].shape) for a, n in zip(arrays, net.graph.inputs, strict=True)]
    return dict(zip(net.graph.outputs, run(*shaped), strict=True))


def _options(way: str, turn: int) -> dict[str, Any]:
    """A way's arguments; some take turns at several compilers' languages or vectors."""
    options = dict(WAYS[way])
    choices = SECOND.get(way)
    if choices:
        key = "simd" if way == "GNU C" else "flavour"
        options[key] = choices[turn % len(choices)]
    return options


def judged(
    model: onnx.ModelProto,
    feeds: Values,
    ways: Sequence[str] = tuple(WAYS),
    turn: int = 0,
) -> Verdict:
    """Compiles a model in several ways, and compares what they give with onnxruntime.

    Args:
        model: it needs only its inputs.
        feeds: of the inputs.
        ways: of ``WAYS``.
        turn: which of the choices within a way.
    """
    try:
        net = Net(import_model(model))
    except UserError as error:
        return Verdict("refused", "import", _line(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
        return Verdict("bug", "import", _line(error), traceback.format_exc(limit=-6))
    expected = by_onnxruntime(model, feeds)
    other = ""
    for way in ways:
        try:
            library = net.compile(**_options(way, turn)).library
            found = _called(library, net, feeds)
        except UserError as error:
            return Verdict("refused", way, _line(error))
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
            return Verdict("bug", way, _line(error), traceback.format_exc(limit=-6))
        lines = differences(found, expected)
        if lines:
            verdict = _arbitrated(model, net, feeds, found, way, lines)
            if verdict.bad:
                return verdict
            other = verdict.text
    return Verdict("other", "", other) if other else Verdict("right")


def _arbitrated(
    model: onnx.ModelProto, net: Net, feeds: Values, found: Values, way: str, lines: list[str]
) -> Verdict:
    """Who is right where Weft and onnxruntime differ."""
    text = "; ".join(lines[:3])
    third = by_onnx(model, feeds)
    if third is not None and not differences(found, third):
        return Verdict("other", way, f"{text} (ONNX's reference agrees with Weft)")
    with np.errstate(all="ignore"):
        own = differences(found, _called(net.reference, net, feeds))
    exact = in_double(net, feeds)
    close = not differences(found, by_onnxruntime(model, feeds), ROUNDING)
    if close and exact is not None and not differences(found, exact):
        return Verdict("other", way, f"{text} (rounding: double precision agrees with Weft)")
    says = "Weft's reference agrees with the C" if not own else f"Weft's reference: {own[0]}"
    silent = "says nothing" if third is None else "differs, too"
    return Verdict("wrong", way, f"{text} ({says}; ONNX's reference {silent})")


def in_double(net: Net, feeds: Values) -> Values | None:
    """The outputs by Weft's references in double precision, as far as they have it."""
    inputs = {name: _double(array) for name, array in feeds.items()}
    try:
        with np.errstate(all="ignore"):
            found = evaluate(_widened(net.graph), inputs, OPS)
    except Exception:  # noqa: BLE001 (a voice may be silent)
        return None
    types = net.graph.types
    return {name: each.astype(types[name].dtype.numpy) for name, each in found.items()}


def _double(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _widened(graph: Graph) -> Graph:
    """A graph with 64 bits where it had 32 for a floating-point number."""

    def wide(value: Any) -> Any:
        if value is DType.F32:
            return DType.F64
        return _widened(value) if isinstance(value, Graph) else value

    nodes = [
        replace(
            node,
            attributes=replace(
                node.attributes,
                **{each.name: wide(getattr(node.attributes, each.name))
                   for each in fields(node.attributes)},
            ),
        )
        for node in graph.nodes
    ]  # fmt: skip
    types = {name: replace(type, dtype=wide(type.dtype)) for name, type in graph.types.items()}
    constants = {name: _double(array) for name, array in graph.constants.items()}
    return replace(graph, nodes=tuple(nodes), types=types, constants=constants)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
