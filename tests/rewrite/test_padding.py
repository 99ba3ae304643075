"""Pads merged into what follows."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import check, check_refused
from weft.rewrite.padding import RULES


def test_into_convolution() -> None:
    check(
        RULES,
        """(%x: f32[N,2,6,6]) -> (%y) {
            const %w: f32[4,2,3,3]
            %p: f32[N,2,9,7] = Pad(%x) {pads=(0,0,1,0,0,0,2,1)}
            %y: f32[N,4,9,7] = Conv(%p, %w) {pads=(1,1,1,1)}
        }""",
        "%y: f32[N,4,9,7] = Conv(%x, %w) {pads=(2, 1, 3, 2)}",
        {"pad-into-conv": 1},
    )


@pytest.mark.parametrize(
    ("op", "weights", "after"),
    [
        ("ConvChannelsLast(%p, %w)", "const %w: f32[4,2,3,3]", "ConvChannelsLast(%x, %w)"),
        (
            "AveragePoolChannelsLast(%p) {kernel=(3,3)}",
            "",
            "AveragePoolChannelsLast(%x) {kernel=(3, 3), pads=(1, 0, 2, 1), count_include_pad=1}",
        ),
    ],
)
def test_with_channels_last(op: str, weights: str, after: str) -> None:
    channels = 4 if weights else 2
    rule = "pad-into-conv" if weights else "pad-into-average-pool"
    after += " {pads=(1, 0, 2, 1)}" if weights else ""
    check(
        RULES,
        f"""(%x: f32[1,6,6,2]) -> (%y) {{
            {weights}
            %p: f32[1,9,7,2] = Pad(%x) {{pads=(0,1,0,0,0,2,1,0)}}
            %y: f32[1,7,5,{channels}] = {op}
        }}""",
        f"%y: f32[1,7,5,{channels}] = {after}",
        {rule: 1},
    )


def test_a_pad_with_another_consumer_stays_for_it() -> None:
    check(
        RULES,
        """(%x: f32[1,2,6,6]) -> (%y, %z) {
            const %w: f32[4,2,3,3]
            const %zero: f32[1] = [0.0]
            %p: f32[1,2,8,8] = Pad(%x, %zero) {pads=(0,0,1,1,0,0,1,1)}
            %y: f32[1,4,6,6] = Conv(%p, %w)
            %z: f32[1,2,8,8] = Neg(%p)
        }""",
        """
        %p: f32[1,2,8,8] = Pad(%x, %zero) {pads=(0, 0, 1, 1, 0, 0, 1, 1)}
        %y: f32[1,4,6,6] = Conv(%x, %w) {pads=(1, 1, 1, 1)}
        %z: f32[1,2,8,8] = Neg(%p)
        """,
        {"pad-into-conv": 1},
    )


@pytest.mark.parametrize(
    ("pad", "reason"),
    [
        ("{pads=(0,0,1,1,0,0,1,1), value=1.0}", "the padding is not zero"),
        ("{pads=(0,0,1,1,0,0,1,1), mode=\"edge\"}", "the padding is of mode edge"),
        ("{pads=(0,1,1,1,0,-1,1,1)}", "the padding crops, or pads the batch or the channels"),
    ],
)  # fmt: skip
def test_refused_by_convolution(pad: str, reason: str) -> None:
    check_refused(
        RULES,
        f"""(%x: f32[1,2,6,6]) -> (%y) {{
            const %w: f32[4,2,3,3]
            %p: f32[1,2,8,8] = Pad(%x) {pad}
            %y: f32[1,4,6,6] = Conv(%p, %w)
        }}""",
        [f"pad-into-conv at y was not applied: {reason}"],
    )


def test_into_average_pool() -> None:
    check(
        RULES,
        """(%x: f32[1,2,6,6]) -> (%y) {
            %p: f32[1,2,8,8] = Pad(%x) {pads=(0,0,1,1,0,0,1,1)}
            %y: f32[1,2,6,6] = AveragePool(%p) {kernel=(3,3)}
        }""",
        "%y: f32[1,2,6,6] = AveragePool(%x) "
        "{kernel=(3, 3), pads=(1, 1, 1, 1), count_include_pad=1}",
        {"pad-into-average-pool": 1},
    )
    check(
        RULES,
        """(%x: f32[1,2,6,6]) -> (%y) {
            %p: f32[1,2,8,8] = Pad(%x) {pads=(0,0,1,1,0,0,1,1)}
            %y: f32[1,2,6,6] = AveragePool(%p) {kernel=(5,5), pads=(1,1,1,1), count_include_pad=1}
        }""",
        "%y: f32[1,2,6,6] = AveragePool(%x) "
        "{kernel=(5, 5), pads=(2, 2, 2, 2), count_include_pad=1}",
        {"pad-into-average-pool": 1},
    )


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        ("f32[1,2,8,8] = AveragePool(%p) {kernel=(3,3), pads=(1,1,1,1)}",
         "the pool pads too and does not count what it pads"),
        ("f32[1,2,4,4] = AveragePool(%p) {kernel=(2,2), strides=(2,2), ceil_mode=1}",
         "the pool rounds its output's size up"),
        ("f32[1,2,8,8] = AveragePool(%p) {kernel=(1,1), strides=(1,1), count_include_pad=1}",
         "a window would lie in the padding"),
    ],
)  # fmt: skip
def test_refused_by_average_pool(pool: str, reason: str) -> None:
    check_refused(
        RULES,
        f"""(%x: f32[1,2,6,6]) -> (%y) {{
            %p: f32[1,2,8,8] = Pad(%x) {{pads=(0,0,1,1,0,0,1,1)}}
            %y: {pool}
        }}""",
        [f"pad-into-average-pool at y was not applied: {reason}"],
    )


def test_into_max_pool() -> None:
    after = "MaxPool({}) {{kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)}}"
    check(
        RULES,
        """(%x: f32[1,2,7,7]) -> (%y) {
            %p: f32[1,2,9,9] = Pad(%x) {pads=(0,0,1,1,0,0,1,1), value=-inf}
            %y: f32[1,2,4,4] = MaxPool(%p) {kernel=(3,3), strides=(2,2)}
        }""",
        f"%y: f32[1,2,4,4] = {after.format('%x')}",
        {"pad-into-max-pool": 1},
    )
    for node in ("Relu(%x)", "Clip(%x) {min=0.0, max=6.0}"):
        check(
            RULES,
            f"""(%x: f32[1,2,7,7]) -> (%y) {{
                %r: f32[1,2,7,7] = {node}
                %p: f32[1,2,9,9] = Pad(%r) {{pads=(0,0,1,1,0,0,1,1)}}
                %y: f32[1,2,4,4] = MaxPool(%p) {{kernel=(3,3), strides=(2,2)}}
            }}""",
            f"%r: f32[1,2,7,7] = {node}\n%y: f32[1,2,4,4] = {after.format('%r')}",
            {"pad-into-max-pool": 1},
        )
    check_refused(
        RULES,
        """(%x: f32[1,2,7,7]) -> (%y) {
            %p: f32[1,2,9,9] = Pad(%x) {pads=(0,0,1,1,0,0,1,1)}
            %y: f32[1,2,4,4] = MaxPool(%p) {kernel=(3,3), strides=(2,2)}
        }""",
        ["pad-into-max-pool at y was not applied: the padding may be larger than what it pads"],
    )


def test_two_pads() -> None:
    check(
        RULES,
        """(%x: f32[2,3]) -> (%y) {
            %p: f32[3,5] = Pad(%x) {pads=(1,0,0,2), value=0.5}
            %y: f32[4,6] = Pad(%p) {pads=(0,1,1,0), value=0.5}
        }""",
        "%y: f32[4,6] = Pad(%x) {pads=(1, 1, 1, 2), value=0.5}",
        {"merge-pads": 1},
    )
    for second, reason in (
        ("{pads=(0,1,1,0)}", "they pad with different values"),
        ("{pads=(2,2,-1,-1), value=0.5}", "one of them crops"),
        ("{pads=(0,1,1,0), mode=\"edge\"}", "both must pad with a constant"),
    ):  # fmt: skip
        check_refused(
            RULES,
            f"""(%x: f32[2,3]) -> (%y) {{
                %p: f32[3,5] = Pad(%x) {{pads=(1,0,0,2), value=0.5}}
                %y: f32[4,6] = Pad(%p) {second}
            }}""",
            [f"merge-pads at y was not applied: {reason}"],
        )
