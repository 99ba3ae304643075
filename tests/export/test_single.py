"""Networks as one C file: compiled, run often, by threads, under sanitizers."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import weft
from tests.cli.commands import bad, good
from tests.turns import in_turn
from weft.errors import UserError
from weft.export import single_file
from weft.ops.convolution import ConvAttributes
from weft.ops.pooling import MaxPoolAttributes
from weft.ops.table import OPS
from weft.ops.values import apply
from weft.runtime.compiler import find_compiler, sanitizer_flags
from weft.targets.find import runs_here, target

STRICT = ("-Wall", "-Wextra", "-Werror")
C89 = ("-std=c89", "-pedantic-errors", *STRICT)


def network(channels=1, last=True):
    """Two convolutions, a pool and a softmax: no channel count fills a vector."""
    draw = np.random.default_rng(3)
    suffix = "ChannelsLast" if last else ""
    shape = (1, 9, 10, channels) if last else (1, channels, 9, 10)
    x = weft.input("image", f"f32[{','.join(map(str, shape))}]")

    def conv(y, inputs, outputs, pads):
        w = draw.normal(0, 0.4, (outputs, inputs, 3, 3)).astype(np.float32)
        b = draw.normal(0, 0.1, outputs).astype(np.float32)
        attributes = ConvAttributes((3, 3), (1, 1), (1, 1), (pads,) * 4)
        inputs = (y, weft.constant(w), weft.constant(b))
        return apply(OPS[f"Conv{suffix}"], inputs, attributes)[0]

    y = apply(OPS["Relu"], (conv(x, channels, 6, 1),))[0]
    y = apply(OPS[f"MaxPool{suffix}"], (y,), MaxPoolAttributes((2, 2), (2, 2)))[0]
    y = conv(y, 6, 3, 0)
    y = apply(OPS["Softmax"], (y,), OPS["Softmax"].attributes(axis=-1 if last else 1))[0]
    return weft.net([x], [y.named("scores")], name="tiny")


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(4).integers(0, 256, (9, 10, 1), dtype=np.uint8)


def built(folder, made, *flags):
    (folder / "tiny.c").write_text(made.text)
    program = folder / "tiny"
    line = [*find_compiler().command, *flags, "-DWEFT_TEST", "tiny.c", "-o", str(program), "-lm"]
    subprocess.run(line, cwd=folder, check=True)
    return program


def printed(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.array(re.findall(r"[-\d.e+]+(?=[ \n])", done.stdout), float)


def refused(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 2
    return done.stderr


def scores(net, image):
    return net.reference(image.astype(np.float32).reshape(net.inputs["image"].shape))[0].ravel()


KINDS = {
    "c89": ({"flavour": "c89", "simd": "none"}, C89),
    "c89 inline": ({"flavour": "c89", "unroll": "full", "weights": "inline"}, C89),
    "c89 unrolled": ({"flavour": "c89", "unroll": "4"}, C89),
    "c99": ({"flavour": "c99", "simd": "none"}, ("-std=c99", "-pedantic-errors", *STRICT)),
    "gnu without vectors": (
        {"flavour": "gnu", "simd": "none"},
        ("-std=gnu11", *STRICT, "-Werror=psabi"),
    ),
    "sse2 inline": ({"simd": "sse2", "weights": "inline"}, STRICT),
    "c89 for sse2": ({"flavour": "c89", "simd": "sse2"}, C89),
    "sse2": ({"simd": "sse2"}, STRICT),
    "sse2 unrolled": ({"simd": "sse2", "unroll": "full", "weights": "inline"}, STRICT),
    "avx2": ({"simd": "avx2"}, (*STRICT, "-march=x86-64-v3")),
    "avx512": ({"simd": "avx512"}, (*STRICT, "-march=x86-64-v4")),
    "neon": ({"simd": "neon"}, STRICT),
}
LONG = ("c89 inline", "sse2 unrolled", "gnu without vectors", "c89 for sse2")
"""Kinds that take long, or that are much like others."""


@pytest.mark.parametrize(
    "kind",
    [pytest.param(each, marks=pytest.mark.thorough if each in LONG else ()) for each in KINDS],
)
def test_the_file_alone_gives_what_the_network_does(kind, tmp_path, image):
    options, flags = KINDS[kind]
    net = network()
    made = net.single_file(**options)
    machine = made.toolkit.target
    if not runs_here(target(machine)):
        pytest.skip(f"this machine is no {machine}")
    program = built(tmp_path, made, "-O1", *flags)
    (tmp_path / "image.raw").write_bytes(image.tobytes())
    (tmp_path / "image.f32").write_bytes((image / 255).astype(np.float32).tobytes())
    # Every run gives the bits of the first one, else the program fails.
    found = printed(program, "-n", 1000, tmp_path / "image.raw")
    np.testing.assert_allclose(found, scores(net, image), rtol=0, atol=2e-5)
    found = printed(program, "-s", 1 / 255, tmp_path / "image.raw")
    np.testing.assert_allclose(found, scores(net, image / 255), rtol=0, atol=1e-6)
    np.testing.assert_allclose(printed(program, tmp_path / "image.f32"), found, atol=1e-6)


@pytest.mark.parametrize(("last", "channels"), in_turn([(True,), (False,)], [1, 3], every=2))
def test_images_are_read(channels, last, tmp_path):
    net = network(channels, last)
    bytes = np.random.default_rng(5).integers(0, 256, (9, 10, channels), dtype=np.uint8)
    program = built(tmp_path, net.single_file(), "-O1")
    wanted = scores(net, bytes if last else np.moveaxis(bytes, -1, 0))
    head = f"P{5 if channels == 1 else 6} # rows below columns\n10 9\n255\n".encode()
    (tmp_path / "image.ppm").write_bytes(head + bytes.tobytes())
    np.testing.assert_allclose(printed(program, tmp_path / "image.ppm"), wanted, atol=2e-5)
    text = " ".join(map(str, bytes.ravel()))
    (tmp_path / "plain.ppm").write_text(f"P{2 if channels == 1 else 3}\n10 9 255\n{text}\n")
    np.testing.assert_allclose(printed(program, tmp_path / "plain.ppm"), wanted, atol=2e-5)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"P5 10 8 255\n" + bytes(80), "must have 9 rows, 10 columns and 1 channels"),
        (b"P6 10 9 255\n" + bytes(270), "must have 9 rows, 10 columns and 1 channels"),
        (b"P5 10 9 65535\n" + bytes(180), "from 1 to 255"),
        (b"P5 10 9 255\n" + bytes(89), "too early"),
        (b"P2 10 9 255\n" + b"256 " * 90, "missing or too large"),
        (b"P5 10 9 100\n" + b"e" * 90, "missing or too large"),
        (b"P5 10 9 255\r\n" + bytes(90), "goes on after the image"),
        (b"P2 10 9 255\n" + b"1 " * 91, "goes on after the image"),
        (b"P2 10 9 255\n" + b"1 " * 89, "missing or too large"),
        (b"P5 999999999999999999999 9 255\n" + bytes(90), "must have 9 rows"),
        (b"P5 -10 9 255\n" + bytes(90), "must have 9 rows"),
        (b"P5\n", "must have 9 rows"),
        (bytes(91), "have 360 bytes or 90"),
        (b"", "have 360 bytes or 90"),
    ],
)
def test_what_is_no_image_of_that_size_is_refused(content, why, tmp_path, sanitized):
    (tmp_path / "wrong").write_bytes(content)
    assert why in refused(sanitized, tmp_path / "wrong")


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sanitized")
    flags = sanitizer_flags(find_compiler())
    return built(folder, network().single_file(flavour="c89", simd="none"), "-g", *flags)


def test_sanitizers_find_nothing(sanitized, tmp_path, image):
    (tmp_path / "image.raw").write_bytes(image.tobytes())
    found = printed(sanitized, "-n", 3, tmp_path / "image.raw")
    np.testing.assert_allclose(found, scores(network(), image), atol=2e-5)
    assert "usage" in refused(sanitized)
    for option in ("-n", "-s", "-o", "-x"):
        assert "usage" in refused(sanitized, option, "1x", tmp_path / "image.raw")
    assert "cannot be read" in refused(sanitized, tmp_path / "absent")


THREADS = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "tiny.c"
static float image[90], first[6 * 4];
static void *work(void *wrong)
{
    float out[6 * 4];
    static __thread unsigned char memory[TINY_ARENA_BYTES + 1] __attribute__((aligned(64)));
    for (int run = 0; run < 300; ++run) {
        if ((run & 1 ? tiny_run_on_stack(image, out) : tiny_run(image, out, memory)) != 0 ||
            memcmp(out, first, sizeof(float) * COUNT) != 0) {
            *(int *)wrong = 1;
        }
    }
    return NULL;
}
int main(void)
{
    pthread_t threads[4];
    int wrong[4] = {0};
    for (int i = 0; i < 90; ++i) {
        image[i] = (float)(i * 37 % 101) / 50.0f;
    }
    tiny_run_on_stack(image, first);
    for (int i = 0; i < 4; ++i) {
        pthread_create(&threads[i], NULL, work, &wrong[i]);
    }
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
    }
    return wrong[0] | wrong[1] | wrong[2] | wrong[3];
}
"""


