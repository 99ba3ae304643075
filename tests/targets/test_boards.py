"""Boards: records whose memories have sizes."""

from __future__ import annotations

import pytest

from weft.errors import UserError
from weft.targets.boards import board, boards, flash_bytes, processor, ram_bytes
from weft.targets.find import target

KIB = 1024
BOARDS = {
    "alif-e7": ("cortex-m55", 5120, 5632),
    "esp32c3": ("rv32imc", 384, 4096),
    "nrf52840": ("cortex-m4", 256, 1024),
    "nrf5340": ("cortex-m33", 512, 1024),
    "raspberry-pi-4": ("cortex-a72", 1024 * 1024, 0),
    "rp2040": ("cortex-m0plus", 264, 2048),
    "stm32f746": ("cortex-m7", 320, 1024),
    "stm32f767": ("cortex-m7", 512, 2048),
    "stm32h743": ("cortex-m7", 928, 2048),
    "stm32l4r5": ("cortex-m4", 640, 2048),
    "stm32u585": ("cortex-m33", 768, 2048),
}


def test_boards_have_a_processor_and_sizes() -> None:
    found = {
        name: (processor(target(name)), ram_bytes(target(name)), flash_bytes(target(name)))
        for name in boards()
    }
    assert found == {
        name: (core, ram * KIB, flash * KIB) for name, (core, ram, flash) in BOARDS.items()
    }


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_says_where_a_network_may_lie(name: str) -> None:
    record = target(name)
    assert record.clock
    for what in ("code", "weights", "arena", "stack"):
        assert any(each.may_hold(what) for each in record.memories)
    assert not any(each.may_hold("arena") for each in record.memories if each.name == "ITCM")


def test_a_processor_is_no_board() -> None:
    assert processor(target("zen5")) == "zen5"
    with pytest.raises(UserError) as refusal:
        board("cortex-m4")
    assert refusal.value.fix == (
        f"Use --target cortex-m4 with --ram and --flash, or one of {', '.join(BOARDS)}."
    )
