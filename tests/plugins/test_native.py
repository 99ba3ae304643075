"""Kernels in C and C++ that plugins bring."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.plugins.installed import Install, install
from tests.turns import a_few
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.text import parse
from weft.kernels.generators import GENERATORS
from weft.ops.native import Native, parse_signature
from weft.ops.table import KERNELS, OPS
from weft.plugins import refresh
from weft.rewrite.natives import offers, use_natives
from weft.runtime.compiler import find_compiler, find_cxx

__all__ = ["install"]

C_SOURCE = """
void my_relu(const float *in0, float *out0, int count)
{
    int i;
    for (i = 0; i < count; ++i) {
        out0[i] = in0[i] > 0 ? in0[i] : 0;
    }
}
"""
CXX_SOURCE = """
#include "my_relu.hpp"
#include <algorithm>
#include <vector>
namespace { template <typename T> T positive(T x) { return std::max(x, T(0)); } }
extern "C" void my_relu(const float *in0, float *out0, int count)
{
    std::vector<float> copy(in0, in0 + count);
    std::transform(copy.begin(), copy.end(), out0, positive<float>);
}
"""
HEADER = 'extern "C" void my_relu(const float *in0, float *out0, int count);\n'
PLUGIN = """
from importlib.resources import files
from weft.ops.native import Native
HERE = files(__package__)
RELU = Native(
    op="Relu",
    signature="void my_relu(const float *in0, float *out0, int count)",
    files={files},
    doc="Relu by hand.",
    values={{"count": lambda call: call.type(0).size}},
    {more}
)
"""


def plugin(*names: str, more: str = "") -> str:
    files = "".join(f"HERE / {name!r}, " for name in names)
    return PLUGIN.format(files=f"({files})", more=more)


def graph_of(text: str) -> Graph:
    return parse(text, lambda op: OPS[op].attributes)


def relu_of(*shape: int) -> Graph:
    text = ",".join(map(str, shape))
    return graph_of(f"graph g(%x: f32[{text}]) -> (%y) {{\n%y: f32[{text}] = Relu(%x)\n}}")


ENTRY = {"kernels": {"my-relu": "mine:RELU"}}


@pytest.fixture(params=["c", "cpp"])
def relu(request, install: Install) -> None:
    """Relu in C, and in C++ with a header."""
    if request.param == "c":
        install("mine", {"mine/__init__.py": plugin("relu.c"), "mine/relu.c": C_SOURCE}, ENTRY)
    else:
        files = {
            "mine/__init__.py": plugin("relu.cpp", "my_relu.hpp"),
            "mine/relu.cpp": CXX_SOURCE,
            "mine/my_relu.hpp": HEADER,
        }
        install("mine", files, ENTRY)


@pytest.mark.usefixtures("relu")
@pytest.mark.parametrize("flavour", ["c89", "c99", "gnu"])
def test_a_kernel_takes_the_place_of_its_op(flavour: str) -> None:
    net = weft.Net(relu_of(2, 3, 4))
    assert [node.op for node in net.expanded().graph.nodes] == ["Relu_by_my_relu"]
    fast = net.compile(flavour=flavour)
    assert "my_relu(in0, out0, (int)24);" in fast.library.files.sources[0][1]
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(fast(x), np.maximum(x, 0))
    assert [each.largest for each in net.verify(x)] == [0]
    plain = net.compile(flavour=flavour, plain=True)
    assert "my_relu" not in plain.library.files.sources[0][1]
    np.testing.assert_array_equal(plain(x), np.maximum(x, 0))


@pytest.mark.usefixtures("relu")
@pytest.mark.parametrize("threads", a_few([1, 2], 1))
def test_an_exported_kernel(threads: int, tmp_path) -> None:
    net = weft.Net(relu_of(2, 3, 4))
    net.export(tmp_path / "out", "generic", threads=threads)
    environment = {"CC": "cc", "CXX": "c++"}
    compiler = find_compiler()
    environment["CC"] = " ".join(compiler.command)
    environment["CXX"] = " ".join(find_cxx(compiler).command)
    for goal in ("test",) + (("sanitize",) if compiler.kind in ("gcc", "clang") else ()):
        done = subprocess.run(
            ["make", "-C", tmp_path / "out", goal, *(f"{k}={v}" for k, v in environment.items())],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in done.stderr
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "| `relu.c" in readme


def test_a_static_library(install: Install, tmp_path) -> None:
    compiler = find_compiler()
    (tmp_path / "relu.c").write_text(C_SOURCE)
    arguments = ["-O2", "-fPIC", "-c", "relu.c", "-o", "relu.o"]
    subprocess.run([*compiler.command, *arguments], cwd=tmp_path, check=True)
    ar = ["ar"] if compiler.kind != "zig" else [*compiler.command[:-1], "ar"]
    subprocess.run([*ar, "rcs", "librelu.a", "relu.o"], cwd=tmp_path, check=True)
    text = plugin("librelu.a").replace(
        "files(__package__)", f"__import__('pathlib').Path({str(tmp_path)!r})"
    )
    install("mine", {"mine/__init__.py": text}, ENTRY)
    x = np.array([-1, 2, 3], np.float32)
    np.testing.assert_array_equal(weft.Net(relu_of(3)).compile()(x), [0, 2, 3])


CHANNELS_LAST = """
void scale_last(const float *in0, const float *in1, float *out0, unsigned char *scratch,
                long points, int channels, float factor)
{
    float *copy = (float *)scratch;
    long i;
    int c;
    for (c = 0; c < channels; ++c) {
        copy[c] = in1[c] * factor;
    }
    for (i = 0; i < points; ++i) {
        for (c = 0; c < channels; ++c) {
            out0[i * channels + c] = in0[i * channels + c] * copy[c];
        }
    }
}
"""
LAST = '''
from importlib.resources import files
from weft.ops.native import Native
def where(call):
    x, w = call.type(0).dims, call.type(1).dims
    return None if w == (1, x[1], 1, 1) else "the second factor is not one number a channel"
MUL = Native(
    op="Mul",
    signature="""void scale_last(const float *in0, const float *in1, float *out0,
        unsigned char *scratch, long points, int channels, float factor)""",
    files=(files(__package__) / "last.c",),
    doc="Scales channels that lie last.",
    values={
        "points": lambda call: call.type(0).size // call.type(0).dims[1],
        "channels": lambda call: call.type(0).dims[1],
        "factor": lambda call: 1.0,
    },
    layouts={"in0": (0, 2, 3, 1), "out0": (0, 2, 3, 1)},
    scratch=lambda call: 4 * call.type(0).dims[1],
    where=where,
    targets=("host", "x86-*"),
    exact=False,
)
'''
SCALED = """
graph scaled(%x: f32[2,3,4,5], %w: f32[1,3,1,1], %v: f32[2,3,4,5]) -> (%z) {
%y: f32[2,3,4,5] = Mul(%x, %w)
%z: f32[2,3,4,5] = Mul(%y, %v)
}
"""


def test_layouts_scratch_and_conditions(install: Install) -> None:
    files = {"last/__init__.py": LAST, "last/last.c": CHANNELS_LAST}
    install("last", files, {"kernels": {"last": "last:MUL"}})
    graph = graph_of(SCALED)
    done = use_natives(graph, "host")
    assert [node.op for node in done.nodes] == ["Transpose", "Mul_by_last", "Transpose", "Mul"]
    assert [each.refusal for node in graph.nodes for each in offers(node, graph, "host")] == [
        "",
        "the second factor is not one number a channel",
    ]
    assert use_natives(graph, "generic") is graph
    (offer,) = offers(graph.nodes[0], graph, "generic")
    assert offer.refusal == "it is for host, x86-*, not for generic"
    assert use_natives(graph, "host", exact=True) is graph
    rng = np.random.default_rng(1)
    inputs = [
        rng.standard_normal(graph.types[name].dims).astype(np.float32) for name in graph.inputs
    ]
    net = weft.Net(graph)
    assert "scale_last" in net.compile().library.files.sources[0][1]
    np.testing.assert_array_equal(net.compile()(*inputs), inputs[0] * inputs[1] * inputs[2])
    np.testing.assert_array_equal(weft.Net(done).reference(*inputs)[0], net.reference(*inputs)[0])


def test_a_condition_that_fails(install: Install) -> None:
    text = plugin("relu.c", more="where=lambda call: 1 / 0")
    install("mine", {"mine/__init__.py": text, "mine/relu.c": C_SOURCE}, ENTRY)
    with pytest.raises(UserError, match=r"the kernel my-relu of mine 1\.0 must not fail; got Zero"):
        weft.Net(relu_of(5)).compile()


GENERATOR = """
from weft.kernels.alternatives import Alternative, Sums
from weft.kernels import nest
def propose(task):
    return (Alternative(NAME, 0.0, Sums("mine"), lambda: nest.generate(task)),)
