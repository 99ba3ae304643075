"""What exported networks take of the stack, painted, beside what their toolkits say.

    python -m bench.stack                     everything: half an hour
    python -m bench.stack --names digits      this network only
    python -m bench.stack --levels 0 3        these levels of optimization only
    python -m bench.stack --targets cortex-m4 cortex-m55    these targets only

Every network is exported as strict C89 and C99 for any machine and built by gcc and clang at
every level, and by arm-none-eabi-gcc for a Cortex-M4 that QEMU emulates. Networks of bytes are
exported for a Cortex-M4 and a Cortex-M55, too, whose kernels call functions in assembly, with the
kernels that are chosen for speed and those that are by default. Compilers that are not there are
left out. The self-test of the toolkit paints the stack and counts. Compared are the
estimate in the header, what the build says that it takes (`-fstack-usage`, summed along the
calls), and what was painted over. The exit status is 1 if that was more.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import weft
from bench.figures import markdown
from bench.folders import models_folder
from weft import layers, ops
from weft.codegen.emit import Files
from weft.ops.values import Value
from weft.runtime.measure import figures

ROOT = Path(__file__).resolve().parents[1]
BOARD = ROOT / "examples" / "cortex-m"
STANDARDS = ("c89", "c99")
LEVELS = ("0", "2", "3", "s")
CORTEX_M4 = ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-mthumb")
CORTEX_M55 = ("-mcpu=cortex-m55", "-mfloat-abi=hard", "-mthumb")
GOALS = ("speed", "balanced")
_USED = re.compile(r"^stack: (?:at least )?(\d+) bytes used, \w+ is (\d+)", re.M)


@dataclass(frozen=True)
class Machine:
    """A compiler, and how what it makes is run.

    Attributes:
        name: of the column.
        compiler: the command with what chooses the processor.
        link: more for linking.
        emulator: the command that runs a program, if it is for another machine.
        target: what it builds.
    """

    name: str
    compiler: tuple[str, ...]
    link: tuple[str, ...] = ()
    emulator: tuple[str, ...] = ()
    target: str = "generic"

    @property
    def missing(self) -> str:
        """The first of its commands that is not there."""
        needed = [self.compiler[0], *self.emulator[:1]]
        return next((each for each in needed if shutil.which(each) is None), "")


def emulated(name: str, flags: tuple[str, ...], board: str, script: str, target: str) -> Machine:
    """A board that QEMU emulates, with one of the examples' linker scripts."""
    return Machine(
        name,
        ("arm-none-eabi-gcc", *flags),
        ("--specs=rdimon.specs", "-T", str(BOARD / script), str(BOARD / "startup.c")),
        (
            *("qemu-system-arm", "-M", board, "-nographic", "-monitor", "none", "-serial", "none"),
            *("-semihosting-config", "enable=on,target=native", "-kernel"),
        ),
        target,
    )


_M4, _M55 = (CORTEX_M4, "mps2-an386", "mps2.ld"), (CORTEX_M55, "mps3-an547", "mps3.ld")
MACHINES = (
    Machine("gcc", ("gcc",)),
    Machine("clang", ("clang",)),
    emulated("Cortex-M4", *_M4, "generic"),
    emulated("Cortex-M4 assembly", *_M4, "cortex-m4"),
    emulated("Cortex-M55 assembly", *_M55, "cortex-m55"),
)


@dataclass(frozen=True)
class Painted:
    """What one build took.

    Attributes:
        network, standard, target, goal: what was built; an empty goal is the default.
        machine, level: how.
        estimate: what the header says for any compiler.
        measured: what this compiler says.
        used: what was painted over.
    """

    network: str
    standard: str
    target: str
    goal: str
    machine: str
    level: str
    estimate: int
    measured: int | None
    used: int

    @property
    def exceeded(self) -> bool:
        """Whether it took more than was said."""
        return self.used > min(self.estimate, self.measured or self.estimate)


# --- networks -----------------------------------------------------------------------------------


def _leaky(x: Value) -> Value:
    return ops.leaky_relu(x, alpha=0.1)


def _pool(x: Value) -> Value:
    return ops.max_pool(x, kernel=(2, 2), strides=(2, 2))


def robot(shape: str, widths: Sequence[int], pooled: Sequence[int]) -> weft.Net:
    """A detector of robots with random weights: 3x3 convolutions, the last 1x1.

    Args:
        shape: of the image.
        widths: channels that convolutions make.
        pooled: places of those that a pool follows.
    """
    found: list[Callable[..., Any]] = []
    for place, width in enumerate(widths[:-1]):
        pool = [_pool] if place in pooled else []
        found += [layers.Conv(width, 3, padding=1), *pool, _leaky]
    return weft.trace(weft.sequential([*found, layers.Conv(widths[-1], 1)]), f"f32[{shape}]")


