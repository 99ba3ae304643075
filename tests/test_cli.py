"""The command line: results, JSON, error messages and exit codes."""

from __future__ import annotations

import json
import platform
import re
import runpy
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from tests.cli.commands import good, record, weft
from tests.plan.nets import Net as HandMade
from weft.api import Net, load
from weft.cli.show import GRAPHS, graphs
from weft.errors import InternalError
from weft.ir.text import parse
from weft.ops.table import OPS
from weft.rewrite.recipes import simplify
from weft.runtime.threads import cores
from weft.targets.find import host


@pytest.fixture(scope="module")
def doubled(tmp_path_factory) -> Path:
    """A model with an open batch, an input that fixes a shape, and weights."""
    weight = numpy_helper.from_array(np.full((4, 2), 2, np.float32), "w")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"], name="multiply"),
            helper.make_node("Reshape", ["product", "shape"], ["y"], name="reshape"),
        ],
        "doubled",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4]),
            helper.make_tensor_value_info("shape", TensorProto.INT64, None),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("model") / "doubled.onnx"
    onnx.save(model, path)
    return path


# --- show -----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", GRAPHS)
def test_show_prints_what_can_be_read_back(digits, after):
    text = good("show", digits, "--after", after)
    weights = {}
    from_file = onnx.load(digits)
    assert text.startswith("graph digits(%image: f32[1,1,8,8]) -> (%scores) {")
    if after == "import":
        for each in from_file.graph.initializer:
            weights[each.name] = numpy_helper.to_array(each)
        graph = parse(text, lambda op: OPS[op].attributes, weights)
        assert [node.op for node in graph.nodes] == [node.op_type for node in from_file.graph.node]


def test_show_diff(digits):
    lines = good("show", digits, "--after", "fold", "--since", "import", "--diff").splitlines()
    gone = [line for line in lines if line.startswith("-") and "= BatchNormalization(" in line]
    assert len(gone) == 4
    same = good("show", digits, "--after", "expand", "--diff")
    assert same == f"no difference since {GRAPHS[-2]}\n"
    assert record("show", digits, "--after", "expand", "--diff") == {"pass": "expand", "diff": []}


def test_show_goes_the_way_that_every_model_goes(digits):
    graph = load(digits).graph
    passes = dict(graphs(graph))
    assert tuple(passes) == GRAPHS
    assert passes[GRAPHS[-2]] == simplify(graph)[0]
    assert passes["expand"] == load(digits).expanded().graph


def test_show_kernels_and_c(digits):
    assert "kernel conv" in good("show", digits, "--after", "kernels")
    found = record("show", digits, "--after", "c", "--target", "generic")["files"]
    assert sorted(found) == ["digits.c", "digits.h"]
    assert "int digits_run(const float *image, float *scores, void *arena);" in found["digits.h"]


def test_show_refuses_the_diff_of_code(digits):
    result = weft("show", digits, "--after", "c", "--diff")
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: --diff compares graphs: {', '.join(GRAPHS)}\n  got: --after c\n"
    )


# --- figures --------------------------------------------------------------------------------


def test_stats(digits):
    found = record("stats", digits)
    assert found["macs"] == 90_624
    assert sum(layer["macs"] for layer in found["layers"]) == 90_624
    text = good("stats", digits)
    assert text.splitlines()[0].split()[:3] == ["node", "op", "makes"]
    assert "90,624 MACs" in text.splitlines()[-1]
    assert len(record("stats", digits, "--raw")["layers"]) > len(found["layers"])


def test_plan_and_its_picture(digits, tmp_path):
    picture = tmp_path / "map.svg"
    found = record("plan", digits, "--target", "generic", "--svg", picture)
    assert found["target"] == "generic"
    assert found["arena_bytes"] <= 1.05 * found["lower_bound"]
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    text = good("plan", digits, "--target", "generic", "--table")
    assert f"arena {found['arena_bytes']:,} bytes" in text.splitlines()[-1]


def test_plan_cannot_write(digits, tmp_path):
    result = weft("plan", digits, "--svg", tmp_path / "none" / "map.svg")
    assert result.exit_code == 1
    where = tmp_path / "none" / "map.svg"
    assert result.stderr == (
        f"error: the output must be writable\n  got: {where}: No such file or directory\n"
    )


# --- run ------------------------------------------------------------------------------------


