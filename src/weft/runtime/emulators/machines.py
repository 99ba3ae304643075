"""What QEMU emulates, by Weft's targets: the emulator, the cross compiler, the board's memories."""

from __future__ import annotations

import shutil
import sys
from dataclasses import field
from importlib.util import find_spec
from types import MappingProxyType

from weft.errors import UserError
from weft.records import dataclass
from weft.targets.boards import processor
from weft.targets.find import target

GNU_ARM = ("arm-none-eabi-gcc",)
_ZIG = ("-m", "ziglang", "cc")
_RV64 = "generic_rv64+m+a+f+d+c"
_OUTPUT = ("-nographic", "-monitor", "none", "-serial", "none")
_SEMIHOSTING = ("-semihosting-config", "enable=on,target=native")


@dataclass(frozen=True)
class Machine:
    """An emulated processor and the compiler for it.

    Attributes:
        emulator: QEMU's command without the program.
        compiler: the command that compiles and links C; empty for `zig cc`.
        flags: for it, beside those of the target.
        memories: of the linker script of a board without an operating system; none under Linux.
        own_flags: whether the compiler knows the flags of the target's record.
        counted: whether its instructions are counted; QEMU 7.2 aborts where it does so with RISC-V.
    """

    emulator: tuple[str, ...]
    compiler: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    memories: MappingProxyType[str, str] = field(default_factory=lambda: MappingProxyType({}))
    own_flags: bool = True
    counted: bool = True

    @property
    def command(self) -> tuple[str, ...]:
        """The compiler's command."""
        return self.compiler or (sys.executable, *_ZIG)

    def missing(self) -> str:
        """The first program that is not installed, with how to install it; empty if none."""
        for tool in (self.emulator[0], *self.compiler[:1]):
            if shutil.which(tool) is None:
                return f"{tool} is not installed (make emulators)"
        if not self.compiler and find_spec("ziglang") is None:
            return "zig is not installed (pip install ziglang)"
        return ""


def _board(name: str, **memories: str) -> Machine:
    return Machine(
        ("qemu-system-arm", "-M", name, *_OUTPUT, *_SEMIHOSTING),
        GNU_ARM,
        ("--specs=rdimon.specs",),
        MappingProxyType(memories),
    )


def _mps2(name: str) -> Machine:
    """Arm's MPS2 board: 4 MiB of code at 0, 4 MiB of data."""
    return _board(
        name,
        flash_at="0",
        flash_bytes="4M",
        ram_at="0x20000000",
        ram_bytes="4M",
        constants="FLASH",
    )


def _linux(emulator: tuple[str, ...], triple: str, cpu: str, more: tuple[str, ...] = ()) -> Machine:
    flags = ("-target", f"{triple}-linux-musl", f"-mcpu={cpu}", *more, "-static")
    counted = "riscv" not in emulator[0]
    return Machine(emulator, flags=flags, own_flags=False, counted=counted)


def _vectors(bits: int) -> Machine:
    """A 64-bit RISC-V with vector registers of so many bits."""
    emulator = ("qemu-riscv64", "-cpu", f"rv64,v=true,vlen={bits},vext_spec=v1.0")
    # Named apart from the processor, for which zig builds a C library: one does for all lengths.
    vectors = ("-Xclang", "-target-feature", "-Xclang")
    return _linux(emulator, "riscv64", _RV64, (*vectors, "+v", *vectors, f"+zvl{bits}b"))


_M55 = _board(
    "mps3-an547",
    # Arm AN547: 512 KiB of ITCM at 0, 2 MiB of SRAM. Constants are in SRAM, as ITCM is small.
    flash_at="0",
    flash_bytes="512K",
    ram_at="0x21000000",
    ram_bytes="2M",
    constants="RAM",
)

MACHINES: MappingProxyType[str, Machine] = MappingProxyType(
    {
        # A Cortex-M3 executes the instructions of a Cortex-M0+; QEMU's own board for it has 16 KB.
        "cortex-m0plus": _mps2("mps2-an385"),
        "cortex-m3": _mps2("mps2-an385"),
        "cortex-m4": _mps2("mps2-an386"),
        "cortex-m7": _mps2("mps2-an500"),
        # A Cortex-M55 executes the instructions of a Cortex-M33.
        "cortex-m33": _M55,
        "cortex-m55": _M55,
        "aarch64-neon": _linux(("qemu-aarch64",), "aarch64", "generic"),
        "cortex-a53": _linux(("qemu-aarch64", "-cpu", "cortex-a53"), "aarch64", "cortex_a53"),
        "cortex-a72": _linux(("qemu-aarch64", "-cpu", "cortex-a72"), "aarch64", "cortex_a72"),
        "neoverse-n1": _linux(("qemu-aarch64", "-cpu", "max"), "aarch64", "neoverse_n1"),
        # Its vectors of SVE, which compilers use beside NEON, have 32 bytes.
        "neoverse-v1": _linux(
            ("qemu-aarch64", "-cpu", "max,sve-default-vector-length=32"), "aarch64", "neoverse_v1"
        ),
        "rv64gc": _linux(("qemu-riscv64",), "riscv64", _RV64),
        "rv64gcv": _vectors(128),
        "rv64gcv-256": _vectors(256),
        "rv32imc": _linux(("qemu-riscv32",), "riscv32", "generic_rv32+m+a+c"),
    }
)
"""Emulated machines by target."""


def machine_for(name: str) -> Machine:
    """The emulated machine of a target; of a board, one with its processor.

    Raises:
        UserError: QEMU does not emulate it here, or a program is not installed.
    """
    machine = MACHINES.get(processor(target(name)))
    if machine is None:
        raise UserError(
            "the target must be one that is emulated",
            got=name,
            fix=f"Use one of {', '.join(MACHINES)}.",
        )
    if machine.missing():
        raise UserError("an emulated target needs its compiler and emulator", got=machine.missing())
    return machine


def machine_that_counts(name: str, fix: str) -> Machine:
    """The emulated machine of a target whose instructions QEMU counts.

    Args:
        name: the target.
        fix: what to do otherwise.

    Raises:
        UserError: as ``machine_for``, or QEMU cannot count there.
    """
    machine = machine_for(name)
    if not machine.counted:
        rule = "QEMU must be able to count the target's instructions"
        raise UserError(rule, got=name, fix=fix)
    return machine
