"""C libraries of networks whose inputs have the names of other things."""

import ctypes
import json
import re
import shutil
import subprocess
import sys

import numpy as np
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


def test_damaged_weights_are_refused(tmp_path):
    draw = np.random.default_rng(0)

    def made(folder):
        weight = weft.constant(draw.standard_normal((32, 30)).astype(np.float32))
        net = weft.trace(lambda x: ops.matmul(x, weight), "f32[5,32]", name="net")
        net.deploy(folder)
        return (folder / "share" / "net.weights").read_bytes()

    whole = made(tmp_path / "lib")
    library = ctypes.CDLL(str(tmp_path / "lib" / "lib" / "libnet.so"))
    record = json.loads((tmp_path / "lib" / "library.json").read_text())

    def status(content):
        (tmp_path / "weights").write_bytes(content)
        loaded, path = ctypes.c_void_p(), str(tmp_path / "weights").encode()
        numbers = record["abi"], ctypes.c_ulong(record["signature"])
        found = library.net_load_checked(path, ctypes.byref(loaded), *numbers)
        library.net_unload(loaded)
        return found

    assert status(whole) == 0
    assert status(made(tmp_path / "later")) == 0
    assert status(whole[:-1]) == status(whole + b"0") == status(b"") == -13
    for at in (*range(128), 128, 1000, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 16
        assert status(damaged) == -13
    assert status(whole[:128] + whole[136:144] + whole[128:136] + whole[144:]) == -13