NAME = {name!r}
"""
RECORD = """
from weft.kernels.generator import Generator
MINE = Generator("mine", "Mine.", ("nothing",), propose)
"""
MINE = {"generators": {"mine": "mine:MINE"}}


def test_generators_of_plugins_compete(install: Install) -> None:
    install("mine", {"mine.py": GENERATOR.format(name="mine-nest") + RECORD}, MINE)
    net = weft.Net(relu_of(40))
    schemes = [step.implementation.scheme for step in net.plan().steps if step.implementation]
    assert schemes == ["mine-nest"]
    (layer,) = net.implementations()
    answer = layer.answers[-1]
    assert (answer.generator, answer.alternatives[0].chosen) == ("mine", True)
    x = np.random.default_rng(0).standard_normal(40).astype(np.float32)
    np.testing.assert_array_equal(net.compile()(x), np.maximum(x, 0))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GENERATOR.format(name="nest"), "with unique names; got nest"),
        ("def propose(task):\n    yield 1 / 0", "must not fail; got ZeroDivisionError"),
        ("def propose(task):\n    yield 3", "must propose objects of the class Alternative; got 3"),
        (
            "from weft.kernels.alternatives import Alternative, Sums\n"
            "def propose(task):\n"
            "    yield Alternative('mine', 0.0, Sums('mine'), lambda: 1 / 0)",
            "must not fail; got ZeroDivisionError: division by zero (mine.py, line 3)",
        ),
    ],
)
def test_a_generator_that_is_wrong(install: Install, text: str, told: str) -> None:
    install("mine", {"mine.py": text + RECORD}, MINE)
    with pytest.raises(UserError) as caught:
        weft.Net(relu_of(40)).plan()
    assert told in str(caught.value)


def test_a_refusal_of_a_plugin_is_its_answer(install: Install) -> None:
    text = (
        "from weft.kernels.refusal import Refusal\ndef propose(task):\n    return Refusal('I rest')"
    )
    install("mine", {"mine.py": text + RECORD}, MINE)
    (layer,) = weft.Net(relu_of(40)).implementations()
    assert (layer.answers[-1].generator, layer.answers[-1].refusal) == ("mine", "I rest")


LIBRARY = """
from weft.errors import UserError
from weft.kernels.generator import Generator
from weft.ir.foreign import Foreign
def library():
    if {absent}:
        raise UserError("libmine must be installed")
    return Foreign()
