"""``weft verify`` and ``weft bench`` for a target that QEMU emulates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from weft.api import Net
from weft.api.counted import counted
from weft.api.repeated import Sanitized, sanitized
from weft.cli.files import gather_inputs
from weft.cli.output import CommandState, say, table, working, write_json
from weft.ir.short_names import names_of
from weft.options import Options
from weft.runtime.compare import Difference, compare
from weft.runtime.emulators import Emulated, emulated, machine_that_counts
from weft.runtime.emulators.machines import MACHINES
from weft.targets.boards import processor
from weft.targets.find import target


def is_emulated(options: Options) -> bool:
    """Whether a target was named that QEMU emulates."""
    name = options.target
    return isinstance(name, str) and bool(name) and processor(target(name)) in MACHINES


def _run(net: Net, inputs: Mapping[str, np.ndarray], options: Options) -> Emulated:
    with working(f"building, and running on an emulated {options.target}"):
        files = net.source(options=options)
        return emulated(files, [tuple(inputs.values())], str(options.target))


def verify_emulated(
    state: CommandState,
    net: Net,
    inputs: Mapping[str, np.ndarray],
    expect: Path | None,
    allowed: Callable[[Difference], bool],
    options: Options,
    sanitize: bool,
) -> bool:
    """Compares the outputs of an emulated run; whether they agree, and sanitizers found nothing.

    Args:
        state: of the command.
        net: what runs.
        inputs: by name.
        expect: arrays that the outputs must be; the NumPy references' if there is no file.
        allowed: whether a difference is.
        options: with the target.
        sanitize: whether its C runs under sanitizers, too, on this machine.
    """
    done = _run(net, inputs, options)
    checked = None
    if sanitize:
        with working("running it under sanitizers"):
            checked = sanitized(net, inputs, options)
    found = dict(zip(net.outputs, done.outputs[0], strict=True))
    if expect is not None:
        expected: Mapping[str, np.ndarray] = gather_inputs([str(expect)], net.outputs)
    else:
        expected = dict(zip(found, net.reference(*inputs.values()), strict=True))
    rows = [compare(name, found[name], expected[name]) for name in found]
    agrees = all(map(allowed, rows))
    _show(state, rows, done, agrees, str(options.target), expect, checked)
    return agrees and (checked is None or checked.clean)


def _show(
    state: CommandState,
    rows: list[Difference],
    done: Emulated,
    agrees: bool,
    target: str,
    expect: Path | None,
    checked: Sanitized | None,
) -> None:
    against = expect.name if expect is not None else "reference"
    instructions = done.instructions[0] if done.counts else None
    if state.json:
        outputs = [each.record() for each in rows]
        passed = agrees and (checked is None or checked.clean)
        record = {"target": target, "against": against, "passed": passed}
        more = {} if checked is None else checked.record()
        write_json({**record, "instructions": instructions, "outputs": outputs, **more})
        return
    for each in rows:
        bits = "the same bits" if each.elements == 0 else f"{each.elements:,} of {each.size:,}"
        say(f"{each.value} {each.type}: largest difference {each.largest:.3g} ({bits})")
    verdict = "agrees with" if agrees else "differs from"
    counted = f", {instructions:,} instructions" if instructions is not None else ""
    say(f"{target} under QEMU {verdict} {against}{counted}")
    if checked is not None:
        say(str(checked))


def bench_emulated(
    state: CommandState, net: Net, inputs: Mapping[str, np.ndarray], options: Options
) -> None:
    """Shows the instructions of one run, whole, by layer and by function.

    Raises:
        UserError: QEMU cannot count them.
    """
    machine_that_counts(str(options.target), "Use a Cortex-M or an aarch64 target.")
    with working(f"building, and running on an emulated {options.target}"):
        made = counted(net, tuple(inputs.values()), options)
    done = made.emulated
    counts, whole = done.counts[0], done.instructions[0]
    if state.json:
        steps = [asdict(each) for each in made.steps]
        record = {"target": options.target, "instructions": whole, "functions": counts}
        write_json({**record, "steps": steps})
        return
    names = names_of(net.graph)
    steps = [
        (
            str(each.step),
            " + ".join(each.ops),
            each.scheme,
            ", ".join(names.get(layer, layer) for layer in each.layers),
            f"{each.macs:,}" if each.macs else "",
            f"{each.instructions:,}",
            f"{each.per_mac:.2f}" if each.macs else "",
        )
        for each in made.steps
    ]
    headings = ("step", "does", "scheme", "layers", "MACs", "instructions", "per MAC")
    table(headings, steps, (0, 4, 5, 6), ("scheme", "layers"))
    say("")
    rows = [(name, f"{count:,}", f"{count / whole:.1%}") for name, count in counts.items()]
    rows.append(("whole", f"{whole:,}", "100.0%"))
    table(("function", "instructions", "share"), rows, (1, 2))