def test_threads_may_call_it_at_once(tmp_path):
    net = network()
    (tmp_path / "tiny.c").write_text(net.single_file().text)
    (tmp_path / "main.c").write_text(THREADS)
    count = net.outputs["scores"].size
    flags = ["-O1", "-g", "-fsanitize=thread", f"-DCOUNT={count}", "-pthread"]
    line = [*find_compiler().command, *flags, "main.c", "-o", "main", "-lm"]
    subprocess.run(line, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_command_writes_the_file_and_says_how_to_try_it(tmp_path):
    net = network()
    net.save(tmp_path / "tiny.onnx")
    out = tmp_path / "tiny.c"
    options = ("--style", "single", "--std", "c89", "--constants", "array", "--unroll", "2")
    said = good("export", tmp_path / "tiny.onnx", *options, "-o", out, "--header")
    assert "cc -std=c89 -O3 -DWEFT_TEST" in said
    for name in ("tiny.c", "tiny.h"):
        flags = [*C89, "-O1", "-fsyntax-only", "-x", "c", name]
        subprocess.run([*find_compiler().command, *flags], cwd=tmp_path, check=True)
    assert "tiny_run_on_stack" in (tmp_path / "tiny.h").read_text()
    said = bad("export", tmp_path / "tiny.onnx", "--style", "single", "-o", tmp_path)
    assert "ends with .c" in said


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"threads": 2}, "threads"),
        ({"weights": "blob"}, "blob"),
        ({"parameters": ("runtime",)}, "given at run time"),
        ({"simd": "sse2", "target": "cortex-m4"}, "cortex-m4 and sse2"),
        ({"simd": "sse9"}, "sse9"),
        ({"unroll": "some"}, "some"),
    ],
)
def test_what_one_file_cannot_have_is_refused(options, got, tmp_path):
    with pytest.raises(UserError) as error:
        network().single_file(tmp_path / "tiny.c", **options)
    assert got in str(error.value)
    assert not any(tmp_path.iterdir())


