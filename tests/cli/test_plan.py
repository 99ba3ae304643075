"""``weft plan``: text that parses back and builds; stored plans, and what changed since."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.commands import good, record, weft
from weft.errors import UserError
from weft.options import Options
from weft.targets.find import target

TARGET = ("--target", "generic")


@pytest.fixture(scope="module")
def stored(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "digits.plan"
    said = good("plan", digits, *TARGET, "-o", path)
    assert said.startswith(f"{path}: 7 steps; arena 5,120 bytes")
    return path


def test_what_is_printed_is_what_is_stored(digits: Path, stored: Path) -> None:
    text = good("plan", digits, *TARGET)
    assert text == stored.read_text()
    assert good("plan", digits, "--plan", stored) == text
    assert good("plan", digits, *TARGET, "--against", stored) == "no difference\n"


def test_a_plan_builds_to_the_same_bytes(digits: Path, stored: Path, tmp_path: Path) -> None:
    for name, options in (("one", TARGET), ("two", ("--plan", str(stored)))):
        good("export", digits, *options, "-o", tmp_path / name, "--name", "net")
    files = {path.name for path in (tmp_path / "one").iterdir()}
    assert files == {path.name for path in (tmp_path / "two").iterdir()}
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert "tiled-8x1 (cheapest)" in (tmp_path / "one" / "report.md").read_text()


def test_an_edited_plan(digits: Path, stored: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited.plan"
    text = stored.read_text()
    edited.write_text(text.replace("kernel tiled-8x1, cheapest", "kernel rows", 1))
    changed = good("plan", digits, "--plan", edited, "--against", stored)
    assert changed == "/stem/stem.1/BatchNormalization_output_0: kernel tiled-8x1 -> rows\n"
    found = record("plan", digits, "--plan", edited, "--against", stored)
    assert found["changes"] == [changed.rstrip()]
    assert found["rows"][0]["reason"] == "asked-for"


def test_json_has_the_plan(digits: Path) -> None:
    found = record("plan", digits, *TARGET, "--ram", "64K")
    assert found["plan"]["constraints"]["ram"] == 65536
    answers = found["plan"]["body"]["steps"][0]["answers"]
    assert [each["generator"] for each in answers if not each["refusal"]] == [
        "tiled",
        "rows",
        "nest",
    ]
    assert json.dumps(found).count('"line"') == 0


def test_weights_in_an_encoding(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.plan"
    good("plan", digits, *TARGET, "--encoding", "int4", "-o", path)
    text = path.read_text()
    assert 'constraints {encoding="int4"}' in text
    assert " as int4, " in text
    assert good("plan", digits, "--plan", path) == text
    for name, options in (("one", (*TARGET, "--encoding", "int4")), ("two", ("--plan", path))):
        good("export", digits, *options, "-o", tmp_path / name, "--name", "net")
    for each in (tmp_path / "one").iterdir():
        assert each.read_bytes() == (tmp_path / "two" / each.name).read_bytes()
    assert " as int4, " in (tmp_path / "one" / "report.md").read_text()
    result = weft("plan", digits, "--encoding", "int3")
    assert result.stderr.startswith("error: encoding must be one of float28, palette, quantized")


def test_limits_of_a_plan_hold(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.plan"
    good("plan", digits, *TARGET, "--ram", "4K", "-o", path)
    result = weft("export", digits, "--plan", path, "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert "4,096 bytes" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target", "x86-avx2"), "error: target is fixed by the given plan\n  got: x86"),
        (("--threads", "2"), "error: threads is fixed by the given plan\n  got: 2 beside"),
        (("--exact",), "error: exact is fixed by the given plan\n"),
    ],
)
def test_options_that_contradict_a_plan(
    digits: Path, stored: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    for command in (("plan",), ("export", "-o", str(tmp_path / "out"))):
        result = weft(*command, digits, "--plan", stored, *options)
        assert result.exit_code == 1
        assert result.stderr.startswith(message)


def test_what_is_no_plan(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "no.plan"
    path.write_bytes(b"\xff\xfe")
    assert "a plan must be a readable text file" in weft("plan", digits, "--plan", path).stderr
    path.write_text("graph x() -> () {}\n")
    result = weft("plan", digits, "--plan", path)
    assert result.exit_code == 1
    assert result.stderr == ("error: plan: one of 'weft' is expected\n  got: graph\n  at: line 1\n")


@pytest.fixture
def edited(digits: Path, tmp_path: Path) -> Path:
    """A plan for this machine with a kernel that would not have been chosen."""
    path = tmp_path / "edited.plan"
    good("plan", digits, "--exact", "-o", path)
    text, count = re.subn(r"kernel (?!nest)[\w-]+, cheapest", "kernel nest", path.read_text())
    assert count
    path.write_text(text)
    return path


def test_commands_that_run_take_a_plan(digits: Path, edited: Path) -> None:
    layers = record("bench", digits, "--plan", edited, "--layers", "--seconds", "0.01")["layers"]
    assert "nest" in {each["scheme"] for each in layers}
    good("bench", digits, "--plan", edited, "--seconds", "0.01")
    assert record("run", digits, "--random", "--plan", edited)["outputs"]
    assert record("verify", digits, "--against", "reference", "--plan", edited)["passed"]


@pytest.mark.parametrize("line", ["bench", "run --random"])
def test_commands_that_run_refuse_what_contradicts_the_plan(
    digits: Path, edited: Path, line: str
) -> None:
    result = weft(*line.split(), digits, "--plan", edited, "--threads", "2")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: threads is fixed by the given plan\n")
    result = weft(*line.split(), digits, "--plan", edited, "--simd", "sse2")
    assert result.exit_code == 1
    assert "--simd" in result.stderr or "simd" in result.stderr


def test_kernels_for_less_code(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.plan"
    good("plan", digits, *TARGET, "--optimize", "size", "-o", path)
    assert 'constraints {optimize="size"}' in path.read_text(encoding="utf-8")
    assert "7 steps" in good("plan", digits, "--plan", path, "--table")
    result = weft("plan", digits, "--plan", path, "--optimize", "speed")
    assert result.stderr.startswith("error: optimize is fixed by the given plan")
    with pytest.raises(UserError) as error:
        Options(optimize="small")
    assert str(error.value) == "optimize must be size, balanced, speed; got 'small'"


@pytest.mark.parametrize(("machine", "goal"), [("x86-avx2", "speed"), ("stm32l4r5", "balanced")])
def test_machines_with_flash_get_balanced_kernels(machine: str, goal: str) -> None:
    assert Options().goal(target(machine)) == goal
    assert Options(optimize="size").goal(target(machine)) == "size"
