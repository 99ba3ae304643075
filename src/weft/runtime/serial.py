"""A network on a board at the other end of a serial line: the protocol of a toolkit's `main.c`."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from zlib import crc32

import numpy as np

from weft.errors import UserError
from weft.plan.program import Port
from weft.records import dataclass

try:
    import termios
    import tty
except ImportError:  # Windows
    termios = tty = None

BAUD = 115_200
_LINE = 32
"""Bytes of data in a line."""
_PAUSE = 0.2
"""Seconds after which a line is silent."""


@dataclass(frozen=True)
class SerialRun:
    """What a run on a board gave.

    Attributes:
        outputs: in the network's order.
        cycles: that the board counted; 0 where it counts none.
    """

    outputs: tuple[np.ndarray, ...]
    cycles: int


class SerialBoard:
    """A board that runs a toolkit's `main.c`, compiled with `-DWEFT_SERIAL`.

    Args:
        device: of the line, such as ``/dev/ttyACM0``.
        baud: bits per second.
        timeout: seconds that a run, and each answer, may take.

    Raises:
        UserError: there is no such line, or the board answers something else.
    """

    def __init__(self, device: str | Path, *, baud: int = BAUD, timeout: float = 60.0) -> None:
        if termios is None or tty is None:
            raise UserError("serial lines need a POSIX system", got=os.name)
        speed = getattr(termios, f"B{baud}", None)
        if speed is None:
            raise UserError("the line must have a usual speed", got=f"{baud} baud")
        self.device, self.timeout = str(device), timeout
        self._rest = b""
        try:
            self._line = os.open(device, os.O_RDWR | os.O_NOCTTY)
            tty.setraw(self._line)
            settings = termios.tcgetattr(self._line)
            settings[4] = settings[5] = speed
            termios.tcsetattr(self._line, termios.TCSANOW, settings)
        except (OSError, termios.error) as error:
            raise UserError(
                "a serial line must be a terminal that this user may open",
                got=f"{device}: {error}",
                fix="Name the board's device, such as /dev/ttyACM0; its group is often `dialout`.",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._line)

    # --- requests -----------------------------------------------------------------------

    def check(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> str:
        """The name of the network on the board, whose inputs and outputs must have these sizes.

        Raises:
            UserError: nothing answers, or another network does.
        """
        self._drain()
        self._write(b"?\n")
        wanted = " : ".join(
            " ".join(str(_bytes(port)) for port in each) for each in (inputs, outputs)
        )
        for line in self._lines():
            words = line.split(" ", 3)
            if words[:2] == ["weft", "1"] and len(words) == 4:
                if words[3] != wanted:
                    raise UserError(
                        "the board must run the same network",
                        got=f"{words[2]} with inputs and outputs of {words[3]} bytes",
                        fix=f"Flash a toolkit of this one, of {wanted} bytes.",
                    )
                return words[2]
        raise self._silent()

    def clear(self) -> None:
        """Clears the state of a network that hands some from run to run."""
        self._write(b"z\n")
        self._expect("cleared")

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[Port]) -> SerialRun:
        """Runs the network.

        Args:
            inputs: in the network's order.
            outputs: its outputs.

        Raises:
            UserError: the board refuses, does not answer in time, or data were damaged.
        """
        data = b"".join(np.ascontiguousarray(each).tobytes() for each in inputs)
        rows = [data[at : at + _LINE].hex() for at in range(0, len(data), _LINE)]
        self._write("\n".join(["r", *rows, f"={crc32(data):08x}", ""]).encode())
        code, cycles = self._expect("run").split(" ")[1:]
        size = sum(map(_bytes, outputs))
        found = b""
        for line in self._lines():
            if line.startswith("="):
                self._check_sum(line, found, size)
                break
            found += self._parsed(line)
        if code != "0":
            raise UserError("the network refused to run on the board", got=f"code {code}")
        return SerialRun(tuple(_arrays(found, outputs)), int(cycles))

    # --- the line -----------------------------------------------------------------------

    def _expect(self, word: str) -> str:
        for line in self._lines():
            if line.split(" ")[0] == word:
                return line
            if line.startswith("error"):
                raise UserError("the board must understand what it is sent", got=line)
        raise self._silent()

    def _parsed(self, line: str) -> bytes:
        try:
            return bytes.fromhex(line)
        except ValueError:
            raise UserError("the board must send its outputs", got=line[:80]) from None

    def _check_sum(self, line: str, found: bytes, size: int) -> None:
        if len(found) != size or line != f"={crc32(found):08x}":
            got = f"{len(found)} of {size} bytes, CRC {crc32(found):08x}, sent {line[1:]}"
            raise UserError("outputs must arrive undamaged", got=got, fix="Lower the baud rate.")

    def _silent(self) -> UserError:
        return UserError(
            "a board must answer in time",
            got=f"nothing on {self.device} for {self.timeout:g} s",
            fix="Flash main.c of a toolkit, compiled with -DWEFT_SERIAL, and check the baud rate.",
        )

    def _lines(self):
        """Lines that the board sends, until none comes in time."""
        until = time.monotonic() + self.timeout
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                until = time.monotonic() + self.timeout
                yield line.decode("ascii", "replace").strip()
                continue
            ready, _, _ = select.select([self._line], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return
            self._rest += self._read()

    def _read(self) -> bytes:
        try:
            data = os.read(self._line, 1 << 14)
        except OSError as error:
            raise UserError(
                "a serial line must stay open", got=f"{self.device}: {error}"
            ) from error
        if not data:
            raise UserError("a serial line must stay open", got=f"{self.device} ended")
        return data

    def _drain(self) -> None:
        """Reads away what the board said before."""
        self._rest = b""
        while select.select([self._line], [], [], _PAUSE)[0]:
            self._read()

    def _write(self, data: bytes) -> None:
        """Sends data; what the board says meanwhile is kept, or both ends would wait."""
        at = 0
        while at < len(data):
            readable, writable, _ = select.select([self._line], [self._line], [], self.timeout)
            if not readable and not writable:
                raise self._silent()
            if readable:
                self._rest += self._read()
            if writable:
                at += os.write(self._line, data[at : at + 256])


def _bytes(port: Port) -> int:
    return max(1, int(np.prod(port.shape))) * port.dtype.bytes


def _arrays(data: bytes, ports: Sequence[Port]) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    at = 0
    for port in ports:
        count = int(np.prod(port.shape))
        array = np.frombuffer(data, port.dtype.numpy, count, at)
        found.append(array.reshape(port.shape).copy())
        at += _bytes(port)
    return found
