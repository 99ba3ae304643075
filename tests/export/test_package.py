"""C libraries of networks whose inputs have the names of other things."""

import re
import shutil
import subprocess
import sys

import pytest

import weft

ops = weft.ops
NETWORKS = {
    "case": weft.trace(
        lambda X, x, x_LENGTH: (ops.neg(X), ops.exp(x), ops.mul(x_LENGTH, x_LENGTH)),
        "f32[2,3]",
        "f32[5]",
        "f32[4]",
    ),
    "callers": weft.trace(
        lambda context, weights, status, files, transfer, stdout, read, fine: (
            ops.add(context, weights),
            ops.sub(status, files),
            ops.mul(transfer, stdout),
            ops.sub(read, fine),
        ),
        *["f32[3]"] * 8,
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("language", "driver"), [("c", "gcc"), ("cpp", "g++")])
def test_callers_work_whatever_inputs_are_called(name, language, driver, tmp_path):
    if shutil.which(driver) is None:
        pytest.skip(f"{driver} is not installed")
    lib = tmp_path / "lib"
    NETWORKS[name].deploy(lib, name="net")
    examples, binary = lib / "examples", tmp_path / "example"
    done = subprocess.run(
        [
            driver,
            *("-Wall", "-Wextra", "-Werror", f"-I{lib / 'include'}"),
            *(str(examples / f"example.{language}"), str(lib / "lib" / "libnet.a")),
            *("-lm", "-o", str(binary)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    usage = (examples / "example.py").read_text()
    names = re.findall(r" (\w+\.(?:bin|out))", usage[: usage.index("\n\n\n")])
    graph = NETWORKS[name].graph
    assert len({each.lower() for each in names}) == len(graph.inputs) + len(graph.outputs)
    outputs = [each for each in names if each.endswith(".out")]
    files = [str((tmp_path if each in outputs else examples) / each) for each in names]
    weights = str(lib / "share" / "net.weights")
    for command in (
        [str(binary), weights],
        [sys.executable, str(examples / "example.py"), str(lib / "lib" / "libnet.so"), weights],
    ):
        subprocess.run([*command, *files], check=True)
        for each in outputs:
            assert (tmp_path / each).read_bytes() == (examples / each).read_bytes(), each
            (tmp_path / each).unlink()
