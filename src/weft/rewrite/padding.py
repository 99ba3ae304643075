"""Pads: into the convolution or pool that follows, and into one another."""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np

from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.channels_last import LAST, to_first
from weft.ops.padding import PadAttributes
from weft.rewrite.rule import Exactness, Rule
from weft.rewrite.transposes import permutation


def _fill(match: Match, name: str) -> float | None:
    """What a Pad fills with, if it is known."""
    value = match.values[f"{name}_value"]
    if not value:
        return float(match.attributes(name).value)
    array = match.view.constants.get(value)
    return None if array is None else float(array.reshape(-1)[0])


def _spatial_pads(match: Match) -> tuple[int, ...] | None:
    """A Pad's pads in the order of a window's, if it pads nothing but spatial axes."""
    pads = match.attributes("p").pads
    rank = len(pads) // 2
    before, after = pads[:rank], pads[rank:]
    if "t" in match.values:
        order = permutation(match, "t")
        before = tuple(before[axis] for axis in order)
        after = tuple(after[axis] for axis in order)
    elif match.root.op in LAST.values():
        order = to_first(rank)
        before = tuple(before[axis] for axis in order)
        after = tuple(after[axis] for axis in order)
    if any(before[:2]) or any(after[:2]) or min(pads, default=0) < 0:
        return None
    return (*before[2:], *after[2:])


def _sum(match: Match) -> tuple[int, ...]:
    pads = _spatial_pads(match) or ()
    own = match.attributes("y").pads or (0,) * len(pads)
    return tuple(first + second for first, second in zip(own, pads, strict=True))


def _problem(match: Match) -> str | None:
    if match.attributes("p").mode != "constant":
        return f"the padding is of mode {match.attributes('p').mode}"
    if _spatial_pads(match) is None:
        return "the padding crops, or pads the batch or the channels"
    return None


def _conv_problem(match: Match) -> str | None:
    if _fill(match, "p") != 0:
        return "the padding is not zero"
    return _problem(match)


def _average_problem(match: Match) -> str | None:
    attributes = match.attributes("y")
    if attributes.ceil_mode:
        return "the pool rounds its output's size up"
    if any(attributes.pads) and not attributes.count_include_pad:
        return "the pool pads too and does not count what it pads"
    return _conv_problem(match) or _too_wide(match)


def _too_wide(match: Match) -> str | None:
    """A pool may not have windows that lie in the padding altogether."""
    attributes = match.attributes("y")
    kernel = attributes.kernel
    dilations = attributes.dilations or (1,) * len(kernel)
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    fits = all(pad < size for pad, size in zip(_sum(match), reach * 2, strict=True))
    return None if fits else "a window would lie in the padding"


def _max_problem(match: Match) -> str | None:
    fill = _fill(match, "p")
    if match.attributes("y").ceil_mode:
        return "the pool rounds its output's size up"
    if fill != -np.inf and not (fill is not None and fill <= 0 and _not_negative(match)):
        return "the padding may be larger than what it pads"
    return _problem(match) or _too_wide(match)


def _not_negative(match: Match) -> bool:
    """Whether what is padded is the output of an op that gives nothing below zero."""
    maker = match.view.producers.get(match["x"])
    if maker is None:
        return False
    if maker.op == "Clip":
        return maker.attributes.min is not None and maker.attributes.min >= 0
    return maker.op in ("Relu", "Sigmoid", "HardSigmoid", "Exp", "Abs", "Softplus")


def _into_window(match: Match, builder: GraphBuilder) -> str:
    node, x = match.root, match["x"]
    attributes = changed(node.attributes, pads=_sum(match))
    if node.op.startswith("AveragePool"):
        attributes = changed(attributes, count_include_pad=1)
    for name in ("s", "t"):
        if name in match.values:
            x = builder.op(match.node(name).op, x, attributes=match.attributes(name))
    return builder.op(node.op, x, *node.inputs[1:], attributes=attributes)


def _into_conv(name: str, between: str, last: str, doc: str) -> Rule:
    """A Pad with ops ``between`` that keep zeros, the ``last`` of which the convolution reads."""
    conv = f"Conv({last}, w, b?)"
    if "Transpose" not in between:
        conv += f" | ConvChannelsLast({last}, w, b?)"
    return Rule(
        name=name,
        before=f"p = Pad(x, p_value?)\n{between}y = {conv}",
        where=_conv_problem,
        after=_into_window,
        exactness=Exactness.BIT_EXACT,
        doc=doc,
    )


def _unequal(match: Match) -> str | None:
    first, second = match.attributes("p"), match.attributes("y")
    if first.mode != "constant" or second.mode != "constant":
        return "both must pad with a constant"
    if _fill(match, "p") is None or _fill(match, "p") != _fill(match, "y"):
        return "they pad with different values"
    if min(*first.pads, *second.pads, 0) < 0:
        return "one of them crops"
    return None


def _both(match: Match, builder: GraphBuilder) -> str:
    pads = zip(match.attributes("p").pads, match.attributes("y").pads, strict=True)
    attributes = PadAttributes(tuple(a + b for a, b in pads), "constant", _fill(match, "y") or 0.0)
    value = match["y_value"]
    # The value has the tensor's own type there: an i64 would not survive a float.
    inputs = (match["x"], value) if value else (match["x"],)
    return builder.op("Pad", *inputs, attributes=attributes)


RULES: tuple[Rule, ...] = (
    Rule(
        name="merge-pads",
        before="p = Pad(x, p_value?)\ny = Pad(p, y_value?)",
        where=_unequal,
        after=_both,
        exactness=Exactness.BIT_EXACT,
        doc="Two pads with one value are one.",
    ),
    _into_conv(
        "pad-into-conv", "", "p", "Zeros around the image become the convolution's own padding."
    ),
    _into_conv(
        "pad-into-conv-transpose",
        "t = Transpose(p) [users=1]\n",
        "t",
        "Zeros around an image become the padding of a convolution of its Transpose.",
    ),
    _into_conv(
        "pad-into-conv-cast",
        "s = Cast(p) [users=1]\n",
        "s",
        "Zeros around an image of another type become the padding of a convolution.",
    ),
    _into_conv(
        "pad-into-conv-cast-transpose",
        "s = Cast(p) [users=1]\nt = Transpose(s) [users=1]\n",
        "t",
        "Zeros around an image of another type and layout become the padding of a convolution.",
    ),
    Rule(
        name="pad-into-average-pool",
        before="p = Pad(x, p_value?)\ny = AveragePool(p) | AveragePoolChannelsLast(p)",
        where=_average_problem,
        after=_into_window,
        exactness=Exactness.BIT_EXACT,
        doc="Zeros around the image become padding that the pool counts.",
    ),
    Rule(
        name="pad-into-max-pool",
        before="p = Pad(x, p_value?)\ny = MaxPool(p) | MaxPoolChannelsLast(p)",
        where=_max_problem,
        after=_into_window,
        exactness=Exactness.BIT_EXACT,
        doc="Padding that never wins (minus infinity, or zero around what is not negative) "
        "becomes the pool's own, which is ignored.",
    ),
)