def test_run_on_arrays(doubled, tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    output = tmp_path / "y.npz"
    options = ("--constant", "shape=[-1]", "--input", "x=3x4")
    found = record("run", doubled, tmp_path / "x.npy", *options, "-o", output)
    expected = (x @ np.full((4, 2), 2, np.float32)).reshape(-1)
    assert found["outputs"]["y"]["values"] == expected.tolist()
    np.testing.assert_array_equal(np.load(output)["y"], expected)
    shape = ("--constant", "shape=[-1, 2]", "--batch", 3)
    text = good("run", doubled, f"x={tmp_path / 'x.npy'}", *shape)
    assert text == "y  float32[3, 2]\n  12 12 44 44 76 76\n"


def test_run_on_an_image(digits, tmp_path):
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8) * 3
    Image.fromarray(pixels).save(tmp_path / "digit.png")
    np.save(tmp_path / "digit.npy", (pixels / np.float32(255)).astype(np.float32)[None, None])
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(f"digit {number}" for number in range(10)))
    left = record("run", digits, tmp_path / "digit.png")["outputs"]["scores"]["values"]
    right = record("run", digits, tmp_path / "digit.npy")["outputs"]["scores"]["values"]
    np.testing.assert_allclose(left, right, rtol=1e-4)
    best = good("run", digits, tmp_path / "digit.png", "--labels", labels).splitlines()[1]
    assert best.endswith(f"digit {int(np.argmax(right))}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (),
            "error: every input needs data\n  got: nothing for image f32[1,1,8,8]\n"
            "  fix: Give NAME=FILE for each, or --random\n",
        ),
        (
            ("TMP/wrong.npy",),
            "error: input image must be f32[1,1,8,8]\n  got: float32[3]\n",
        ),
        (
            ("TMP/integers.npy",),
            "error: input image must be f32\n  got: int64[1, 1, 8, 8]\n",
        ),
        (
            ("--random", "--input", "image"),
            "error: --input must be NAME=SHAPE\n  got: image\n"
            "  fix: For example: --input image=1x3x224x224\n",
        ),
        (
            ("--random", "-o", "TMP/scores.txt"),
            "error: outputs must go to an .npz file, or to .npy for a single output\n"
            "  got: 1 outputs for scores.txt\n",
        ),
        (
            ("--random", "--constant", "image=[1"),
            "error: the value of a constant must be JSON, or @FILE with a NumPy array\n"
            "  got: image=[1: Expecting ',' delimiter: line 1 column 3 (char 2)\n",
        ),
    ],
)
def test_run_says_what_is_wrong(digits, tmp_path, arguments, message):
    np.save(tmp_path / "wrong.npy", np.zeros(3, np.float32))
    np.save(tmp_path / "integers.npy", np.zeros((1, 1, 8, 8), np.int64))
    result = weft("run", digits, *(each.replace("TMP", str(tmp_path)) for each in arguments))
    assert result.exit_code == 1
    assert result.stderr == message


# --- verify ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("against", "name"), [("framework", "onnxruntime"), ("reference", "reference")]
)
def test_verify_every_step(digits, against, name):
    found = record("verify", digits, "--against", against, "--runs", "3", "--callers", "2")
    assert found["passed"]
    assert found["against"] == name
    assert found["repeated"] == {"runs": 6, "callers": 2, "differing": 0}
    values = [layer["value"] for layer in found["layers"]]
    assert values[0] == "scores"
    assert "/block/Relu_1_output_0" in values
    # But the image that is written channels last for the dense layer: the model has no such value.
    steps = record("plan", digits)["rows"]
    made = [step["writes"][0]["value"] for step in steps]
    assert sorted(values) == sorted(value for value in made if value != "transpose_out")


def test_verify_recorded_outputs(digits, tmp_path):
    x = np.zeros((1, 1, 8, 8), np.float32)
    np.save(tmp_path / "x.npy", x)
    steps = len(record("plan", digits)["rows"])
    scores = np.array(record("run", digits, tmp_path / "x.npy")["outputs"]["scores"]["values"])
    for offset, code, verdict in ((0, 0, "agrees with"), (1, 3, "differs from")):
        np.savez(tmp_path / "y.npz", scores=(scores + offset).astype(np.float32)[None])
        result = weft("verify", digits, tmp_path / "x.npy", "--expect", tmp_path / "y.npz")
        assert result.exit_code == code
        lines = result.stdout.split("\n\n")[1].splitlines()
        assert lines[0].startswith(f"{verdict} y.npz: 1 values")
        assert lines[1].startswith(
            f"{steps} steps, none wrong by itself: own error over range at most "
        )
        assert lines[-1] == (
            "20 more runs, half of them from 4 threads at once: the bits of the first in all"
        )
        if offset:
            assert lines[3] == "so y.npz computes something else: was the model read as it means?"
    arguments = ("verify", digits, tmp_path / "x.npy", "--expect", tmp_path / "y.npz")
    assert record(*arguments, "--error", "own")["worst"] > 1e-2


