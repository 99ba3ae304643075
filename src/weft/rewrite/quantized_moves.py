"""What chooses among quantized values or moves several of them, done to the integers."""

from __future__ import annotations

import numpy as np

from weft.ir.graph import Node
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.quantization import QuantizeAttributes, is_single
from weft.rewrite.dequantized import DATA, REST, other_scale, target, zero_of, zeros_problem
from weft.rewrite.rule import Exactness, Rule


def _makers(match: Match) -> list[Node] | None:
    """What dequantizes each of the values; nothing where one is not dequantized."""
    node = match.node("v")
    values = node.inputs[1:] if node.op == "Where" else node.inputs
    makers = [match.view.producers.get(value) for value in values]
    found = [each for each in makers if each is not None and each.op == "DequantizeLinear"]
    return found if len(found) == len(values) else None


def _same(match: Match, maker: Node) -> bool:
    """Whether a value is quantized as the output is."""
    constants = match.view.constants
    source, *rest = maker.inputs
    scale, zero = (constants.get(name) for name in (*rest, "")[:2])
    given = any(rest[1:])
    if scale is None or scale.size > 1 or (given and (zero is None or zero.size > 1)):
        return False
    same = match.view.types[source].dtype is target(match)
    return (
        same
        and scale.reshape(()) == match.array("ys").reshape(())
        and (0 if zero is None else int(zero.item())) == zero_of(match, "yz")
    )


def _apart(match: Match) -> str | None:
    given = match.attributes("y")
    makers = _makers(match)
    if makers is None or not makers:
        return "not all of its inputs are quantized"
    if not isinstance(given, QuantizeAttributes) or not is_single(match.type("ys")):
        return "there are several scales"
    if problem := zeros_problem(match, "yz"):
        return problem
    if all(_same(match, each) for each in makers):
        return None
    if match.node("v").op != "Concat":
        return "one of its inputs is quantized by another scale"
    return None if any(_same(match, each) for each in makers) else "all are quantized anew"


def _together(match: Match, builder: GraphBuilder) -> str:
    node, quantize = match.node("v"), match.node("y")
    makers = _makers(match)
    assert makers is not None
    values: list[str] = []
    for maker in makers:
        if _same(match, maker):
            values.append(maker.inputs[0])
            continue
        rest = quantize.inputs[1:]
        made = builder.op("QuantizeLinear", maker.outputs[0], *rest, attributes=quantize.attributes)
        values.append(made)
    first = node.inputs[:1] if node.op == "Where" else ()
    return builder.op(node.op, *first, *values, attributes=node.attributes)


def _not_padded(match: Match) -> str | None:
    given = match.attributes("v")
    fill = match.node("v").inputs[1] if len(match.node("v").inputs) > 1 else ""
    known = match.view.constants.get(fill) if fill else np.zeros(())
    other = given.value if not fill else known is None or known.any()
    if given.mode == "constant" and other:
        return "it pads with another number than 0"
    return other_scale(match)


def _padded(match: Match, builder: GraphBuilder) -> str:
    node = match.node("v")
    inputs = [match["x"]]
    if node.attributes.mode == "constant":
        zero = np.array(zero_of(match, "xz"), match.type("x").dtype.numpy)
        inputs.append(builder.constant(zero, "padding"))
    return builder.op("Pad", *inputs, attributes=node.attributes)


# --- views ------------------------------------------------------------------------------------


def _not_viewed(match: Match) -> str | None:
    if match.constant("x") is not None:
        return ""
    return None if is_single(match.type("xs")) else "there are several scales"


def _dequantized_last(match: Match, builder: GraphBuilder) -> str:
    view, maker = match.node("v"), match.node("d")
    moved = builder.op(view.op, match["x"], *view.inputs[1:], attributes=view.attributes)
    return builder.op(maker.op, moved, *maker.inputs[1:], attributes=maker.attributes)


def _quantized_first(match: Match, builder: GraphBuilder) -> str:
    view, made = match.node("v"), match.node("y")
    whole = builder.op(made.op, match["f"], *made.inputs[1:], attributes=made.attributes)
    return builder.op(view.op, whole, *view.inputs[1:], attributes=view.attributes)


_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")


def _views(of: str) -> str:
    return " | ".join(f"{op}({of}) [users=1]" for op in _VIEWS)


RULES: tuple[Rule, ...] = (
    Rule(
        name="dequantize-last",
        before=f"v = {_views('d')}\nd = {DATA}",
        where=_not_viewed,
        after=_dequantized_last,
        exactness=Exactness.BIT_EXACT,
        doc="A view of dequantized values dequantizes a view: layers then find their quantized "
        "inputs.",
    ),
    Rule(
        name="quantize-first",
        before=f"v = {_views('f')}\ny = QuantizeLinear(v, {REST})",
        where=lambda match: None if is_single(match.type("ys")) else "there are several scales",
        after=_quantized_first,
        exactness=Exactness.BIT_EXACT,
        doc="A quantized view is a view of quantized values: layers then find their quantizers.",
    ),
    Rule(
        name="quantized-choice",
        before=f"""
            v = Concat(...) [users=1] | Max(...) [users=1] | Min(...) [users=1]
              | Where(...) [users=1]
            y = QuantizeLinear(v, {REST})
        """,
        where=_apart,
        after=_together,
        exactness=Exactness.BIT_EXACT,
        doc="Concat, Max, Min and Where of values that are quantized as their result is do so to "
        "the integers; parts of Concat by other scales are quantized anew before.",
    ),
    Rule(
        name="quantized-pad",
        before=f"v = Pad({DATA}, ...) [users=1]\ny = QuantizeLinear(v, {REST})",
        where=_not_padded,
        after=_padded,
        exactness=Exactness.BIT_EXACT,
        doc="Padding with zeros between DequantizeLinear and QuantizeLinear of the same scale pads "
        "the integers with the zero point.",
    ),
)
