"""Every command that writes, on a disk that is full: the old file or the new file, nothing else.

    unshare --mount python -m tests.cli.full_disk FOLDER [FREE_PAGES ...]

FOLDER must be empty; a small file system is mounted there, for this process only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import click
import numpy as np

import weft
from tests.cli.commands import weft as command
from weft.cli import main
from weft.cli.files import save_arrays
from weft.runtime.limits import Limits

PAGE = 4096
SIZE = 1 << 20
FREE_PAGES = (0, 1, 2, 3, 5, 8, 13, 21)
MODEL = "model.onnx"
_QUANTIZE = "quantize % --samples $/samples.npz"
# What these draw was measured.
UNSTEADY = ("bench --svg", "compare --svg")
NEW_FOLDERS = ("deploy --output", "plugin new --output")


@dataclass(frozen=True)
class Case:
    """A way to write a file or a folder.

    Attributes:
        name: of the command, and of its option, if it is one.
        output: what is written; for ``model.onnx`` what is read, too.
        arguments: ``@`` is the output, ``%`` the model, ``$`` a folder on another disk, which has
            samples.
        call: for what is no command; takes the output.
    """

    name: str
    output: str
    arguments: str = ""
    call: Callable[[Path], object] | None = None

    def run(self, folder: Path) -> tuple[int, str]:
        """Exit code and what is told."""
        output, model = folder / self.output, folder / MODEL
        if self.call is None:
            words = {"@": str(output), "%": str(model)}
            given = [words.get(each, each) for each in self.arguments.split()]
            result = command(*(each.replace("$", os.environ["WEFT_CACHE"]) for each in given))
            return result.exit_code, result.stderr
        try:
            self.call(output)
        except weft.UserError as error:
            return 1, str(error)
        return 0, ""


CASES = (
    Case("apply --out", MODEL, "apply % fuse-batch-norm -o @"),
    Case("apply --out", "new.weft", "apply % fuse-batch-norm -o @"),
    Case("plan --output", "new.plan", "plan % -o @"),
    Case("draw --output", "new.svg", "draw % -o @"),
    Case("draw --output", "new.html", "draw % -o @"),
    Case("query --draw", "new.svg", "query % MatMul --draw @"),
    Case("plan --svg", "new.svg", "plan % --svg @"),
    Case("export --output", "toolkit", "export % --target generic -o @"),
    Case("deploy --output", "library", "deploy % --target generic -o @"),
    Case("run --output", "new.npy", "run % --random -o @"),
    Case("run --output", "new.npz", "run % --random -o @"),
    Case("bench --svg", "new.svg", "bench % --layers --seconds 0.01 --svg @"),
    Case("compare --svg", "new.svg", "compare % % --seconds 0.01 --cost flash --svg @"),
    Case(
        "campaign --svg", "new.svg", "campaign % fault-weights bits=30 count=1 --trials 2 --svg @"
    ),
    Case("quantize --output", "new.onnx", f"{_QUANTIZE} -o @"),
    Case("quantize --report", "new.html", f"{_QUANTIZE} -o $/q.onnx --report @"),
    Case("quantize --svg", "new.svg", f"{_QUANTIZE} -o $/q.onnx --svg @"),
    Case("plugin new --output", "plugin", "plugin new my-op --kind op -o @"),
    Case("save", MODEL, call=lambda path: weft.load(path).save(path)),
    Case("save", "new.weft", call=lambda path: weft.load(path.with_name(MODEL)).save(path)),
    Case(
        "save_weights",
        "new.npz",
        call=lambda path: weft.load(path.with_name(MODEL)).save_weights(path),
    ),
    Case(
        "save_weights",
        "new.safetensors",
        call=lambda path: weft.load(path.with_name(MODEL)).save_weights(path),
    ),
    Case("outputs", "new.npz", call=lambda path: save_arrays(path, {"y": np.ones(3000)})),
    Case("external data", MODEL, call=lambda path: _save_large(path)),
)
"""Every option that names a file to write is among them: ``unlisted`` tells."""


def _save_large(path: Path) -> None:
    with patch("weft.frontends.onnx.writing.INLINE_BYTES", 1000):
        weft.load(path).save(path)


def unlisted() -> set[str]:
    """Options that name a file to write and are in no case."""
    return set(_writing(main, "")) - {case.name for case in CASES}


def _writing(found: click.Command, name: str) -> Iterator[str]:
    if isinstance(found, click.Group):
        context = click.Context(found)
        for each in found.list_commands(context):
            inner = found.get_command(context, each)
            assert inner is not None
            yield from _writing(inner, f"{name} {each}".strip())
    for option in found.params:
        if isinstance(option.type, click.Path) and not option.type.exists:
            yield f"{name} {option.opts[-1]}"


# --- the disk -------------------------------------------------------------------------------


def _content(folder: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"folder"
        for path in folder.rglob("*")
        if path.name != "filler"
    }


def _fill(folder: Path, free: int) -> None:
    status = os.statvfs(folder)
    with (folder / "filler").open("wb", buffering=0) as file:
        file.write(bytes(max(0, status.f_bavail * status.f_frsize - free)))


def _reset(folder: Path, case: Case, model: bytes) -> None:
    """The model, and an old file or folder where the new one goes."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (folder / MODEL).write_bytes(model)
    output = folder / case.output
    if case.name == "export --output":
        output.mkdir()
        (output / "toolkit.json").write_text("{}")
    elif case.name not in NEW_FOLDERS and not output.exists():
        output.write_text("old")