def test_a_function_that_would_be_too_long_is_refused():
    x = weft.input("x", "f32[1,32,32,16]")
    w = np.zeros((16, 16, 3, 3), np.float32)
    attributes = ConvAttributes((3, 3), (1, 1), (1, 1), (1,) * 4)
    y = apply(OPS["ConvChannelsLast"], (x, weft.constant(w)), attributes)[0]
    with pytest.raises(UserError, match="may have 20,000 statements"):
        weft.net([x], [y]).single_file(unroll="full")


def test_a_toolkit_with_several_sources_is_no_single_file():
    with pytest.raises(UserError, match="several sources"):
        single_file(network().toolkit(parts=0))


def test_no_vectors_are_written_where_none_are_asked_for():
    made = network().single_file(flavour="gnu", simd="none")
    assert "vector_size" not in made.text
    assert "vector_size" in network().single_file(flavour="gnu", simd="sse2").text


def test_strict_dialects_say_that_they_write_loops(tmp_path):
    network().save(tmp_path / "tiny.onnx")
    file = ("export", tmp_path / "tiny.onnx", "--style", "single", "-o", tmp_path / "tiny.c")
    assert "C99 has no vector types" in good(*file, "--std", "c99", "--simd", "avx2")
    assert "no vector types" not in good(*file, "--simd", "avx2")
    assert "no vector types" not in good(*file, "--std", "c99", "--simd", "none")


