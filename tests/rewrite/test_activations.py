"""Activations past pooling, and bounds merged."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite.activations import RULES


@pytest.mark.parametrize("activation", ["Relu(%{})", "Clip(%{}) {{min=0.0, max=6.0}}"])
def test_past_max_pool(activation: str) -> None:
    pool = "{kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)}"
    check(
        RULES,
        f"""(%x: f32[N,2,8,8]) -> (%y) {{
            %r: f32[N,2,8,8] = {activation.format("x")}
            %y: f32[N,2,4,4] = MaxPool(%r) {{kernel=(3,3), strides=(2,2), pads=(1,1,1,1)}}
        }}""",
        f"""
        %maxpool_out: f32[N,2,4,4] = MaxPool(%x) {pool}
        %y: f32[N,2,4,4] = {activation.format("maxpool_out")}
        """,
        {"relu-past-max-pool": 1},
    )


def test_past_max_pool_with_channels_last() -> None:
    pool = "{kernel=(2, 2), strides=(2, 2)}"
    check(
        RULES,
        """(%x: f32[1,8,8,2]) -> (%y) {
            %r: f32[1,8,8,2] = Relu(%x)
            %y: f32[1,4,4,2] = MaxPoolChannelsLast(%r) {kernel=(2,2), strides=(2,2)}
        }""",
        f"""
        %maxpoolchannelslast_out: f32[1,4,4,2] = MaxPoolChannelsLast(%x) {pool}
        %y: f32[1,4,4,2] = Relu(%maxpoolchannelslast_out)
        """,
        {"relu-past-max-pool": 1},
    )


def test_past_global_max_pool_to_a_graph_output() -> None:
    graph, _ = check(
        RULES,
        """(%x: f32[1,2,4]) -> (%y) {
            %r: f32[1,2,4] = Relu(%x)
            %y: f32[1,2,1] = GlobalMaxPool(%r)
        }""",
        "%globalmaxpool_out: f32[1,2,1] = GlobalMaxPool(%x)\n"
        "%y: f32[1,2,1] = Relu(%globalmaxpool_out)",
        {"relu-past-max-pool": 1},
    )
    # The nodes keep their names, though their order changed.
    assert [node.name for node in graph.nodes] == ["y", "r"]


def test_kept_before_the_pool() -> None:
    # Read by another, and with indices that are read.
    check_refused(
        RULES,
        """(%x: f32[1,2,8]) -> (%y, %z, %i) {
            %r: f32[1,2,8] = Relu(%x)
            %y: f32[1,2,4] = MaxPool(%r) {kernel=(2,), strides=(2,)}
            %z: f32[1,2,8] = Exp(%r)
            %s: f32[1,2,8] = Relu(%z)
            %v: f32[1,2,4], %i: i64[1,2,4] = MaxPool(%s) {kernel=(2,), strides=(2,)}
        }""",
        [],
    )
    check_refused(
        RULES,
        """(%x: f32[1,2,4]) -> (%y) {
            %r: f32[1,2,4] = Relu(%x)
            %y: f32[1,2,8] = MaxPool(%r) {kernel=(1,), pads=(2,2)}
        }""",
        [
            "relu-past-max-pool at y was not applied: "
            "a window lies in the padding, where the pool gives minus infinity"
        ],
    )


@pytest.mark.parametrize(
    ("first", "second", "after"),
    [
        ("Relu(%x)", "Clip(%r) {max=6.0}", "Clip(%x) {min=0, max=6.0}"),
        ("Clip(%x) {min=-1.0, max=6.0}", "Relu(%r)", "Clip(%x) {min=0, max=6.0}"),
        ("Clip(%x) {min=-1.0, max=6.0}", "Clip(%r) {max=4.0}", "Clip(%x) {min=-1.0, max=4.0}"),
        ("Clip(%x) {min=-1.0}", "Relu(%r)", "Relu(%x)"),
    ],
)
def test_bounds(first: str, second: str, after: str) -> None:
    check(
        RULES,
        f"""(%x: f32[4]) -> (%y) {{
            %r: f32[4] = {first}
            %y: f32[4] = {second}
        }}""",
        f"%y: f32[4] = {after}",
        {"merge-bounds": 1},
    )


def test_bounds_apart() -> None:
    check_refused(
        RULES,
        """(%x: f32[4]) -> (%y) {
            %r: f32[4] = Clip(%x) {min=2.0, max=3.0}
            %y: f32[4] = Clip(%r) {min=4.0, max=5.0}
        }""",
        ["merge-bounds at y was not applied: the bounds leave nothing between them"],
    )


def test_clip_from_zero() -> None:
    check(
        RULES,
        "(%x: f32[4]) -> (%y) { %y: f32[4] = Clip(%x) {min=0.0} }",
        "%y: f32[4] = Relu(%x)",
        {"clip-to-relu": 1},
    )