# --- export ---------------------------------------------------------------------------------


def test_export(digits, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 1, 8, 8), np.float32))
    folder = tmp_path / "toolkit"
    options = ("--target", "generic", "--flavour", "c89", "--name", "reader")
    found = record("export", digits, tmp_path / "x.npy", "-o", folder, *options)
    assert found["files"] == sorted(each.name for each in folder.iterdir())
    kept = json.loads((folder / "toolkit.json").read_text())
    assert (kept["name"], kept["flavour"], kept["target"]) == ("reader", "c89", "generic")
    assert kept["arena_bytes"] == found["arena_bytes"]
    golden = (folder / "reader_golden.h").read_text()
    assert "golden_input_0[64] = {" in golden
    given = golden.split("golden_input_0[64] = {")[1].split("}")[0]
    assert [float(each.strip().rstrip("f")) for each in given.split(",")] == [1.0] * 64
    split = record("export", digits, "-o", folder, "--split", "--weights", "blob")["files"]
    assert "digits.bin" in split
    assert "reader.c" not in split
    assert len([name for name in split if name.endswith(".c")]) > 5


def test_export_of_plain_loops(digits, tmp_path):
    good("export", digits, "-o", tmp_path / "out", "--plain")
    text = (tmp_path / "out" / "digits.c").read_text()
    # As the definition has it: a window without padding is a guard, not a tile.
    assert "acc += (0 <= i2 + i - 1 && i2 + i - 1 < 8 &&" in text
    assert "vector_size" not in text
    assert subprocess.run(["make", "-s", "-C", tmp_path / "out", "test"]).returncode == 0


def test_export_for_any_machine_where_none_is_named(digits, tmp_path):
    said = good("export", digits, "-o", tmp_path / "out").splitlines()
    kept = json.loads((tmp_path / "out" / "toolkit.json").read_text())
    assert said[1:] == [
        "target generic, as none was named: C99 for any machine (--target NAME; `weft targets` "
        "lists them)",
        "arena 5,120 B (at least 5,120 B), weights 26,088 B",
        f"stack about {kept['stack_bytes']:,} B, code and constants about "
        f"{kept['flash_bytes']:,} B: estimates (--compiler 'CC FLAGS' measures them)",
        f"check it with: make -C {tmp_path / 'out'} test",
    ]
    assert (kept["target"], kept["flavour"]) == ("generic", "c99")
    assert (kept["stack_measured"], kept["flash_measured"]) == ("", "")
    named = good("export", digits, "-o", tmp_path / "out", "--target", "generic").splitlines()
    assert named[1] == said[2]


def test_export_into_a_folder_of_others(digits, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    result = weft("export", digits, "-o", tmp_path)
    assert result.exit_code == 1
    assert result.stderr == (
        "error: the output folder must be empty or contain an earlier toolkit\n"
        f"  got: {tmp_path}\n  fix: Name another folder.\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ("--ram", "arena, stack, inputs and outputs must fit into 4,096 bytes of RAM"),
        ("--flash", "code and constants must fit into 4,096 bytes of flash"),
    ],
)
def test_export_refuses_what_does_not_fit(digits, tmp_path, option, rule):
    result = weft("export", digits, "-o", tmp_path / "out", option, "4K")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {rule}\n  got: ")
    assert not (tmp_path / "out").exists()
    assert weft("export", digits, "-o", tmp_path / "out", option, "1M").exit_code == 0


def test_a_target_without_vectors_has_none():
    widths = {each["name"]: each["vector_bytes"] for each in record("targets")}
    assert (widths["generic"], widths["x86-avx2"]) == (0, 32)
    (line,) = [line for line in good("targets").splitlines() if line.startswith("generic ")]
    assert line.split()[1] == "c99"


# --- bench, cache, lists --------------------------------------------------------------------


