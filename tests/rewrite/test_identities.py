"""Nodes that hand their input on."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite.identities import RULES


@pytest.mark.parametrize(
    "node",
    [
        "Identity(%a)",
        "Dropout(%a)",
        "Cast(%a) {to=f32}",
        "Reshape(%a) {shape=(2,-1,4)}",
        "Flatten(%b) {axis=1}",
        "Slice(%a) {starts=(0,), ends=(100,), axes=(1,)}",
        "Concat(%a) {axis=0}",
        "Expand(%a) {shape=(1,4)}",
        "Tile(%a) {repeats=(1,1,1)}",
        "Pad(%a) {pads=(0,0,0,0,0,0)}",
        "Transpose(%a) {perm=(0,1,2)}",
        "Sum(%a)",
        "Split(%a) {split=(3,), axis=1}",
        "MaxPool(%a) {kernel=(1,)}",
        "AveragePool(%a) {kernel=(1,)}",
        "Mul(%a, %one)",
        "Div(%a, %one)",
        "Add(%zero, %a)",
        "Sub(%a, %zero)",
        "Pow(%a, %one)",
    ],
)
def test_is_removed(node: str) -> None:
    shape = "2,3" if "%b" in node else "2,3,4"
    name = "remove-no-op"
    name = "remove-multiply-by-one" if "%one" in node else name
    name = "remove-add-zero" if "%zero" in node else name
    node = node.replace("%b", "%a")
    check(
        RULES,
        f"""(%x: f32[{shape}]) -> (%y) {{
            const %one: f32[1,1] = [1.0]
            const %zero: f32[] = [0.0]
            %a: f32[{shape}] = Neg(%x)
            %i: f32[{shape}] = {node}
            %y: f32[{shape}] = Abs(%i)
        }}""",
        f"%a: f32[{shape}] = Neg(%x)\n%y: f32[{shape}] = Abs(%a)",
        {name: 1},
    )


@pytest.mark.parametrize(
    "node",
    [
        "Slice(%x) {starts=(-1,), ends=(-100,), axes=(1,), steps=(-1,)}",
        "Transpose(%x) {perm=(1,0,2)}",
        "Pad(%x) {pads=(1,0,0,-1,0,0)}",
        "Mul(%x, %two)",
        "Add(%x, %two)",
        "Sub(%one, %x)",
        "MaxPool(%x) {kernel=(3,), pads=(1,1)}",
    ],
)
def test_is_kept(node: str) -> None:
    check_refused(
        RULES,
        f"""(%x: f32[3,3,4]) -> (%y) {{
            const %two: f32[4] = [1.0, 1.0, 2.0, 0.0]
            const %one: f32[] = [1.0]
            %y: f32[3,3,4] = {node}
        }}""",
        [],
    )


def test_a_mask_that_is_read_keeps_dropout() -> None:
    check_refused(
        RULES,
        """(%x: f32[2]) -> (%y, %m) {
            %y: f32[2], %m: bool[2] = Dropout(%x)
        }""",
        [],
    )


def test_a_graph_output_keeps_its_name() -> None:
    check(
        RULES,
        """(%x: f32[2]) -> (%y) {
            %a: f32[2] = Neg(%x)
            %b: f32[2] = Identity(%a)
            %y: f32[2] = Dropout(%b)
        }""",
        "%y: f32[2] = Neg(%x)",
        {"remove-no-op": 2},
    )


def test_several_outputs_that_would_be_one_stay_apart() -> None:
    check(
        RULES,
        """(%x: f32[2]) -> (%x, %y, %z, %a) {
            %y: f32[2] = Dropout(%x)
            %a: f32[2] = Neg(%x)
            %z: f32[2] = Identity(%a)
        }""",
        """
        %y: f32[2] = Identity(%x)
        %a: f32[2] = Neg(%x)
        %z: f32[2] = Identity(%a)
        """,
        {"remove-no-op": 1},
    )


def test_casts() -> None:
    check(
        RULES,
        """(%x: i8[4]) -> (%y) {
            %a: f32[4] = Cast(%x) {to=f32}
            %y: i64[4] = Cast(%a) {to=i64}
        }""",
        "%y: i64[4] = Cast(%x) {to=i64}",
        {"merge-casts": 1},
    )
    check(
        RULES,
        """(%x: f32[4]) -> (%y) {
            %a: f64[4] = Cast(%x) {to=f64}
            %b: f32[4] = Cast(%a) {to=f32}
            %y: f32[4] = Neg(%b)
        }""",
        "%y: f32[4] = Neg(%x)",
        {"merge-casts": 1, "remove-no-op": 1},
    )
    check_refused(
        RULES,
        """(%x: f32[4]) -> (%y) {
            %a: i8[4] = Cast(%x) {to=i8}
            %y: f32[4] = Cast(%a) {to=f32}
        }""",
        ["merge-casts at y was not applied: i8 does not hold every f32"],
    )


def test_relu_twice_with_another_reader() -> None:
    check(
        RULES,
        """(%x: f32[4]) -> (%y, %z) {
            %a: f32[4] = Relu(%x)
            %b: f32[4] = Relu(%a)
            %y: f32[4] = Neg(%a)
            %z: f32[4] = Exp(%b)
        }""",
        """
        %a: f32[4] = Relu(%x)
        %y: f32[4] = Neg(%a)
        %z: f32[4] = Exp(%a)
        """,
        {"merge-relu": 1},
    )


def test_multiplying_by_one_that_broadcasts_stays() -> None:
    check_refused(
        RULES,
        """(%x: f32[1,4]) -> (%y) {
            const %one: f32[2,1] = [1.0, 1.0]
            %y: f32[2,4] = Mul(%x, %one)
        }""",
        [],
    )
