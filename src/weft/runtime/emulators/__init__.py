"""Generated C on processors that are not this machine's: built, run under QEMU, counted."""

from __future__ import annotations

from weft.runtime.emulators.machines import (
    MACHINES,
    Machine,
    machine_for,
    machine_that_counts,
)
from weft.runtime.emulators.run import Emulated, emulated

__all__ = ["MACHINES", "Emulated", "Machine", "emulated", "machine_for", "machine_that_counts"]