def test_bench(digits):
    found = record("bench", digits, "--seconds", 0.05, "--onnxruntime", "--flavour", "c99")
    assert [(each["what"], each["called_from"]) for each in found["timings"]] == [
        ("weft c99", "C"),
        ("weft c99", "Python"),
        ("onnxruntime", "Python"),
    ]
    for each in found["timings"]:
        assert 0 < each["least"] <= each["median"] <= each["most"]
    lines = good("bench", digits, "--seconds", 0.05).splitlines()
    assert [line.partition("  ")[0] for line in lines[1:]] == [
        "weft gnu, called from C",
        "weft gnu, called from Python",
    ]


@pytest.fixture
def hasty(tmp_path, monkeypatch):
    """Limits that are measured in no time, and not kept for anybody."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    for name, value in (("_ROUND_SECONDS", 1e-5), ("_ROUNDS", 2), ("_LEAST_MEMORY", 1 << 16)):
        monkeypatch.setattr(f"weft.runtime.limits.{name}", value)
    monkeypatch.setattr("weft.runtime.limits.cache_sizes", lambda: (("L1", 8 << 10),))


@pytest.mark.usefixtures("hasty")
def test_bench_layers(digits, tmp_path):
    picture = tmp_path / "roofline.svg"
    found = record("bench", digits, "--seconds", 0.02, "--layers", "--svg", picture)
    steps = record("plan", digits)["rows"]
    assert [each["scheme"] for each in found["layers"]] == [each["scheme"] for each in steps]
    assert all(each["median"] > 0 for each in found["layers"])
    dots = [each for each in found["layers"] if each["executed"]]
    drawn = ElementTree.fromstring(picture.read_text())
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}circle"))) == len(dots)
    lines = good("bench", digits, "--seconds", 0.02, "--layers", "--top", 1).splitlines()
    assert [line.split()[0] for line in lines[:1]] == ["step"]
    assert f"{len(steps)} steps" in lines[2]


@pytest.mark.usefixtures("hasty")
def test_bench_limits():
    found = json.loads(good("bench", "--limits", "--json"))["limits"]
    assert [each["threads"] for each in found] == list(range(1, cores() + 1))
    assert good("bench", "--limits").splitlines()[2].split()[:2] == ["threads", "GFLOP/s"]


@pytest.mark.usefixtures("hasty")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86")
def test_bench_other_instructions(digits):
    found = record("bench", digits, "--seconds", 0.02, "--layers", "--target", "x86-sse2")
    assert found["limits"]["vector_bytes"] == 16
    limit = json.loads(good("bench", "--limits", "--json", "--target", "x86-sse2"))["limits"][0]
    assert limit["vector_bytes"] == 16
    assert weft("bench", digits, "--target", "cortex-a76").stderr == (
        "error: only code for this machine can be measured\n"
        "  got: cortex-a76\n  fix: Leave out --target.\n"
    )


def test_bench_options_that_need_layers(digits):
    assert weft("bench", digits, "--top", 3).stderr == (
        "error: --top and --svg require --layers\n  fix: Add --layers.\n"
    )


def record_options() -> str:
    """How this machine's networks are built, in the words of `weft cache`."""
    machine = host()
    vectors = f", vectors of {machine.vector_bytes} bytes" if machine.flavour == "gnu" else ""
    return f"{machine.flavour}{vectors}, 1 thread"


def test_cache(digits, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    assert record("cache")["entries"] == []
    good("run", digits, "--random", "--threads", 1)  # the pool of threads would be an entry
    # Calls in C are built once in a process, so perhaps for another test.
    shared = ("calls of arrays", [])
    entries = [
        each for each in record("cache")["entries"] if (each["kind"], each["made_for"]) != shared
    ]
    assert sorted(Path(each["path"]).suffix for each in entries) == [
        ".bin",
        ".file",
        ".net",
        ".so",
    ]
    made_for = {"model": str(digits), "options": record_options()}
    assert {each["kind"]: each["made_for"] for each in entries} == {
        "library": [made_for],
        "weights": [made_for],
        "record": [made_for],
        "checked file": [{"model": str(digits), "options": ""}],
    }
    listed = good("cache").splitlines()[1:-1]
    assert sum(line.startswith("digits.onnx ") for line in listed) == 4
    assert record("cache", "--prune", "--keep", "1G")["removed"] == []
    assert len(record("cache", "--prune")["removed"]) in (4, 5)
    assert good("cache").splitlines()[-1] == f"0 entries, 0 B in {tmp_path / 'cache'}"
    assert weft("cache", "--prune", "--keep", "much").stderr == (
        "error: a size must be a number, optionally with K, M or G\n  got: much\n"
    )


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("ops", "Conv"),
        ("rules", "fold-batch-norm"),
        ("recipes", "fuse-batch-norm"),
        ("targets", "host"),
    ],
)
def test_lists(name, one):
    found = json.loads(good(name, "--json"))
    assert one in {each["name"] for each in found}
    assert len(good(name).splitlines()) == len(found) + 1