MINE = Generator("mine", "Mine.", ("nothing",), propose, library=library)
"""


def test_a_library_is_only_asked_by_name(install: Install) -> None:
    text = GENERATOR.format(name="mine-nest") + LIBRARY.format(absent=False)
    install("mine", {"mine.py": text}, MINE)
    net = weft.Net(relu_of(40))
    (plain,) = net.implementations()
    assert "mine" not in [each.generator for each in plain.answers]
    (asked,) = net.implementations(libraries=("mine",))
    assert asked.answers[-1].alternatives[0].name == "mine-nest"
    assert asked.scheme != "mine-nest"  # it is cheapest by its estimate, which is not enough


def test_a_library_that_no_plugin_has(install: Install) -> None:
    text = GENERATOR.format(name="mine-nest") + LIBRARY.format(absent=False)
    told = "a library must be one that an installed plugin calls: "
    with pytest.raises(UserError, match=f"{told}there is none; got mine"):
        weft.Net(relu_of(40)).plan(libraries=("mine",))
    install("mine", {"mine.py": text}, MINE)
    with pytest.raises(UserError, match=f"{told}mine; got min. Did you mean mine"):
        weft.Net(relu_of(40)).plan(libraries=("min",))


def test_a_library_that_is_not_installed(install: Install) -> None:
    text = GENERATOR.format(name="mine-nest") + LIBRARY.format(absent=True)
    install("mine", {"mine.py": text}, MINE)
    with pytest.raises(UserError, match="libmine must be installed"):
        weft.Net(relu_of(40)).plan(libraries=("mine",))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("MINE = lambda task: ()", "it must be a Generator of weft.kernels.generator, but is func"),
        (
            GENERATOR.format(name="x") + RECORD.replace('"mine"', '"yours"'),
            "the entry point must have the generator's name, which is yours",
        ),
    ],
)
def test_a_generator_that_cannot_be_used(install: Install, text: str, told: str) -> None:
    install("mine", {"mine.py": text}, MINE)
    assert GENERATORS.failed[0].reason.startswith(told)
    assert weft.Net(relu_of(40)).plan().steps


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("void my_relu(int x) { oops; }", "relu.c, from a plugin, must compile"),
        ("int unrelated;", "the kernels of plugins must link"),
    ],
)
def test_a_source_that_is_wrong(install: Install, source: str, told: str) -> None:
    install("mine", {"mine/__init__.py": plugin("relu.c"), "mine/relu.c": source}, ENTRY)
    with pytest.raises(UserError, match=told):
        weft.Net(relu_of(5)).compile()
    # Whoever needs another op is not disturbed.
    other = graph_of("graph neg(%x: f32[3]) -> (%y) {\n%y: f32[3] = Neg(%x)\n}")
    np.testing.assert_array_equal(weft.Net(other).compile()(np.ones(3, np.float32)), -np.ones(3))


SOFTMAX = """
#include <math.h>
void my_softmax(const float *in0, float *out0, int rows, int width)
{
    for (int i = 0; i < rows; ++i, in0 += width, out0 += width) {
        float most = in0[0], total = 0;
        for (int j = 1; j < width; ++j) most = in0[j] > most ? in0[j] : most;
        for (int j = 0; j < width; ++j) total += out0[j] = expf(in0[j] - most);
        for (int j = 0; j < width; ++j) out0[j] /= total;
    }
}
"""
SOFTMAX_PLUGIN = """
from importlib.resources import files
from weft.ops.native import Native
KERNEL = Native(
    op="Softmax",
    signature="void my_softmax(const float *in0, float *out0, int rows, int width)",
    files=(files(__package__) / "softmax.c",),
    doc="Softmax by hand.",
    values={
        "rows": lambda call: call.type(0).size // call.type(0).dims[-1],
        "width": lambda call: call.type(0).dims[-1],
    },
    where=lambda call: None if call.attributes.axis in (-1, len(call.type(0).shape) - 1)
        else "it is not along the last axis",
)
"""


def test_a_kernel_for_a_composite_op(install: Install) -> None:
    files = {"soft/__init__.py": SOFTMAX_PLUGIN, "soft/softmax.c": SOFTMAX}
    install("soft", files, {"kernels": {"soft": "soft:KERNEL"}})
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    for axis, used in ((-1, True), (0, False)):
        text = "graph g(%x: f32[4,6]) -> (%y) {\n%y: f32[4,6] = Softmax(%x) {axis=AXIS}\n}"
        net = weft.Net(graph_of(text.replace("AXIS", str(axis))))
        fast = net.compile(threads=1)
        assert ("my_softmax" in fast.library.files.sources[0][1]) == used
        np.testing.assert_allclose(fast(x), net.reference(x)[0], rtol=1e-5)


def test_a_source_that_is_missing(install: Install) -> None:
    install("mine", {"mine/__init__.py": plugin("relu.c")}, ENTRY)
    (failed,) = KERNELS.failed
    assert failed.reason.startswith("its file ")
    assert failed.reason.endswith("relu.c does not exist")
    x = np.array([-1, 2], np.float32)
    np.testing.assert_array_equal(weft.Net(relu_of(2)).compile()(x), [0, 2])


def test_an_op_that_does_not_exist(install: Install) -> None:
    text = plugin("relu.c").replace('"Relu"', '"Relo"')
    install("mine", {"mine/__init__.py": text, "mine/relu.c": C_SOURCE}, ENTRY)
    assert KERNELS.failed[0].reason == "it is for the op Relo, which does not exist"


def test_a_kernel_that_changed_is_built_again(install: Install) -> None:
    files = {"mine/__init__.py": plugin("relu.c"), "mine/relu.c": C_SOURCE}
    site = install("mine", files, ENTRY)
    x = np.array([-1, 2, 7, 8], np.float32)
    np.testing.assert_array_equal(weft.Net(relu_of(4)).compile()(x), [0, 2, 7, 8])
    (site / "mine" / "relu.c").write_text(C_SOURCE.replace(": 0;", ": -5;"))
    refresh()
    np.testing.assert_array_equal(weft.Net(relu_of(4)).compile()(x), [-5, 2, 7, 8])


@pytest.mark.parametrize(
    ("signature", "more", "told"),
    [
        ("int f(const float *in0)", {}, "must declare a void function"),
        ("void f()", {}, "must be a pointer to elements or a number; got none"),
        ("void f(const float *in0, struct s x)", {}, "a number; got struct s x"),
        ("void f(float *in0, float *out0)", {}, "in0 must be a pointer to const"),
        ("void f(const float *out0)", {}, "out0 must not be const"),
        ("void f(const float *x)", {}, "x must be inN, outN or scratch"),
        ("void f(float *out0, int n)", {}, "values must have n"),
        ("void f(float *out0)", {"values": {"n": len}}, "there is no parameter n"),
        ("void f(float *out0)", {"layouts": {"in0": (0,)}}, "there is no tensor in0"),
        ("void f(float *out0)", {"layouts": {"out0": (0, 0)}}, "must hold every axis once"),
        ("void f(float *out0, float *out0)", {}, "out0 stands twice"),
        ("void f(float *out0, unsigned char *scratch)", {}, "scratch and its size must be given"),
        ("void f(float *out0)", {"files": ()}, "there must be a file with the function"),
        ("void f(float *out0)", {"files": (Path("a.txt"),)}, "a.txt must be a source, a header"),
    ],
)
def test_records_that_are_wrong(signature: str, more: dict, told: str) -> None:
    arguments = {"files": (Path("a.c"),), **more}
    with pytest.raises(UserError) as caught:
        Native(op="Relu", signature=signature, doc="", **arguments)
    assert told in str(caught.value)


def test_signatures() -> None:
    name, found = parse_signature(
        "void f(const int8_t *in0, float * out0,\n unsigned char *scratch, size_t n);"
    )
    assert name == "f"
    assert [str(each) for each in found] == [
        "const int8_t *in0",
        "float *out0",
        "unsigned char *scratch",
        "size_t n",
    ]
    assert [each.tensor for each in found] == [("in", 0), ("out", 0), None, None]