# zig builds the C library of the machine first, which takes a minute where nothing is cached.
@pytest.mark.thorough
def test_neon_runs_in_an_emulator(tmp_path, image):
    if find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed: no compiler for aarch64")
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if emulator is None:
        pytest.skip("qemu-aarch64 is not installed")
    net = network()
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-static"]
    for weights in ("arrays", "inline"):
        made = net.single_file(simd="neon", weights=weights)
        assert "vector_size(16)" in made.text
        (tmp_path / "tiny.c").write_text(made.text)
        line = [*zig, *made.toolkit.flags, "-O1", *STRICT, "-DWEFT_TEST", "tiny.c", "-o", "tiny"]
        subprocess.run([*line, "-lm"], cwd=tmp_path, check=True)
        (tmp_path / "image.raw").write_bytes(image.tobytes())
        done = subprocess.run(
            [emulator, "./tiny", "-n", "100", "image.raw"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        found = np.array(re.findall(r"[-\d.e+]+(?=[ \n])", done.stdout), float)
        np.testing.assert_allclose(found, scores(net, image), rtol=0, atol=2e-5)


def summed(folder, dtype, shape=(2, 3)):
    """A program that adds an input to itself."""
    sizes = ",".join(map(str, shape))
    net = weft.trace(lambda x: weft.ops.add(x, x), f"{dtype}[{sizes}]", name="tiny")
    flags = [*C89, "-Wconversion", *sanitizer_flags(find_compiler())]
    return built(folder, net.single_file(flavour="c89"), *flags)


@pytest.mark.parametrize("dtype", ["i64", "u64", "u32", "i8"])
def test_integers_are_printed_whole(dtype, tmp_path):
    element = np.dtype(f"{dtype[0]}{int(dtype[1:]) // 8}")
    limits = np.iinfo(element)
    values = [0, 7, 10, limits.max // 2, limits.min // 2, limits.min // 2 + 3]
    (tmp_path / "x.raw").write_bytes(np.array(values, element).tobytes())
    done = subprocess.run([summed(tmp_path, dtype), tmp_path / "x.raw"], capture_output=True)
    assert done.stdout.decode().split()[1:] == [str(2 * each) for each in values]


def test_bytes_become_integers_as_they_become_floats(tmp_path):
    program = summed(tmp_path, "i8")
    (tmp_path / "x.pgm").write_bytes(b"P5 3 2 255\n" + bytes([64, 65, 100, 128, 191, 190]))
    found = printed(program, "-o", -128, tmp_path / "x.pgm")
    assert list(found) == [-128, -126, -56, 0, 126, 124]
    found = printed(program, "-s", 0.5, "-o", -64.4, tmp_path / "x.pgm")
    assert list(found) == [-64, -64, -28, 0, 62, 62]
    assert "must fit the input: i8" in refused(program, tmp_path / "x.pgm")


def test_arrays_may_be_empty(tmp_path):
    program = summed(tmp_path, "f32", (0, 4))
    (tmp_path / "x.raw").write_bytes(b"")
    assert printed(program, tmp_path / "x.raw").size == 0
    (tmp_path / "x.raw").write_bytes(bytes(4))
    assert "have 0 bytes" in refused(program, tmp_path / "x.raw")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
def test_outputs_that_cannot_be_printed_are_a_failure(tmp_path):
    program = summed(tmp_path, "f32")
    (tmp_path / "x.raw").write_bytes(bytes(24))
    with open("/dev/full", "w") as full:
        assert subprocess.run([program, tmp_path / "x.raw"], stdout=full).returncode == 1