def problems(folder: Path, case: Case, model: bytes, free_pages: Sequence[int]) -> Iterator[str]:
    """What goes wrong when a case has little space, or none."""
    _reset(folder, case, model)
    old = _content(folder)
    code, told = case.run(folder)
    new = _content(folder)
    if code != 0 or new == old:
        yield f"{case}: with space it ends with {code}: {told}"
        return
    refused = 0
    for pages in free_pages:
        _reset(folder, case, model)
        _fill(folder, pages * PAGE)
        code, told = case.run(folder)
        left = _content(folder)
        if code == 0:
            whole = left.keys() == new.keys() and (case.name in UNSTEADY or left == new)
            if not whole:
                yield f"{case}: {pages} free pages: it says that all is well, and it is not"
        elif code != 1 or f"{folder / case.output}: No space left on device" not in told:
            yield f"{case}: {pages} free pages: it ends with {code}: {told}"
        elif left != old:
            yield f"{case}: {pages} free pages: {sorted(left.items() ^ old.items())}"
        refused += code != 0
    if not refused:
        yield f"{case}: the disk was never full"


def campaign(folder: Path, free_pages: Sequence[int] = FREE_PAGES) -> list[str]:
    """All that goes wrong."""
    chance = np.random.default_rng(0)
    weight = weft.constant(chance.standard_normal((40, 40)).astype(np.float32))
    net = weft.trace(lambda x: weft.ops.relu(x @ weight), "f32[8,40]")
    small = Limits("processor", 16, 1, 1.0, ())
    with tempfile.TemporaryDirectory() as outside, patch.dict(os.environ, WEFT_CACHE=outside):
        net.save(Path(outside) / MODEL)
        model = (Path(outside) / MODEL).read_bytes()
        samples = chance.standard_normal((8, 8, 40)).astype(np.float32)
        np.savez(Path(outside) / "samples.npz", **{net.graph.inputs[0]: samples})
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], check=True)
        with patch("weft.cli.layers.limits", lambda *_, **__: small):
            return [each for case in CASES for each in problems(folder, case, model, free_pages)]


if __name__ == "__main__":
    found = campaign(Path(sys.argv[1]), [int(each) for each in sys.argv[2:]] or FREE_PAGES)
    print("\n".join(found))
    sys.exit(1 if found else 0)
