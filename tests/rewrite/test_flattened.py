"""Images that dense layers read channels last."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import check, check_refused, graph_of, simplified
from weft.api.parameters import parametric
from weft.kernels.selection import implementer
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.make import make
from weft.rewrite.engine import rewrite
from weft.rewrite.flattened import RULES
from weft.targets.find import target

_POOL = "MaxPool(%i) {kernel=(2, 2), strides=(2, 2)}"


@pytest.mark.parametrize("view", ["Flatten(%x)", "Reshape(%x) {shape=(2, 12)}"])
@pytest.mark.parametrize(
    ("constants", "product"),
    [
        ("const %w: f32[12,5]", "MatMul(%v, %w)"),
        ("const %w: f32[12,5]\nconst %b: f32[5]", "Gemm(%v, %w, %b)"),
        ("const %w: f32[5,12]", "Gemm(%v, %w) {transB=1}"),
    ],
)
def test_weights_follow_the_image(view: str, constants: str, product: str) -> None:
    check(
        RULES,
        f"""(%i: f32[2,3,4,4]) -> (%y) {{
            {constants}
            %x: f32[2,3,2,2] = {_POOL}
            %v: f32[2,12] = {view}
            %y: f32[2,5] = {product}
        }}""",
        f"""%x: f32[2,3,2,2] = {_POOL}
            %transpose_out: f32[2,2,2,3] = Transpose(%x) {{perm=(0, 2, 3, 1)}}
            %reshape_out: f32[2,12] = Reshape(%transpose_out) {{shape=(2, 12)}}
            %y: f32[2,5] = {product.replace("%v", "%reshape_out").replace("%w", "%w_1")}""",
        {"flatten-channels-last": 1},
    )


def test_elementwise_ops_come_between() -> None:
    done, log = simplified(
        f"""(%i: f32[1,3,4,6]) -> (%y) {{
            const %w: f32[18,5]
            %p: f32[1,3,2,3] = {_POOL}
            %x: f32[1,3,2,3] = Tanh(%p)
            %v: f32[1,18] = Flatten(%x)
            %y: f32[1,5] = MatMul(%v, %w)
        }}"""
    )
    assert log.counts() == {"flatten-channels-last": 1}
    plan = make(done, OPS, implementer(target("generic")))
    # Nothing is copied but the caller's image.
    assert [[node.op for node in step.work.nodes] for step in plan.steps] == [
        ["Reorder"],
        ["MaxPool", "Tanh", "Transpose"],
        ["MatMul"],
    ]


def test_images_whose_channels_are_last_keep_their_order() -> None:
    done, log = simplified(
        """(%i: f32[1,4,6,3]) -> (%y) {
            const %w: f32[18,5]
            %x: f32[1,2,3,3] = MaxPoolChannelsLast(%i) {kernel=(2, 2), strides=(2, 2)}
            %v: f32[1,18] = Flatten(%x)
            %y: f32[1,5] = MatMul(%v, %w)
        }"""
    )
    assert "flatten-channels-last" not in log.counts()
    plan = make(expand(done, OPS), OPS, implementer(target("generic")))
    made = [{node.op for node in getattr(step.work, "nodes", ())} for step in plan.steps]
    assert {"Reshape"} not in made


@pytest.mark.parametrize(
    ("before", "reasons"),
    [
        ("%x: f32[1,3,2,2] = Tanh(%i)\n%v: f32[1,12] = Flatten(%x)", []),
        (
            f"%x: f32[1,3,2,2] = {_POOL}\n%v: f32[3,4] = Reshape(%x) {{shape=(3, 4)}}",
            [
                "flatten-channels-last at y was not applied: "
                "the view keeps something else than the batch apart",
            ],
        ),
    ],
)
def test_refusals(before: str, reasons: list[str]) -> None:
    image = "1,3,2,2" if "Tanh" in before else "1,3,4,4"
    rows, columns = (1, 12) if "Tanh" in before else (3, 4)
    check_refused(
        RULES,
        f"""(%i: f32[{image}]) -> (%y) {{
            const %w: f32[{columns},5]
            {before}
            %y: f32[{rows},5] = MatMul(%v, %w)
        }}""",
        reasons,
    )


def test_weights_that_others_read_stay() -> None:
    check_refused(
        RULES,
        f"""(%i: f32[1,3,4,4]) -> (%y, %z) {{
            const %w: f32[12,12]
            %x: f32[1,3,2,2] = {_POOL}
            %v: f32[1,12] = Flatten(%x)
            %y: f32[1,12] = MatMul(%v, %w)
            %z: f32[1,12] = MatMul(%y, %w)
        }}""",
        ["flatten-channels-last at y was not applied: the weights are used elsewhere"],
    )


def test_many_weights_that_are_given_at_run_time_stay_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weft.rewrite.flattened.IN_PLACE_BYTES", 4 * 12 * 5)
    wanted = [
        "flatten-channels-last at y was not applied: "
        "many weights that are given at run time stay where they are, the image is copied"
    ]
    for rows, known, reasons in ((1, False, wanted), (1, True, []), (2, False, [])):
        graph = graph_of(
            f"""(%i: f32[{rows},3,4,4]) -> (%y) {{
                const %w: f32[5,12]
                %x: f32[{rows},3,2,2] = {_POOL}
                %v: f32[{rows},12] = Flatten(%x)
                %y: f32[{rows},5] = Gemm(%v, %w) {{transB=1}}
            }}"""
        )
        _, log = rewrite(graph if known else parametric(graph, "runtime"), RULES)
        assert [*map(str, log.refused)] == reasons
        assert log.counts() == ({} if reasons else {"flatten-channels-last": 1})
