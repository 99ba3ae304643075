"""Slices formed from Gather and moved up."""

from __future__ import annotations

from tests.rewrite.checks import check, check_refused, nodes_of, simplified
from weft.rewrite.slices import RULES


def test_gather_at_one_index() -> None:
    check(
        RULES,
        """(%x: f32[N,3,4]) -> (%y, %z) {
            const %i: i64[] = [-1]
            const %j: i64[1,1] = [0]
            %y: f32[N,4] = Gather(%x, %i) {axis=1}
            %z: f32[N,1,1,4] = Gather(%x, %j) {axis=-2}
        }""",
        """
        %slice_out: f32[N,1,4] = Slice(%x) {starts=(2,), ends=(3,), axes=(1,)}
        %y: f32[N,4] = Reshape(%slice_out) {shape=(0, 4)}
        %slice_1_out: f32[N,1,4] = Slice(%x) {starts=(0,), ends=(1,), axes=(1,)}
        %z: f32[N,1,1,4] = Reshape(%slice_1_out) {shape=(0, 1, 1, 4)}
        """,
        {"gather-to-slice": 2},
    )
    check_refused(
        RULES,
        """(%x: f32[3,4]) -> (%y) {
            const %i: i64[2] = [0, 2]
            %y: f32[2,4] = Gather(%x, %i)
        }""",
        [],
    )


def test_before_a_transpose() -> None:
    check(
        RULES,
        """(%x: f32[2,3,4]) -> (%y, %z) {
            %t: f32[4,2,3] = Transpose(%x) {perm=(2,0,1)}
            %y: f32[4,1,2] = Slice(%t) {starts=(1,1), ends=(2,3), axes=(1,-1)}
            %z: f32[2,2,3] = Slice(%t) {starts=(3,), ends=(-9,), steps=(-2,)}
        }""",
        """
        %slice_out: f32[1,2,4] = Slice(%x) {starts=(1, 1), ends=(2, 3)}
        %y: f32[4,1,2] = Transpose(%slice_out) {perm=(2, 0, 1)}
        %slice_1_out: f32[2,3,2] = Slice(%x) {starts=(3,), ends=(-9,), axes=(2,), steps=(-2,)}
        %z: f32[2,2,3] = Transpose(%slice_1_out) {perm=(2, 0, 1)}
        """,
        {"slice-before-transpose": 2},
    )
    check_refused(
        RULES,
        """(%x: f32[2,3]) -> (%y, %z) {
            %t: f32[3,2] = Transpose(%x)
            %y: f32[1,2] = Slice(%t) {starts=(1,), ends=(2,)}
            %z: f32[3,2] = Exp(%t)
        }""",
        ["slice-before-transpose at y was not applied: what is sliced is read as a whole too"],
    )


def test_before_a_view() -> None:
    check(
        RULES,
        """(%x: f32[2,1,3]) -> (%y) {
            %v: f32[1,2,3] = Reshape(%x) {shape=(1,2,3)}
            %y: f32[1,1,3] = Slice(%v) {starts=(1,), ends=(2,), axes=(1,)}
        }""",
        """
        %slice_out: f32[1,1,3] = Slice(%x) {starts=(1,), ends=(2,)}
        """.replace("slice_out", "y"),
        {"slice-before-view": 1},
    )
    check_refused(
        RULES,
        """(%x: f32[2,3]) -> (%y) {
            %v: f32[3,2] = Reshape(%x) {shape=(3,2)}
            %y: f32[1,2] = Slice(%v) {starts=(1,), ends=(2,)}
        }""",
        [],
    )


def test_queries_keys_and_values_are_cut_without_a_transpose() -> None:
    graph, _ = simplified(
        """(%x: f32[5,1,24]) -> (%q, %k) {
            const %zero: i64[] = [0]
            const %one: i64[] = [1]
            %r: f32[5,1,3,8] = Reshape(%x) {shape=(5,1,3,8)}
            %u: f32[1,5,1,3,8] = Unsqueeze(%r) {axes=(0,)}
            %t: f32[3,5,1,1,8] = Transpose(%u) {perm=(3,1,2,0,4)}
            %s: f32[3,5,1,8] = Squeeze(%t) {axes=(3,)}
            %g: f32[5,1,8] = Gather(%s, %zero)
            %h: f32[5,1,8] = Gather(%s, %one)
            %q: f32[5,8] = Reshape(%g) {shape=(5,8)}
            %k: f32[5,8] = Reshape(%h) {shape=(5,8)}
        }"""
    )
    assert nodes_of(graph) == [
        "%reshape_1_out: f32[5,3,1,8] = Reshape(%x) {shape=(5, 3, 1, 8)}",
        "%slice_2_out: f32[5,1,1,8] = Slice(%reshape_1_out) {starts=(0,), ends=(1,), axes=(1,)}",
        "%slice_3_out: f32[5,1,1,8] = Slice(%reshape_1_out) {starts=(1,), ends=(2,), axes=(1,)}",
        "%q: f32[5,8] = Reshape(%slice_2_out) {shape=(5, 8)}",
        "%k: f32[5,8] = Reshape(%slice_3_out) {shape=(5, 8)}",
    ]
