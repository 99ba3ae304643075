"""Generated C on emulated processors: the host's bits, and exact counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import weft
from tests.frontends.litert.builder import Op, Sub, file
from tests.frontends.litert.cases import x
from tests.turns import a_few
from weft.cli.main import main
from weft.errors import UserError
from weft.runtime.emulators import MACHINES, emulated, machine_for
from weft.targets.find import target

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
CORTEX_M = tuple(f"cortex-{each}" for each in ("m0plus", "m3", "m4", "m7", "m33", "m55"))


def need(name: str) -> None:
    missing = MACHINES[name].missing()
    if missing:
        pytest.skip(missing)


@pytest.mark.parametrize("name", a_few(CORTEX_M, 3))
def test_digits_on_a_cortex_m(name: str) -> None:
    need(name)
    net = weft.load(DIGITS)
    images = np.random.default_rng(5).random((2, 1, 1, 8, 8), np.float32)
    found = emulated(net.source(name), [(image,) for image in images], name)
    for image, (scores,) in zip(images, found.outputs, strict=True):
        np.testing.assert_allclose(scores, net.reference(image)[0], atol=1e-4)
    # Of 90,624 multiply-accumulates, hardware takes a few instructions each. In software the count
    # depends on the data, so only its least is known.
    least, most = (1, 3) if "vfp" in target(name).features else (10, float("inf"))
    assert all(90_624 * least < count < 90_624 * most for count in found.instructions)
    assert "digits_run" in found.counts[0]


# zig builds the C library of the machine first, which takes a minute where nothing is cached.
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["rv64gcv", "rv64gcv-256"])
def test_digits_on_risc_v_with_vectors(name: str) -> None:
    need(name)
    net = weft.load(DIGITS)
    image = np.random.default_rng(5).random((1, 1, 8, 8), np.float32)
    files = net.source(name)
    assert f"v{target(name).vector_bytes // 4}f" in files.sources[0][1]
    ((scores,),) = emulated(files, [(image,)], name).outputs
    np.testing.assert_allclose(scores, net.reference(image)[0], atol=1e-4)


def test_counts_are_repeatable_and_add_up() -> None:
    need("cortex-m4")
    net = weft.load(DIGITS)
    image = np.ones((1, 1, 8, 8), np.float32)
    first, second = emulated(net.source("cortex-m4"), [(image,), (image,)], "cortex-m4").counts
    assert first == second
    assert "main" not in first


def test_verify_and_bench_by_command(tmp_path: Path) -> None:
    need("cortex-m4")
    np.save(tmp_path / "image.npy", np.ones((1, 1, 8, 8), np.float32))
    model, data = str(DIGITS), str(tmp_path / "image.npy")
    arguments = ["verify", model, data, "--target", "cortex-m4", "--json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["passed"]
    np.savez(tmp_path / "wrong.npz", scores=np.zeros((1, 10), np.float32))
    wrong = CliRunner().invoke(main, [*arguments, "--expect", str(tmp_path / "wrong.npz")])
    assert wrong.exit_code == 3, wrong.output
    bench = CliRunner().invoke(main, ["bench", model, "--target", "cortex-m4", "--json"])
    record = json.loads(bench.stdout)
    assert record["instructions"] == sum(record["functions"].values())
    steps = record["steps"]
    assert sum(each["macs"] for each in steps) == 90_624
    # Between steps a call and the test's own mark, which is not counted.
    assert abs(sum(each["instructions"] for each in steps) - record["instructions"]) < 10 * len(
        steps
    )
    assert steps[-1]["layers"][-1] == "/head/head.1/Gemm"


def steps_apart(model: Path, folder: Path, count: int) -> list[str]:
    """Arguments of ``weft verify`` for a chip, where ``count`` steps are expected more."""
    net = weft.load(model)
    inputs = {name: np.zeros(each.dims, each.dtype.numpy) for name, each in net.inputs.items()}
    (name,) = net.outputs
    np.savez(folder / "inputs.npz", **inputs)
    (expected,) = net.reference(*inputs.values())
    np.savez(folder / "expected.npz", **{name: expected + np.int8(count)})
    given = [str(model), str(folder / "inputs.npz"), "--target", "cortex-m4", "--json"]
    return ["verify", *given, "--expect", str(folder / "expected.npz")]


def test_integers_may_be_some_steps_apart(tmp_path: Path) -> None:
    need("cortex-m4")
    model = tmp_path / "add.tflite"
    one, two, out = (x(2, 3, dtype="int8"), x(2, 3, dtype="int8"), x(2, 3, dtype="int8", high=4))
    op = Op("ADD", (0, 1), (2,), "AddOptions")
    model.write_bytes(file([Sub((one, two, out), (op,), (0, 1), (2,))]))
    for steps, options, code in (
        (0, (), 0),
        (1, (), 3),
        (1, ("--steps", "1"), 0),
        (2, ("--steps", "1"), 3),
        (2, ("--steps", "2"), 0),
        (1, ("--steps", "1", "--tolerance", "1e-4"), 3),
    ):
        arguments = [*steps_apart(model, tmp_path, steps), *options]
        assert CliRunner().invoke(main, arguments).exit_code == code, (steps, options)


@pytest.mark.slow
def test_code_for_a_chip_runs_under_sanitizers() -> None:
    need("cortex-m4")
    arguments = ["verify", str(DIGITS), "--target", "cortex-m4", "--json", "--sanitize"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["sanitized"] == ["address", "undefined behaviour"]


def test_a_board_is_emulated_by_its_processor() -> None:
    need("cortex-m4")
    assert machine_for("stm32l4r5") is MACHINES["cortex-m4"]


def test_what_cannot_be_counted_is_refused_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need("rv32imc")
    built: list[object] = []
    monkeypatch.setattr("weft.runtime.emulators.run._built", lambda *given: built.append(given))
    net = weft.load(DIGITS)
    with pytest.raises(UserError, match="able to count"):
        net.toolkit("rv32imc", count=True)
    bench = CliRunner().invoke(main, ["bench", str(DIGITS), "--target", "esp32c3"])
    assert bench.exit_code == 1
    assert "able to count" in bench.output
    assert not built


def test_targets_without_an_emulator_are_refused() -> None:
    with pytest.raises(UserError, match="must be one that is emulated") as refusal:
        machine_for("zen4")
    assert "cortex-m4" in refusal.value.fix
