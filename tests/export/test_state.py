"""Toolkits of networks with state: several runs in a row, streams side by side, RAM that counts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import weft
from tests.api.test_streams import STATES, detector
from tests.export.test_toolkit import make
from tests.turns import a_few
from weft.cli import main
from weft.errors import UserError
from weft.runtime.compiler import find_compiler, sanitizer_flags


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> weft.Net:
    path = detector(tmp_path_factory.mktemp("net") / "detector.onnx")
    return weft.load(path).with_state(STATES)


@pytest.mark.parametrize(
    ("flavour", "weights", "threads"),
    a_few([("c89", "arrays", 1), ("c99", "blob", 1), ("gnu", "blob", 2)]),
)
def test_the_self_test_runs_several_times(
    net: weft.Net, flavour: str, weights: str, threads: int, tmp_path: Path
) -> None:
    net.export(tmp_path, "generic", flavour=flavour, weights=weights, threads=threads)
    done = make(tmp_path, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[:8:2] == ["run 1:", "run 2:", "run 3:", "run 4:"]
    if weights == "arrays":
        done = make(tmp_path, "test-steps", "run")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "step 5, Scan" in done.stdout
    if sanitizer_flags(find_compiler()):
        done = make(tmp_path, "sanitize")
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_state_that_is_not_handed_on_is_found(net: weft.Net, tmp_path: Path) -> None:
    net.export(tmp_path, "generic")
    path = tmp_path / "detector.c"
    # Every run begins with a state that is cleared.
    text = path.read_text()
    kept = "unsigned char *const kept = (unsigned char *)state;"
    assert kept in text
    path.write_text(text.replace(kept, f"{kept}\n    (void)detector_reset(state);", 1))
    done = make(tmp_path, "test")
    assert done.returncode != 0
    assert "run 2:" in done.stdout
    assert "WRONG" in done.stdout


def test_two_streams_in_c(net: weft.Net, tmp_path: Path) -> None:
    net.export(tmp_path, "generic")
    (tmp_path / "streams.c").write_text(
        """
#include <math.h>
#include <string.h>
#include "detector.h"
#include "detector_golden.h"
static _Alignas(64) unsigned char memory[DETECTOR_ARENA_BYTES + 64];
static _Alignas(64) unsigned char states[2][DETECTOR_STATE_BYTES];
int main(void)
{
    float voice[2];
    int run, stream;
    memset(states, 0x55, sizeof states);
    if (detector_reset(NULL) != DETECTOR_NULL_POINTER) return 1;
    if (detector_run(golden_input_0, voice, memory, NULL) != DETECTOR_NULL_POINTER) return 2;
    if (detector_run(golden_input_0, voice, memory, states[0] + 4) != DETECTOR_MISALIGNED) return 3;
    for (stream = 0; stream < 2; ++stream)
        if (detector_reset(states[stream]) != 0) return 4;
    for (run = 0; run < 4; ++run)
        for (stream = 0; stream < 2; ++stream) {
            const float *x = golden_input_0 + 32 * (stream == 0 ? run : 3 - run);
            if (detector_run(x, &voice[stream], memory, states[stream]) != 0) return 5;
            if (stream == 0 && fabsf(voice[0] - golden_output_0[run]) > 1e-5f) return 6;
        }
    if (DETECTOR_STATE_H != 0 || DETECTOR_STATE_C != 128 || DETECTOR_STATE_SOUND != 256) return 7;
    return memcmp(states[0], states[1], sizeof states[0]) == 0 ? 8 : 0;
}
"""
    )
    command = [*find_compiler().command, "-std=c11", "-O1", *sanitizer_flags(find_compiler())]
    sources = [tmp_path / "detector.c", tmp_path / "streams.c"]
    program = tmp_path / "streams"
    subprocess.run([*command, *sources, "-lm", "-o", program], check=True, capture_output=True)
    assert subprocess.run([program], check=False).returncode == 0


def test_the_state_counts(net: weft.Net, tmp_path: Path) -> None:
    made = net.export(tmp_path / "out", "generic")
    record = json.loads((tmp_path / "out" / "toolkit.json").read_text())
    assert record["state_bytes"] == made.report.state_bytes == 256 + 96 * 4
    assert [port["name"] for port in record["inputs"]] == ["x"]
    assert "State 640 bytes." in (tmp_path / "out" / "report.md").read_text()
    assert "detector_reset(state)" in (tmp_path / "out" / "README.md").read_text()
    header = (tmp_path / "out" / "detector.h").read_text()
    assert "#define DETECTOR_STATE_BYTES 640" in header
    assert "where c lies in it, f32[1,1,24]" in header
    needed = record["arena_bytes"] + record["stack_bytes"] + 640 + 32 * 4 + 4
    net.export(tmp_path / "out", "generic", ram=needed)
    with pytest.raises(UserError, match="inputs, state and outputs must fit"):
        net.export(tmp_path / "out", "generic", ram=needed - 1)


def test_states_are_declared_on_the_command_line(tmp_path: Path) -> None:
    path = detector(tmp_path / "detector.onnx")
    command = ["export", str(path), "-o", str(tmp_path / "out")]
    said = [word for pair in STATES.items() for word in ("--state", "=".join(pair))]
    done = CliRunner().invoke(main, [*command, *said])
    assert done.exit_code == 0, done.output
    assert "state 640 B" in done.output
    assert "int detector_reset(void *state);" in (tmp_path / "out" / "detector.h").read_text()
    done = CliRunner().invoke(main, [*command, "--state", "h"])
    assert done.exit_code == 1
    assert "--state must be INPUT=OUTPUT" in done.output
    done = CliRunner().invoke(main, [*command, "--state", "h=voice"])
    assert done.exit_code == 1
    assert "h is f32[1,1,24], voice is f32[1,1,1]" in done.output