def networks() -> Mapping[str, Callable[[], weft.Net]]:
    """The networks by name."""
    tiny = models_folder() / "tiny"
    found: dict[str, Callable[[], weft.Net]] = {
        "digits": lambda: weft.load(ROOT / "examples" / "digits" / "digits.onnx"),
        "robot30": lambda: robot("1,3,30,40", (8, 12, 8, 16, 20, 7), (0, 2)),
        "robot60": lambda: robot("1,3,60,80", (16, 24, 16, 32, 40, 7), (0, 1, 2)),
    }
    for name in ("ad", "ic", "kws", "vww"):
        for kind in ("float.onnx", "int8.tflite"):
            path = tiny / f"{name}_{kind}"
            if path.is_file():
                found[path.stem] = lambda path=path: weft.load(path)
    return found


# --- measuring ----------------------------------------------------------------------------------


def painted(files: Files, folder: Path, machine: Machine, level: str) -> tuple[int, int | None]:
    """What a build of a toolkit takes of the stack: painted over, and by its compiler.

    Args:
        files: its sources.
        folder: where the toolkit lies.
        machine: what builds and runs it.
        level: of optimization.
    """
    name, flags = files.name, [f"-std={files.flavour.standard}", f"-O{level}"]
    with tempfile.TemporaryDirectory() as parent:
        made, program = Path(parent) / f"{name}.o", Path(parent) / "test"
        compile = [*machine.compiler, *flags]
        _run([*compile, "-fstack-usage", "-c", str(folder / f"{name}.c"), "-o", str(made)])
        test = str(folder / f"{name}_test.c")
        # Startup code is of a later standard; options after -std replace it.
        _run([*compile, test, str(made), "-std=gnu11", *machine.link, "-lm", "-o", str(program)])
        said = _run([*machine.emulator, str(program)], check=False)
        stack, _ = figures(files, [made])
    used = _USED.search(said)
    if used is None:
        raise SystemExit(f"{name} built by {machine.name} -O{level}:\n{said}")
    return int(used[1]), stack


def _run(command: Sequence[str], check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-4000:]}")
    return done.stdout + done.stderr


def campaign(
    names: Sequence[str], machines: Sequence[Machine], levels: Sequence[str]
) -> Iterator[Painted]:
    """Everything that is asked for, one build after the other."""
    for name in names:
        net = networks()[name]()
        for standard, target, goal in _exports(name, machines):
            built = [each for each in machines if each.target == target]
            with tempfile.TemporaryDirectory() as parent:
                folder = Path(parent) / name
                files = net.export(folder, target, flavour=standard, name=name, optimize=goal).files
                for machine, level in product(built, levels):
                    used, measured = painted(files, folder, machine, level)
                    yield Painted(
                        *(name, standard, target, goal, machine.name, level),
                        *(files.stack_bytes, measured, used),
                    )


def _exports(name: str, machines: Sequence[Machine]) -> Iterator[tuple[str, str, str]]:
    """Standards, targets and goals that a network is exported for."""
    for target in dict.fromkeys(each.target for each in machines):
        if target == "generic":
            yield from ((standard, target, "") for standard in STANDARDS)
        elif name.endswith("_int8"):
            yield from (("c99", target, goal) for goal in GOALS)


def table(rows: Sequence[Painted]) -> str:
    """The most of each toolkit by machine: painted over, and what its compiler said."""
    machines = list(dict.fromkeys(each.machine for each in rows))
    lines: list[list[str]] = []
    for toolkit in dict.fromkeys(map(_toolkit, rows)):
        mine = [each for each in rows if _toolkit(each) == toolkit]
        line = [*toolkit, f"{mine[0].estimate:,}"]
        for machine in machines:
            built = [each for each in mine if each.machine == machine]
            if built:
                most = max(built, key=_used)
                line.append(f"{most.used:,} of {most.measured or 0:,} (-O{most.level})")
            else:
                line.append("")
        lines.append(line)
    return "\n".join(markdown(["network", "C", "target", "goal", "estimate", *machines], lines))


def _toolkit(row: Painted) -> tuple[str, ...]:
    return row.network, row.standard, row.target, row.goal


def _used(row: Painted) -> int:
    return row.used


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--names", nargs="*", default=list(networks()))
    parser.add_argument("--levels", nargs="*", default=list(LEVELS))
    parser.add_argument("--targets", nargs="*", help="machines that build these targets")
    parser.add_argument("--machines", nargs="*", default=[each.name for each in MACHINES])
    parser.add_argument("--out", type=Path, help="a file for all rows, as JSON")
    given = parser.parse_args()
    machines = [
        each
        for each in MACHINES
        if each.name in given.machines and (not given.targets or each.target in given.targets)
    ]
    for each in machines:
        if each.missing:
            print(f"{each.name} is left out: there is no {each.missing}")
    rows: list[Painted] = []
    for row in campaign(given.names, [each for each in machines if not each.missing], given.levels):
        rows.append(row)
        told = f"{row.network} {row.standard} {row.goal} {row.machine} -O{row.level}"
        verdict = "EXCEEDED" if row.exceeded else "ok"
        print(
            f"{told}: {row.used} of {row.measured}, estimate {row.estimate}: {verdict}", flush=True
        )
    print(table(rows))
    if given.out is not None:
        given.out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    exceeded = sum(row.exceeded for row in rows)
    print(f"{len(rows)} builds, {exceeded} took more than was said")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
