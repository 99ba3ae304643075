"""What the documents say is so: their commands run and print what they show."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from weft.cli import main
from weft.runtime.compiler import find_compiler

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the file that it is to be."""

    kind: str
    text: str
    file: str


def blocks(path: Path) -> Iterator[Block]:
    for found in _BLOCK.finditer(path.read_text(encoding="utf-8")):
        yield Block(found["kind"], found["text"], found["file"] or "")


def commands(text: str) -> list[tuple[str, str]]:
    """Commands of a console block, each with the output that is shown."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def agrees(shown: str, printed: str) -> bool:
    """Whether output is as shown: ``...`` is anything, gaps of columns may differ."""
    words = [re.escape(part) for part in re.split(r"\s*\.\.\.\s*", shown.strip())]
    words = [re.sub(r"(\\ ){2,}", "  +", word) for word in words]
    return re.fullmatch(r"\s*" + r"[\s\S]*".join(words) + r"\s*", printed) is not None


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Commands of this environment first, and a ``cc`` whatever compiler there is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    compiler = list(find_compiler().command)
    # By its whole path, or the script would call itself.
    compiler[0] = shutil.which(compiler[0]) or compiler[0]
    for name, call in (("cc", compiler), ("weft", [sys.executable, "-m", "weft"])):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(call)} "$@"\n')
        script.chmod(0o755)
    # Run by `make test`, what is started here must not speak as that make's child.
    outer = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return {**outer, "PATH": f"{folder}:{os.environ['PATH']}"}


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


TOOLS = {"tutorial-chip.md": ("arm-none-eabi-gcc", "qemu-system-arm")}
PACKAGES = {
    "tutorial-chip.md": ("sklearn", "onnxruntime"),
    "keras.md": ("keras", "h5py", "torch"),
    "onnx.md": ("onnxruntime",),
    "qat.md": ("torch",),
    "quantization.md": ("sklearn",),
}
"""What a page needs beyond Weft: commands, and Python packages."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("tutorial.md", 8),
        ("tutorial-chip.md", 14),
        ("graphs.md", 10),
        ("keras.md", 3),
        ("onnx.md", 3),
        ("qat.md", 3),
        ("compression.md", 7),
        ("quantization.md", 4),
        ("architecture.md", 6),
    ],
)
def test_what_pages_show(page, least, tmp_path, environment, monkeypatch):
    for tool in TOOLS.get(page, ()):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    for package in PACKAGES.get(page, ()):
        if importlib.util.find_spec(package) is None:  # not imported: Keras would choose a backend
            pytest.skip(f"{package} is not installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.syspath_prepend(str(tmp_path))  # restores what pages add to the path
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    seen = 0
    for block in blocks(ROOT / "docs" / page):
        seen += 1
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        elif block.kind == "python":
            exec(compile(block.text, page, "exec"), names)
        else:
            assert block.kind == "console"
            for command, shown in commands(block.text):
                printed = run(command, tmp_path, environment)
                assert agrees(shown, printed), f"$ {command}\n{printed}"
    assert seen >= least


def test_ellipses_are_the_only_freedom():
    assert agrees("a ... c\n", "a b\nb c\n")
    assert not agrees("a ... d\n", "a b c\n")
    assert not agrees("3 steps\n", "4 steps\n")


def test_the_reference_of_the_command_line_is_complete():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    context = click.Context(main)
    for name in main.list_commands(context):
        assert f"`weft {name}`" in text
        shown = CliRunner().invoke(main, [name, "--help"]).output
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help
        assert "Usage" in shown
    for option in ("--input", "--batch", "--constant", "--target", "--json", "--svg", "--diff"):
        assert option in text


def masked(text: str) -> list[str]:
    """The lines without what differs from one machine to the next."""
    fixed = []
    for line in text.split("\n"):
        name = line.split(" ", 1)[0]
        if name == "arena":  # of the machine's plan, but as small as it can be on any
            line = re.sub(r"([\d,]+ B)(; .*) \1$", r"N B\2 N B", line)
        fixed.append(name if name in ("built", "latency", "difference", "flash", "stack") else line)
    return fixed


@pytest.mark.thorough
def test_the_demo_prints_what_the_readme_shows(monkeypatch):
    pytest.importorskip("sklearn", reason="the demo needs scikit-learn for its data")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("<!-- demo-output:begin -->")[1].split("<!-- demo-output:end -->")[0]
    expected = "\n".join(line.removeprefix("    ") for line in shown.strip("\n").split("\n"))
    printed = run(f"'{sys.executable}' examples/digits/demo.py", ROOT, dict(os.environ))
    assert masked(printed.strip()) == masked(expected.strip())
    assert "355 of 359 right" in printed


def test_links_lead_somewhere():
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


@pytest.mark.parametrize("page", ["architecture.md", "glossary.md"])
def test_the_modules_that_pages_name_exist(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = set(
        re.findall(r"`(?:src/weft/)?([a-z_]+/(?:[a-z_/]+[a-z0-9-]*\.(?:py|toml))?)[:`]", text)
    )
    assert len(named) >= 15
    for path in named:
        below = ROOT if path.startswith(("tests/", "scripts/")) else ROOT / "src" / "weft"
        assert (below / path).exists(), f"{page}: {path}"
