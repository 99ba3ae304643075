"""``weft verify`` and ``weft bench`` for a board at the other end of a serial line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from weft.api import Net
from weft.cli.files import gather_inputs
from weft.cli.output import CommandState, say, working, write_json
from weft.plan.program import Port
from weft.runtime.compare import Difference, compare
from weft.runtime.serial import BAUD, SerialBoard

RUNS = 5
"""Runs of ``weft bench``."""


def serial_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name a line."""
    for each in (
        click.option(
            "--baud", default=BAUD, show_default=True, type=click.IntRange(1), help="Of --serial."
        ),
        click.option(
            "--serial",
            metavar="DEVICE",
            help="Run on a board at this serial line, such as /dev/ttyACM0, which has been flashed "
            "with a toolkit's main.c, compiled with -DWEFT_SERIAL.",
        ),
    ):
        function = each(function)
    return function


def _ports(net: Net) -> tuple[list[Port], list[Port]]:
    held = dict(net.states)
    graph = net.bound().graph
    inputs = [name for name in graph.inputs if name not in held]
    outputs = [name for name in graph.outputs if name not in held.values()]
    return tuple(  # pyright: ignore[reportReturnType]
        [Port(name, graph.types[name].dtype, graph.types[name].dims) for name in names]
        for names in (inputs, outputs)
    )


def verify_board(
    state: CommandState,
    net: Net,
    inputs: Mapping[str, np.ndarray],
    expect: Path | None,
    allowed: Callable[[Difference], bool],
    line: tuple[str, int],
) -> bool:
    """Compares the outputs of a run on a board; whether they agree.

    Args:
        state: of the command.
        net: what runs there.
        inputs: by name; of states, zeros.
        expect: arrays that the outputs must be; the NumPy references' if there is no file.
        allowed: whether a difference is.
        line: device and baud rate.
    """
    takes, gives = _ports(net)
    with working(f"running on the board at {line[0]}"), SerialBoard(line[0], baud=line[1]) as board:
        name = board.check(takes, gives)
        if net.states:
            board.clear()
        done = board.run([inputs[port.name] for port in takes], gives)
    found = {port.name: array for port, array in zip(gives, done.outputs, strict=True)}
    if expect is not None:
        expected: Mapping[str, np.ndarray] = gather_inputs([str(expect)], net.outputs)
    else:
        expected = dict(zip(net.outputs, net.reference(*inputs.values()), strict=True))
    rows = [compare(name, found[name], expected[name]) for name in found]
    passed = all(map(allowed, rows))
    against = expect.name if expect is not None else "reference"
    _show(state, rows, f"{name} at {line[0]}", passed, against, done.cycles)
    return passed


def _show(
    state: CommandState,
    rows: list[Difference],
    board: str,
    passed: bool,
    against: str,
    cycles: int,
) -> None:
    if state.json:
        record = {"board": board, "against": against, "passed": passed, "cycles": cycles or None}
        write_json({**record, "outputs": [each.record() for each in rows]})
        return
    for each in rows:
        bits = "the same bits" if each.elements == 0 else f"{each.elements:,} of {each.size:,}"
        say(f"{each.value} {each.type}: largest difference {each.largest:.3g} ({bits})")
    counted = f", {cycles:,} cycles" if cycles else ""
    say(f"{board} {'agrees with' if passed else 'differs from'} {against}{counted}")


def bench_board(
    state: CommandState, net: Net, inputs: Mapping[str, np.ndarray], line: tuple[str, int]
) -> None:
    """Shows the cycles of some runs on a board."""
    takes, gives = _ports(net)
    with working(f"running on the board at {line[0]}"), SerialBoard(line[0], baud=line[1]) as board:
        name = board.check(takes, gives)
        given = [inputs[port.name] for port in takes]
        cycles = [board.run(given, gives).cycles for _ in range(RUNS)]
    if state.json:
        write_json({"board": name, "cycles": cycles})
    elif any(cycles):
        say(f"{name}: {min(cycles):,} cycles at least, {max(cycles):,} at most, of {RUNS} runs")
    else:
        say(f"{name}: its main.c counts no cycles (-DWEFT_CYCLES says how)")