# --- errors ---------------------------------------------------------------------------------


def test_errors_as_json(digits):
    result = weft("plan", digits, "--target", "cortex-m99", "--json")
    assert result.exit_code == 1
    error = json.loads(result.stderr)["error"]
    assert (error["kind"], error["got"]) == ("user", "cortex-m99")


def test_a_broken_file(tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\x08\x07nonsense")
    result = weft("show", path)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: onnx:")
    assert "Traceback" not in result.output


def test_the_package_runs_as_a_program(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["weft", "ops", "--json"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("weft", run_name="__main__")
    assert ended.value.code == 0
    assert {each["name"] for each in json.loads(capsys.readouterr().out)} == set(OPS)


def test_wrong_usage():
    assert weft("show").exit_code == 2
    assert weft("weave").exit_code == 2
    assert weft("show", "no-such-file.onnx").exit_code == 2


def test_bugs_are_told_apart(digits, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise InternalError("two is one")

    monkeypatch.setattr("weft.api.planned.make", fail)
    result = weft("plan", digits)
    assert result.exit_code == 70
    assert result.stderr == (
        "bug: internal error: two is one. This is a bug in Weft; please report it\n"
    )


def test_unexpected_exceptions_are_bugs_too(digits, monkeypatch):
    monkeypatch.setattr("weft.api.planned.make", lambda *_, **__: {}["missing"])
    result = weft("plan", digits)
    assert result.exit_code == 70
    assert "KeyError: 'missing'" in result.stderr
    assert result.stderr.endswith("This is a bug in Weft; please report it.\n")


def test_names_of_a_model_cannot_steer_the_terminal(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["\x1b[2Jy"], name="\x1b[31mred")],
        "escape",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("\x1b[2Jy", TensorProto.FLOAT, [2])],
    )
    path = tmp_path / "escape.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    for command in ("stats", "plan", "show", "verify"):
        assert "\x1b" not in weft(command, path).output


@pytest.mark.parametrize(
    "command", ["show", "stats", "plan", "export", "run", "verify", "bench", "cache"]
)
def test_every_command_has_help(command):
    text = good(command, "--help")
    assert "Usage:" in text
    assert "--json" in text


def test_without_onnxruntime(digits, monkeypatch):
    monkeypatch.setattr("weft.frontends.onnx.session.has_onnxruntime", lambda: False)
    assert record("verify", digits)["against"] == "reference"
    result = weft("verify", digits, "--against", "framework")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: onnxruntime must be installed\n  got: no such package\n"
        "  fix: pip install onnxruntime\n"
    )


def test_exact(tmp_path):
    path = tmp_path / "conv.onnx"
    filters = np.random.default_rng(0).standard_normal((64, 64, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    value = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64, 28, 28]) for name in "xy"
    ]
    weights = [numpy_helper.from_array(filters, "w")]
    graph = helper.make_graph([node], "conv", value[:1], value[1:], weights)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)
    for options, uses in (((), True), (("--exact",), False)):
        folder = tmp_path / f"toolkit{len(options)}"
        good("export", path, "-o", folder, "--target", "x86-avx2", *options)
        assert ("product" in (folder / "conv.c").read_text()) == uses
    results = [
        record("run", path, "--random", *options)["outputs"]["y"]["values"]
        for options in ((), ("--exact",))
    ]
    np.testing.assert_allclose(*results, rtol=0, atol=1e-4 * np.abs(results[0]).max())
    assert results[0] != results[1]


@pytest.mark.usefixtures("hasty")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86")
def test_vector_instructions_can_be_chosen(digits):
    wide = record("run", digits, "--random")["outputs"]
    narrow = record("run", digits, "--random", "--simd", "sse2")["outputs"]
    for name, output in wide.items():
        np.testing.assert_allclose(narrow[name]["values"], output["values"], rtol=1e-4, atol=1e-5)
    limit = json.loads(good("bench", "--limits", "--json", "--simd", "sse2"))["limits"][0]
    assert limit["vector_bytes"] == 16
    refused = weft("bench", digits, "--simd", "neon")
    assert refused.exit_code == 1
    assert "vector instructions must be of this machine" in refused.stderr
    both = weft("bench", digits, "--simd", "sse2", "--target", "x86-avx2")
    assert "--target and --simd exclude each other" in both.stderr


