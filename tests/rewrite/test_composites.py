"""Ops that exporters take apart."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite.composites import RULES

CONSTANTS = """
    const %root2: f32[] = [1.4142135]
    const %rroot2: f32[] = [0.70710677]
    const %half: f32[] = [0.5]
    const %one: f32[1] = [1.0]
    const %two: f32[] = [2.0]
    const %three: f32[] = [3.0]
    const %six: f32[] = [6.0]
    const %cubic: f32[] = [0.044715]
    const %rpi: f32[] = [0.7978846]
"""


def forms(body: str, after: str, rule: str) -> None:
    lines = "\n".join(
        line.strip().replace(" = ", ": f32[3,4] = ", 1) for line in body.strip().splitlines()
    )
    check(
        RULES,
        f"(%x: f32[3,4]) -> (%y) {{{CONSTANTS}\n{lines}\n}}",
        f"%y: f32[3,4] = {after}",
        {rule: 1},
    )


@pytest.mark.parametrize("inner", ["Div(%x, %root2)", "Mul(%rroot2, %x)"])
@pytest.mark.parametrize(
    "last",
    [
        "%m = Mul(%x, %a)\n%y = Mul(%m, %half)",
        "%m = Mul(%half, %x)\n%y = Mul(%m, %a)",
        "%m = Mul(%a, %half)\n%y = Mul(%m, %x)",
    ],
)
def test_gelu(inner: str, last: str) -> None:
    forms(f"%d = {inner}\n%e = Erf(%d)\n%a = Add(%e, %one)\n{last}", "Gelu(%x)", "form-gelu")


@pytest.mark.parametrize("cube", ["%c = Pow(%x, %three)", "%q = Mul(%x, %x)\n%c = Mul(%q, %x)"])
def test_gelu_by_tanh(cube: str) -> None:
    forms(
        f"""{cube}
        %s = Mul(%cubic, %c)
        %i = Add(%x, %s)
        %j = Mul(%i, %rpi)
        %t = Tanh(%j)
        %a = Add(%one, %t)
        %m = Mul(%x, %half)
        %y = Mul(%m, %a)""",
        'Gelu(%x) {approximate="tanh"}',
        "form-gelu-tanh",
    )


def test_swish_and_mish() -> None:
    forms("%s = Sigmoid(%x)\n%y = Mul(%s, %x)", "Swish(%x)", "form-swish")
    forms("%s = Softplus(%x)\n%t = Tanh(%s)\n%y = Mul(%x, %t)", "Mish(%x)", "form-mish")


@pytest.mark.parametrize(
    "last",
    [
        "%d = Div(%h, %six)\n%y = Mul(%x, %d)",
        "%d = Mul(%h, %x)\n%y = Div(%d, %six)",
    ],
)
def test_hard_swish(last: str) -> None:
    check(
        [rule for rule in RULES if rule.name == "form-hard-swish"],
        f"""(%x: f32[3,4]) -> (%y) {{{CONSTANTS}
            %a: f32[3,4] = Add(%x, %three)
            %h: f32[3,4] = Clip(%a) {{min=0.0, max=6.0}}
            {last.replace(" = ", ": f32[3,4] = ")}
        }}""",
        "%y: f32[3,4] = HardSwish(%x)",
        {"form-hard-swish": 1},
    )


def test_hard_swish_from_hard_sigmoid() -> None:
    forms(
        "%h = HardSigmoid(%x) {alpha=0.1666666716337204, beta=0.5}\n%y = Mul(%x, %h)",
        "HardSwish(%x)",
        "form-hard-swish",
    )
    forms(
        "%a = Add(%three, %x)\n%h = Clip(%a) {min=0, max=6}\n%y = Div(%h, %six)",
        "HardSigmoid(%x) {alpha=0.16666666666666666}",
        "form-hard-sigmoid",
    )


LAYER_NORM = """
    const %e: f32[] = [0.001]
    %m: f32[2,3,1] = ReduceMean(%x) {axes=(-1,)}
    %d: f32[2,3,4] = Sub(%x, %m)
    %p: f32[2,3,4] = Pow(%d, %two)
    %v: f32[2,3,1] = ReduceMean(%p) {axes=(2,)}
    %s: f32[2,3,1] = Add(%v, %e)
    %r: f32[2,3,1] = Sqrt(%s)
    %n: f32[2,3,4] = Div(%d, %r)
