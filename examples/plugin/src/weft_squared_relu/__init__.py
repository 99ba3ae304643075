"""Squared ReLU, as Primer has it between its layers: max(x, 0) squared."""

from dataclasses import replace
from importlib.resources import files

import numpy as np

from weft.export.exports import Export
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.elementwise import FLOATS, like, map_op
from weft.ops.expr import binary
from weft.ops.native import Native
from weft.rewrite.rule import Exactness, Rule, StageRules

HERE = files(__name__)


def _positive(x):
    return binary("max", x, like(x, 0))


OP = replace(
    map_op(
        "SquaredRelu",
        FLOATS,
        lambda x: binary("mul", _positive(x), _positive(x)),
        lambda x: np.square(np.maximum(x, 0)),
        "max(x, 0) squared.",
    ),
    domain="example.primer",
)

KERNEL = Native(
    op="SquaredRelu",
    signature="void squared_relu(const float *in0, float *out0, int count)",
    files=(HERE / "squared_relu.cpp",),
    doc="Squared ReLU by a loop in C++.",
    values={"count": lambda call: call.type(0).size},
)


def _form(match: Match, builder: GraphBuilder) -> str:
    return builder.op("SquaredRelu", match["x"])


RULES = StageRules(
    "form",
    (
        Rule(
            name="form-squared-relu",
            before="""
            r = Relu(x)
            y = Mul(r, r) | Pow(r, 2)
            """,
            after=_form,
            exactness=Exactness.BIT_EXACT,
            doc="The square of Relu is SquaredRelu.",
        ),
    ),
)

TARGET = HERE / "rv32emc.toml"

CMAKE = Export(
    "A CMakeLists.txt that builds the library and the self-test.",
    {"CMakeLists.txt": HERE / "CMakeLists.txt.jinja"},
)