# --- tune ---------------------------------------------------------------------------------------


def test_tune_measures_lists_and_forgets(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    net, path = HandMade(), tmp_path / "layer.onnx"
    Net(net.graph(net.dense(net.input(3, 40), 21))).save(path)
    assert record("tune", "--list")["choices"] == []
    text = good("tune", path, "--seconds", "0.01", "--threads", "1")
    assert re.search(r"^measured \d+ of \d+ layers in ", text, re.MULTILINE)
    found = record("tune", "--list")["choices"]
    assert found
    again = good("tune", path, "--seconds", "0.01", "--threads", "1")
    assert again.startswith("every layer was measured before")
    listed = good("tune", "--list")
    assert f"{len(found)} layers in {tmp_path / 'cache'}" in listed
    assert all(each["alternative"] in listed for each in found)
    assert record("run", path, "--random", "--tuned", "--threads", "1")["outputs"]
    layers = record("bench", path, "--layers", "--tuned", "--seconds", "0.01")["layers"]
    assert {each["alternative"] for each in found} <= {each["scheme"] for each in layers}
    assert record("tune", "--forget")["forgotten"] == len(found)
    assert good("tune", "--forget").startswith("forgot 0 layers")


def test_tune_gives_its_measurements(digits, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    found = record("tune", digits, "--seconds", "0.01", "--threads", "1", "--exact")
    assert found["seconds"] > 0
    for layer in found["layers"]:
        assert not layer["chosen"].startswith("winograd")
        assert {layer["usual"], layer["chosen"]} <= {*layer["micros"], layer["usual"]}


# --- recipes --------------------------------------------------------------------------------


def test_apply_writes_what_the_recipes_make(digits, tmp_path):
    out = tmp_path / "fused.onnx"
    text = good("apply", digits, "fuse-batch-norm", "remove-flatten", "-o", out)
    lines = text.splitlines()
    assert lines[0].startswith("fuse-batch-norm: ")
    assert "BatchNormalization" in lines[0]
    assert lines[-1] == f"written: {out}"
    fused = load(out)
    assert "BatchNormalization" not in {node.op for node in fused.graph.nodes}
    x = np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)
    np.testing.assert_allclose(fused.reference(x)[0], load(digits).reference(x)[0], atol=1e-4)


def test_apply_as_json_and_to_the_own_format(digits, tmp_path):
    out = tmp_path / "fused.weft"
    found = record("apply", digits, "remove-dropout", "simplify", "allow=bit-exact", "-o", out)
    assert [each["recipe"] for each in found["steps"]] == ["remove-dropout", "simplify"]
    assert found["steps"][0]["changed"] is False
    assert found["steps"][1]["parameters"] == {"allow": "bit-exact"}
    assert str(load(out).graph.history[-1]) == "simplify allow=bit-exact"


def test_what_apply_writes_runs_elsewhere(digits, tmp_path):
    x = np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)
    out = tmp_path / "tiled.onnx"
    steps = ["fuse-batch-norm", "tile-conv", "axis=2", "parts=3", "conv-to-matmul"]
    good("apply", digits, *steps, "-o", out)
    found = []
    for path in (digits, out):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        found.append(session.run(None, {session.get_inputs()[0].name: x})[0])
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)


def test_apply_refuses(digits, tmp_path):
    assert weft("apply", digits, "simplfy").stderr.startswith(
        "error: unknown recipe\n  got: simplfy\n  fix: Did you mean simplify"
    )
    assert weft("apply", digits, "prune", "-o", tmp_path / "x.txt").stderr == (
        f"error: the output must be FILE.onnx or FILE.weft\n  got: {tmp_path / 'x.txt'}\n"
    )
    assert weft("apply", digits, "simplify", "alow=exact").stderr == (
        "error: recipe simplify has no parameter alow\n  got: alow=exact\n"
        "  fix: Did you mean allow?\n"
    )
    assert weft("apply", digits).exit_code == 2


def test_one_recipe_is_described():
    assert good("recipes", "simplify").splitlines()[0] == "simplify (approximate)"
    assert "allow" in good("recipes", "simplify")
    assert record("recipes", "simplify")[0]["parameters"][0]["default"] == "reassociating"