"""


def test_layer_norm() -> None:
    graph, _ = check(
        RULES,
        f"""(%x: f32[2,3,4]) -> (%y) {{{CONSTANTS}
            const %k: f32[4]
            const %h: f32[1,1,4]
            {LAYER_NORM}
            %a: f32[2,3,4] = Mul(%n, %k)
            %y: f32[2,3,4] = Add(%h, %a)
        }}""",
        "%y: f32[2,3,4] = LayerNormalization(%x, %scale_1_1, %h_1) {epsilon=0.0010000000474974513}",
        {"form-layer-norm": 1, "scale-normalization": 1, "shift-normalization": 1},
    )
    assert graph.constants["h_1"].shape == (4,)


def test_layer_norm_over_two_axes() -> None:
    lines = LAYER_NORM.replace("f32[2,3,1]", "f32[2,1,1]")
    lines = lines.replace("(-1,)", "(1,2)").replace("axes=(2,)", "axes=(-1,-2)")
    check(
        RULES,
        f"""(%x: f32[2,3,4]) -> (%y) {{{CONSTANTS}
            const %k: f32[4]
            {lines}
            %y: f32[2,3,4] = Mul(%n, %k)
        }}""",
        "%y: f32[2,3,4] = LayerNormalization(%x, %scale_1) "
        "{axis=-2, epsilon=0.0010000000474974513}",
        {"form-layer-norm": 1, "scale-normalization": 1},
    )


def test_not_a_layer_norm() -> None:
    lines = LAYER_NORM.replace("f32[2,3,1]", "f32[2,1,4]")
    lines = lines.replace("(-1,)", "(1,)").replace("axes=(2,)", "axes=(1,)")
    check_refused(
        RULES,
        f"(%x: f32[2,3,4]) -> (%n) {{{CONSTANTS} {lines} }}",
        [
            "form-layer-norm at n was not applied: the means are not both over the same last axes",
            "form-rms-norm at n was not applied: the means are not both over the same last axes",
        ],
    )


def test_rms_norm() -> None:
    check(
        RULES,
        f"""(%x: f32[2,4]) -> (%y) {{{CONSTANTS}
            const %e: f32[1] = [0.001]
            const %k: f32[4]
            %p: f32[2,4] = Mul(%x, %x)
            %v: f32[2,1] = ReduceMean(%p) {{axes=(1,)}}
            %s: f32[2,1] = Add(%e, %v)
            %r: f32[2,1] = Sqrt(%s)
            %q: f32[2,1] = Reciprocal(%r)
            %n: f32[2,4] = Mul(%x, %q)
            %y: f32[2,4] = Mul(%k, %n)
        }}""",
        "%y: f32[2,4] = RMSNormalization(%x, %scale_1) {epsilon=0.0010000000474974513}",
        {"form-rms-norm": 1, "scale-normalization": 1},
    )


GROUPS = """
    const %s: f32[2] = [1.0, 1.5]
    const %b: f32[2] = [0.0, 0.5]
    %v: f32[3,2,PARTS] = Reshape(%x) {shape=(3,2,-1)}
    %i: f32[3,2,PARTS] = InstanceNormalization(%v, %s, %b) {epsilon=0.5}
"""


def test_group_norm_as_torch_exports_it() -> None:
    graph, _ = check(
        RULES,
        f"""(%x: f32[3,4,5]) -> (%y) {{
            const %k: f32[4,1] = [2.0, 2.0, 2.0, 3.0]
            const %h: f32[1,4,1]
            {GROUPS.replace("PARTS", "10")}
            %n: f32[3,4,5] = Reshape(%i) {{shape=(3,4,5)}}
            %m: f32[3,4,5] = Mul(%n, %k)
            %y: f32[3,4,5] = Add(%m, %h)
        }}""",
        "%y: f32[3,4,5] = GroupNormalization(%x, %s_1_1_1, %b_1_1_1) {num_groups=2, epsilon=0.5}",
        {"form-group-norm": 1, "scale-group-norm": 1, "shift-group-norm": 1},
    )
    assert graph.constants["s_1_1_1"].tolist() == [2.0, 2.0, 3.0, 4.5]


def test_groups_that_are_not_whole_channels() -> None:
    check_refused(
        RULES,
        f"""(%x: f32[3,5,4]) -> (%y) {{
            {GROUPS.replace("PARTS", "10")}
            %y: f32[3,5,4] = Reshape(%i) {{shape=(3,5,4)}}
        }}""",
        ["form-group-norm at y was not applied: groups are not whole channels"],
    )


def test_a_factor_along_another_axis_stays() -> None:
    check_refused(
        RULES,
        """(%x: f32[3,4,5]) -> (%y) {
            const %s: f32[4]
            const %b: f32[4]
            const %k: f32[5]
            %n: f32[3,4,5] = GroupNormalization(%x, %s, %b) {num_groups=1}
            %y: f32[3,4,5] = Mul(%n, %k)
        }""",
        ["scale-group-norm at y was not applied: the constant is not one for each channel"],
    )


def test_a_shift_of_another_shape_stays() -> None:
    check_refused(
        RULES,
        """(%x: f32[2,3,4]) -> (%y) {
            const %s: f32[4]
            const %k: f32[3,1]
            %n: f32[2,3,4] = LayerNormalization(%x, %s)
            %y: f32[2,3,4] = Add(%n, %k)
        }""",
        [
            "shift-normalization at y was not applied: "
            "a parameter is not one constant for each normalized element"
        ],
    )


def test_constants_that_broadcast_the_input() -> None:
    check_refused(
        RULES,
        """(%x: f32[3,4]) -> (%y) {
            const %three: f32[1,1,1] = [3.0]
            const %six: f32[] = [6.0]
            %a: f32[1,3,4] = Add(%x, %three)
            %h: f32[1,3,4] = Clip(%a) {min=0.0, max=6.0}
            %y: f32[1,3,4] = Div(%h, %six)
        }""",
        ["form-hard-sigmoid at y was not applied: a constant broadcasts the input"],
    )
