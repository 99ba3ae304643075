"""C libraries of modules: built with CMake, called from C, C++ and ctypes, bit for bit."""

import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import weft
from weft.cli import main
from weft.errors import UserError
from weft.runtime.compiler import find_compiler

CMAKE = shutil.which("cmake")
EXAMPLE = Path("examples", "example.py")
ZIG = f"{sys.executable} -m ziglang"
CASES = {
    "gcc": (("gcc", "g++"), "file", 1),
    "zig": ((f"{ZIG} cc", f"{ZIG} c++"), "inside", 2),
}


class Branches(nn.Module):
    """Nested inputs and outputs, a scalar, and weights of every kind that convolutions have."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, image: torch.Tensor, more: list[torch.Tensor]) -> dict[str, object]:
        y = torch.relu(self.norm(self.conv(image))) + more[0]
        return {"scores": self.head(y.mean((2, 3))), "maps": [y, y.sigmoid() * more[1] * more[2]]}


def example() -> tuple[torch.Tensor, list[torch.Tensor]]:
    more = [torch.randn(1, 8, 12, 12), torch.randn(8, 1, 1), torch.tensor(1.5)]
    return torch.randn(1, 3, 12, 12), more


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def installed(package: Path, work: Path, compilers: tuple[str, str]) -> Path:
    """Builds and installs the package, then its examples against what was installed."""
    if CMAKE is None:
        pytest.skip("cmake is not installed")
    cc, cxx = compilers
    if "ziglang" in cc and importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed")
    if "ziglang" not in cc and shutil.which(cxx) is None:
        pytest.skip(f"{cxx} is not installed")
    prefix = work / "prefix"
    named = {"CC": cc, "CXX": cxx}
    run(CMAKE, "-S", package, "-B", work / "build", **named)
    run(CMAKE, "--build", work / "build")
    run(CMAKE, "--install", work / "build", "--prefix", prefix)
    source = work / "examples"
    shutil.copytree(package / "examples", source)
    run(CMAKE, "-S", source, "-B", work / "made", f"-DCMAKE_PREFIX_PATH={prefix}", **named)
    run(CMAKE, "--build", work / "made")
    return prefix


def called(work: Path, prefix: Path, name: str, inputs: list[str], outputs: list[str]):
    """What the callers in C, with the static library, in C++ and in Python write."""
    (library,) = prefix.rglob(f"lib{name}.so")
    weights = list(prefix.rglob(f"{name}.weights"))
    examples = work / "examples"
    callers = {
        "example": [work / "made" / "example"],
        "example_static": [work / "made" / "example_static"],
        "example_cpp": [work / "made" / "example_cpp"],
        "example.py": [sys.executable, "-S", "-E", examples / "example.py", library],
    }
    found = {}
    for caller, command in callers.items():
        made = [work / f"{caller}.{each}" for each in outputs]
        run(*command, *weights, *(examples / f"{each}.bin" for each in inputs), *made)
        found[caller] = [each.read_bytes() for each in made]
    return found


def needed(library: Path) -> set[str]:
    """Libraries that a library needs, without the loader."""
    lines = run("ldd", library).splitlines()
    names = {line.split()[0].split("/")[-1].split(".so")[0] for line in lines}
    return {name for name in names if not name.startswith(("linux-vdso", "ld-linux"))}


# zig builds a C++ library for every way of linking, which takes two minutes and a half.
@pytest.mark.parametrize(
    ("compilers", "place", "threads"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] if name == "zig" else [], id=name)
        for name, case in CASES.items()
    ],
)
def test_callers_get_the_bits_that_python_gives(compilers, place, threads, tmp_path, monkeypatch):
    cc = compilers[0]
    if "ziglang" in cc and importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed")
    monkeypatch.setenv("CC", cc)
    module, given = Branches().eval(), example()
    package = tmp_path / "lib"
    weft.deploy(module, given, package, name="branches", weights=place, threads=threads)
    with torch.no_grad():
        wanted = weft.optimize(module, *given, threads=threads)(*given)
    arrays = [wanted["scores"], *wanted["maps"]]
    outputs = ["scores", "maps_0", "maps_1"]
    expected = [each.numpy().tobytes() for each in arrays]
    assert [(package / "examples" / f"{name}.out").read_bytes() for name in outputs] == expected
    assert needed(package / "lib" / "libbranches.so") <= {"libc", "libm", "libpthread"}
    prefix = installed(package, tmp_path, compilers)
    inputs = ["image", "more_0", "more_1", "more_2"]
    for caller, made in called(tmp_path, prefix, "branches", inputs, outputs).items():
        assert made == expected, caller
    assert bool(list(prefix.rglob("*.weights"))) == (place == "file")
    for command in ([tmp_path / "made" / "example"], [sys.executable, package / EXAMPLE]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode > 0
        assert done.stderr.startswith("usage: ")
    if shutil.which("pkg-config"):
        path = str(prefix / "lib" / "pkgconfig")
        found = run("pkg-config", "--cflags", "--libs", "weft_branches", PKG_CONFIG_PATH=path)
        headers, libraries, name = found.split()
        assert Path(headers.removeprefix("-I")).resolve() == prefix / "include"
        assert Path(libraries.removeprefix("-L")).resolve() == prefix / "lib"
        assert name == "-lbranches"


class Loaded:
    """A deployed library by ctypes."""

    def __init__(self, package: Path, name: str) -> None:
        self.library = ctypes.CDLL(str(package / "lib" / f"lib{name}.so"))
        self.name = name
        self.record = json.loads((package / "library.json").read_text())
        self.path = str(package / "share" / f"{name}.weights").encode()

    def load(self, path: bytes | None = None, abi: int = 0, signature: int = 0):
        weights = ctypes.c_void_p()
        load = self.library[f"{self.name}_load_checked"]
        load.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_ulong]
        given = abi or self.record["abi"], signature or self.record["signature"]
        return load(path or self.path, ctypes.byref(weights), *given), weights


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "lib"
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 9)).eval()
    weft.deploy(module, torch.randn(4, 64), folder, name="small")
    return folder


@torch.no_grad()
def test_examples_in_channels_last_are_read_in_that_order(tmp_path):
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()).eval()
    x = torch.randn(2, 3, 6, 5).to(memory_format=torch.channels_last)
    package, made = tmp_path / "lib", tmp_path / "made"
    weft.deploy(module, x, package, name="last")
    assert " *   input: input, f32[2x6x5x3]\n" in (package / "include" / "weft_last.h").read_text()
    given = package / "examples" / "input.bin"
    assert given.read_bytes() == x.permute(0, 2, 3, 1).numpy().tobytes()
    expected = weft.optimize(module, x, threads=1, measure=False)(x)
    assert (package / "examples" / "output.out").read_bytes() == expected.numpy().tobytes()
    library, weights = package / "lib" / "liblast.so", package / "share" / "last.weights"
    run(sys.executable, "-S", package / "examples" / "example.py", library, weights, given, made)
    assert made.read_bytes() == expected.numpy().tobytes()
    torch.testing.assert_close(expected, module(x).contiguous(), rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_refused(small, tmp_path):
    loaded = Loaded(small, "small")
    assert loaded.load()[0] == 0
    assert loaded.load(abi=2)[0] == -10
    assert loaded.load(signature=1)[0] == -10
    assert loaded.load(b"/nowhere/small.weights")[0] == -12
    data = (small / "share" / "small.weights").read_bytes()
    for number, damaged in enumerate((data[:-1], data + b"\0", b"x" + data[1:], b"")):
        path = tmp_path / f"{number}"
        path.write_bytes(damaged)
        assert loaded.load(str(path).encode())[0] == -13
    message = loaded.library.small_message
    message.restype = ctypes.c_char_p
    assert message(-10) == (
        b"the program was compiled with the header of another version of the library"
    )


def test_threads_share_weights(small):
    loaded = Loaded(small, "small")
    status, weights = loaded.load()
    assert status == 0
    library = loaded.library
    x = np.frombuffer((small / "examples" / "input.bin").read_bytes(), np.float32)
    wanted = (small / "examples" / "output.out").read_bytes()
    wrong: list[int] = []

    def work() -> None:
        context = ctypes.c_void_p()
        wrong.append(library.small_new(weights, ctypes.byref(context)))
        out = np.zeros(36, np.float32)
        for _ in range(50):
            out.fill(0)
            status = library.small_call(
                context, ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data)
            )
            wrong.append(status or int(out.tobytes() != wanted))
        library.small_free(context)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(wrong) == 8 * 51
    assert not any(wrong)
    library.small_unload(weights)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_symbols_have_the_version_of_the_abi(small):
    lines = run("nm", "-D", "--defined-only", small / "lib" / "libsmall.so.1").splitlines()
    shown = {line.split()[-1] for line in lines}
    assert "small_call@@SMALL_1" in shown
    assert all(name.startswith("small_") or name == "SMALL_1" for name in shown)


def test_what_cannot_be_deployed(tmp_path):
    class Sorted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.det(x)

    with pytest.raises(UserError, match="a C library needs every op of the module compiled"):
        weft.deploy(Sorted(), torch.randn(3, 3), tmp_path / "lib")
    with pytest.raises(UserError, match="changes no buffers and no inputs"):
        weft.deploy(nn.BatchNorm2d(3), torch.randn(2, 3, 4, 4), tmp_path / "lib")
    (tmp_path / "other").write_text("")
    with pytest.raises(UserError, match="must be empty or contain an earlier C library"):
        weft.deploy(nn.ReLU(), torch.randn(3), tmp_path)
    with pytest.raises(UserError, match=r"version must be MAJOR\.MINOR\.PATCH"):
        weft.deploy(nn.ReLU(), torch.randn(3), tmp_path / "lib", version="1")
    assert not (tmp_path / "lib").exists()


def test_networks_without_pytorch(tmp_path):
    net = weft.trace(lambda x: weft.ops.tanh(weft.ops.mul(x, x)), "f32[2,8]")
    net.save(tmp_path / "net.weft")
    out = tmp_path / "out"
    done = CliRunner().invoke(
        main, ["deploy", str(tmp_path / "net.weft"), "-o", str(out), "--name", "squares"]
    )
    assert done.exit_code == 0, done.output
    compiler = find_compiler()
    assert f"built by {compiler}" in done.output
    x = np.frombuffer((out / "examples" / "x.bin").read_bytes(), np.float32).reshape(2, 8)
    wanted = np.asarray(net.compile(threads=1)(x))
    assert (out / "examples" / f"{net.graph.outputs[0]}.out").read_bytes() == wanted.tobytes()
