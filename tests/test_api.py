"""The interface for Python: what each call gives, and that it agrees with the reference."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import weft
from tests.plan.nets import Net as HandMade
from weft.errors import UserError
from weft.export.toolkit import MARKER
from weft.frontends.onnx import import_model
from weft.ir.graph import Graph
from weft.ir.types import Symbol
from weft.runtime.choices import Choices
from weft.runtime.seal import SEAL_BYTES


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(1).random((4, 1, 1, 8, 8), dtype=np.float32)


@pytest.fixture
def batched(tmp_path) -> Path:
    """A model with an open batch."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "batched",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
    )
    path = tmp_path / "batched.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_what_is_seldom_needed_is_imported_at_its_first_use(digits, tmp_path):
    code = f"""
import sys, weft
def loaded(): return {{"onnx", "google", "jinja2", "lark"}} & {{*sys.modules}}
net = weft.trace(weft.ops.neg, "f32[1]")
assert not loaded(), loaded()
net = weft.load({str(digits)!r})
assert loaded() == {{"onnx", "google"}}, loaded()
"""
    environment = {**os.environ, "WEFT_CACHE": str(tmp_path), "WEFT_PLUGINS": "off"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_compiled_nets_agree_with_the_reference(digits, images):
    net = weft.load(digits)
    compiled = net.compile()
    for image in images:
        (expected,) = net.reference(image)
        np.testing.assert_allclose(compiled(image), expected, rtol=1e-4, atol=1e-4)


def test_threads_share_a_compiled_net(digits, images):
    compiled = weft.load(digits).compile()
    alone = [compiled(image) for image in images]
    found: list[np.ndarray | None] = [None] * len(images)

    def work(place: int) -> None:
        for _ in range(200):
            found[place] = np.asarray(compiled(images[place]))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for left, right in zip(found, alone, strict=True):
        np.testing.assert_array_equal(left, right)


def test_open_batches(batched):
    net = weft.load(batched)
    assert isinstance(net.inputs["x"].shape[0], Symbol)
    assert net.bound(5).inputs["x"].shape == (5, 3)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(net.compile(batch=2)(x), np.maximum(x, 0))
    assert weft.load(batched, {"x": (7, 3)}).outputs["y"].shape == (7, 3)


def test_saved_nets_come_back(digits, tmp_path):
    net = weft.load(digits)
    net.save(tmp_path / "digits.weft")
    assert weft.load(tmp_path / "digits.weft").graph == net.graph
    with pytest.raises(UserError) as caught:
        weft.load(tmp_path / "digits.weft", {"image": (1, 1, 8, 8)})
    rule = "shapes and constants can only be given for formats that leave them open"
    assert str(caught.value) == f"{rule}; got digits.weft"


def test_verify_finds_a_wrong_value(digits, images):
    net = weft.load(digits)
    inside = "/block/Relu_1_output_0"

    def oracle(inputs, values):
        kept = weft.load(digits).with_outputs([inside, "scores"])
        right = dict(zip(kept.graph.outputs, kept.reference(*inputs.values()), strict=True))
        right[inside] = right[inside] + np.float32(1)
        assert inside in values
        return right

    found = {each.value: each.relative for each in net.verify(images[0], oracle=oracle)}
    assert found["scores"] < 1e-5 < 1e-2 < found[inside]
    assert list(found) == ["scores", inside]


def test_export_and_its_limits(digits, tmp_path):
    net = weft.load(digits)
    made = net.export(tmp_path / "out", "generic", name="reader", ram=1 << 20, flash=1 << 20)
    assert (tmp_path / "out" / MARKER).is_file()
    assert made.files.interface.function == "reader_run"
    needed = made.report.arena_bytes + made.files.stack_bytes + 4 * (64 + 10)
    net.export(tmp_path / "exact", "generic", ram=needed)
    with pytest.raises(UserError) as caught:
        net.export(tmp_path / "less", "generic", ram=4000)
    error = caught.value
    assert error.rule == "arena, stack, inputs and outputs must fit into 4,000 bytes of RAM"
    assert error.got == (
        f"{needed:,} bytes: arena {made.report.arena_bytes:,}, stack {made.files.stack_bytes:,} "
        "(an estimate), inputs and outputs 296"
    )
    assert error.where == "step 1, MaxPool + Relu, needs 5,120 B at once"
    assert not (tmp_path / "less").exists()


def test_rows_are_streamed_where_ram_is_short(digits, tmp_path):
    net = weft.load(digits)
    whole = net.toolkit("generic")
    ports = 4 * (64 + 10)
    beside = whole.files.stack_bytes + ports
    made = net.export(tmp_path / "out", ram=whole.report.arena_bytes + beside - 1)
    assert made.streamed == ("/stem/stem.0/Conv to /stem/stem.2/Relu in 2 strips of rows",)
    assert made.report.arena_bytes < whole.report.arena_bytes
    names = (each.port.name for each in made.files.interface.ports)
    assert list(names) == [each.port.name for each in whole.files.interface.ports]
    first = [each.array for each in made.golden.outputs]
    np.testing.assert_array_equal(first, [each.array for each in whole.golden.outputs])
    one = net.single_file().toolkit
    ram = one.report.arena_bytes + one.files.stack_bytes + ports - 1
    assert net.single_file(ram=ram).toolkit.streamed == made.streamed


def test_what_does_not_fit_is_refused_with_a_remedy(digits, tmp_path):
    net = weft.load(digits)
    made = net.export(tmp_path / "out", ram=6500)
    needed = made.report.arena_bytes + made.files.stack_bytes + 4 * (64 + 10)
    board = net.toolkit("nrf52840")
    room = board.report.arena_bytes + board.files.stack_bytes + 4 * (64 + 10)
    with pytest.raises(UserError) as caught:
        net.export(tmp_path / "less", ram=needed - 1)
    assert caught.value.fix == (
        "With /stem/stem.0/Conv to /stem/stem.2/Relu in 2 strips of rows it fits into --ram "
        f"{needed}: {needed:,} bytes with arena {made.report.arena_bytes:,} and stack "
        f"{made.files.stack_bytes:,}. --board nrf52840 has room: {room:,} of 262,144 bytes of RAM, "
        f"{board.flash_bytes:,} of 1,048,576 bytes of flash. The stack is an estimate; --compiler "
        "measures it"
    )
    assert not (tmp_path / "less").exists()
    assert net.export(tmp_path / "less", ram=needed).report == made.report
    # A plan that was given is not replaced by another.
    with pytest.raises(UserError) as caught:
        net.export(tmp_path / "planned", ram=needed, plan=net.plan("generic"))
    assert caught.value.fix == (
        "Without the plan that was given it fits: /stem/stem.0/Conv to /stem/stem.2/Relu in 2 "
        f"strips of rows, {needed:,} bytes with arena {made.report.arena_bytes:,} and stack "
        f"{made.files.stack_bytes:,}"
    )


def test_looking_inside(digits, images):
    net = weft.load(digits).with_outputs(["/block/Add_output_0"])
    compiled = net.compile()
    assert np.shape(compiled(images[0])) == (1, 16, 4, 4)
    with pytest.raises(UserError) as caught:
        net.with_outputs(["nothing", "/block/Add_output_0"])
    assert str(caught.value) == "there is no value nothing (outputs)"


def test_exact_simplification_keeps_bits(digits, images):
    net = weft.load(digits)
    exact = net.simplified(exact=True)
    assert isinstance(exact.graph, Graph)
    np.testing.assert_array_equal(exact.reference(images[0])[0], net.reference(images[0])[0])


def test_plans_and_stats(digits):
    net = weft.load(digits)
    assert net.stats().macs == 90_624
    assert net.plan("generic").arena_bytes >= net.plan("generic").lower_bound
    program = net.program("generic", name="other")
    assert program.name == "other"


# --- a second start, from the cache -------------------------------------------------------------


@pytest.fixture
def reader(digits, tmp_path, monkeypatch) -> Path:
    """A model of which the cache knows nothing yet."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "reader.onnx"
    path.write_bytes(digits.read_bytes())
    return path


@pytest.fixture
def unplanned(monkeypatch) -> None:
    """Neither importing nor planning is possible."""

    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("planned again")

    monkeypatch.setattr("weft.api.planned.make", refuse)
    monkeypatch.setattr("weft.frontends.onnx.loading.load", refuse)


def test_a_second_start_neither_reads_nor_plans(reader, images, request):
    first = weft.load(reader).compile(threads=2)
    expected, names = first(images[0]), list(first.net.inputs)
    request.getfixturevalue("unplanned")
    second = weft.load(reader).compile(threads=2)
    assert second.library.built == first.library.built
    np.testing.assert_array_equal(second(images[0]), expected)
    assert [port.name for port in second.library.inputs] == names
    with pytest.raises(AssertionError, match="planned again"):
        weft.load(reader).compile(threads=1)
    with pytest.raises(AssertionError, match="planned again"):
        weft.load(reader, {"image": (2, 1, 8, 8)})


def test_plan_and_source_of_a_second_start_are_there(reader, images):
    first = weft.load(reader).compile()
    second = weft.load(reader).compile()
    assert second.net.graph == first.net.graph
    assert second.library.files.sources == first.library.files.sources
    assert second.library.files.blob is not None
    assert first.library.files.blob is not None
    assert second.library.files.blob.tobytes() == first.library.files.blob.tobytes()
    assert second.library.program.weights.keys() == first.library.program.weights.keys()
    assert second.net.plan().steps


def test_what_the_cache_lost_is_built_again(reader, images, tmp_path):
    expected = weft.load(reader).compile()(images[0])
    for suffix in (".so", ".net", ".file"):
        for path in (tmp_path / "cache").glob(f"[!w]*{suffix}"):
            content = path.read_bytes()
            path.unlink()  # this process has it mapped
            path.write_bytes(content[:-1])
        np.testing.assert_array_equal(weft.load(reader).compile()(images[0]), expected)


def test_weights_that_were_damaged_are_built_again(reader, images, tmp_path):
    first = weft.load(reader).compile()
    expected, weights = first(images[0]), first.library.built.weights
    assert weights is not None
    whole = weights.read_bytes()
    del first
    for damaged in (whole[:64] + b"garbage!" + whole[72:], whole[:-1], b""):
        weights.write_bytes(damaged)
        np.testing.assert_array_equal(weft.load(reader).compile()(images[0]), expected)
        assert weights.read_bytes() == whole
    weights.unlink()
    np.testing.assert_array_equal(weft.load(reader).compile()(images[0]), expected)


def test_another_content_is_another_network(reader, images):
    weft.load(reader).compile()
    model = onnx.load(reader)
    graph = weft.load(reader).graph
    for tensor in model.graph.initializer:
        tensor.CopyFrom(
            onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * 2, tensor.name)
        )
    onnx.save(model, reader)
    changed = weft.load(reader)
    assert changed.graph != graph
    (expected,) = changed.reference(images[0])
    np.testing.assert_allclose(changed.compile()(images[0]), expected, rtol=1e-4, atol=1e-4)


def test_large_weights_do_not_stay_beside_the_packed_ones(reader, images, monkeypatch):
    monkeypatch.setattr(sys.modules["weft.api.value"], "_WORTH_READING_AGAIN", 1)
    net = weft.load(reader)
    graph = net.graph
    (expected,) = net.reference(images[0])
    simple = net.simplified().graph
    gone = [weakref.ref(each) for each in (graph, simple)]
    del graph, simple
    np.testing.assert_allclose(net.compile()(images[0]), expected, rtol=1e-4, atol=1e-4)
    gc.collect()
    assert [each() for each in gone] == [None, None]
    assert net.loaded is None
    # It is read again when it is wanted.
    (again,) = net.reference(images[0])
    np.testing.assert_array_equal(again, expected)
    np.testing.assert_array_equal(net.compile()(images[0]), net.compile()(images[0]))


def test_small_weights_stay(reader):
    net = weft.load(reader)
    graph = net.graph
    net.compile()
    reader.unlink()
    assert net.graph is graph


def test_a_file_that_changes_meanwhile_is_told(reader):
    weft.load(reader).compile()
    net = weft.load(reader)
    model = onnx.load(reader)
    model.graph.name = "changed"
    onnx.save(model, reader)
    with pytest.raises(UserError, match="must not change while the network is in use"):
        _ = net.graph


def test_graphs_without_a_file_are_recalled_too(reader, images, request):
    graph = weft.load(reader).graph
    expected = weft.Net(graph).compile()(images[0])
    request.getfixturevalue("unplanned")
    np.testing.assert_array_equal(weft.Net(graph).compile()(images[0]), expected)


def test_external_data_count(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    weight = np.arange(3, dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "external",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "external.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    x = np.ones(3, np.float32)
    for factor in (1, 2):
        (tmp_path / "w.bin").write_bytes((weight * factor).tobytes())
        np.testing.assert_array_equal(weft.load(path).compile()(x), x + weight * factor)


def test_the_arrays_that_weights_were_packed_from_go(reader, images):
    library = weft.load(reader).compile().library
    program, weights = library.program, library.built.weights
    assert program.weights
    assert weights is not None
    for array in program.weights.values():
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert base.size >= weights.stat().st_size - SEAL_BYTES
        assert not array.flags.writeable


# --- copies and pickles -----------------------------------------------------------------------


def test_nets_are_pickled(reader, images, request):
    net = weft.load(reader)
    fast = net.compile(threads=1, batch=1, exact=True)
    expected, data = fast(images[0]), pickle.dumps((net, fast))
    reader.unlink()  # which a pickle does not need
    request.getfixturevalue("unplanned")
    other, again = pickle.loads(data)
    assert other.graph == net.graph
    assert all(not array.flags.writeable for array in other.graph.constants.values())
    assert again.library.built == fast.library.built
    np.testing.assert_array_equal(again(images[0]), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again))(images[0]), expected)


def test_another_process_unpickles(reader, images, tmp_path):
    fast = weft.Net(weft.load(reader).graph).compile(threads=2)
    (tmp_path / "pickle").write_bytes(pickle.dumps((fast, images[0], fast(images[0]))))
    script = (
        "import pickle, sys\n"
        "fast, image, expected = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "assert (fast(image) == expected).all()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "pickle")]
    assert subprocess.run(command, check=False).returncode == 0


def test_nets_are_values_and_need_no_copies(reader):
    net = weft.load(reader)
    fast = net.compile(threads=1)
    for value in (net, net.graph, fast):
        assert copy.copy(value) is copy.deepcopy(value) is value
    with pytest.raises(UserError) as error:
        copy.deepcopy(fast.library)
    assert str(error.value) == (
        "loaded code cannot be copied or pickled; got reader. "
        "Copy or pickle the CompiledNet, which is rebuilt from the cache."
    )


# --- tuning -------------------------------------------------------------------------------------


@pytest.fixture
def layer(tmp_path) -> tuple[Path, np.ndarray]:
    """A network of one layer, of which little is built and measured, and an image for it."""
    net = HandMade()
    y = net.op("Relu", net.dense(net.input(3, 40), 21))
    (image,) = net.arrays.values()
    weft.Net(net.graph(y)).save(tmp_path / "layer.onnx")
    return tmp_path / "layer.onnx", image


def test_tuned_nets_come_from_the_database(layer, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    path, image = layer
    net = weft.load(path)
    expected = net.compile()(image)
    tuned = net.compile(tune=True, tune_seconds=0.01, threads=1)
    np.testing.assert_allclose(tuned(image), expected, rtol=1e-4, atol=1e-4)
    entries = Choices().all()
    assert entries

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("everything was measured")

    monkeypatch.setattr("weft.api.building.measure", refuse)
    again = weft.load(path).compile(tune=True, threads=1)
    assert again.library.path == tuned.library.path
    cached = net.compile(tune="cached", threads=1)
    assert cached.library.path == tuned.library.path
    assert Choices().all() == entries


def test_builds_do_not_depend_on_what_was_measured(layer, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    path, _ = layer
    net = weft.load(path)
    usual = net.compile(threads=1).library
    found = net.tune(threads=1, seconds=0.01)
    context = Choices().all()[0]
    assert context.layer in found.choices
    others = [replace(each, alternative="nest", made=0.0) for each in Choices().all()]
    Choices().keep(only_context(tmp_path / "cache"), others)
    assert weft.load(path).compile(threads=1).library.path == usual.path
    assert weft.load(path).compile(threads=1, tune="cached").library.path != usual.path


def only_context(folder: Path) -> str:
    with sqlite3.connect(folder / "tuning.sqlite") as connection:
        ((context,),) = connection.execute("SELECT DISTINCT context FROM measured").fetchall()
    return context


def test_layers_are_measured_again_only_on_request(layer, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    net = weft.load(layer[0])
    first = net.tune(threads=1, seconds=0.01)
    assert net.tune(threads=1, seconds=0.01).layers == ()
    assert len(net.tune(threads=1, seconds=0.01, again=True).layers) == len(first.layers)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_reference_takes_open_sizes_from_its_inputs(batch):
    """Where references ask for shapes: an outer product, and positions."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    nodes = [
        helper.make_node("Einsum", ["x", "x"], ["outer"], equation="bi,bj->bij"),
        helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("outer", "place")]
    graph = helper.make_graph(nodes, "net", [x], outputs)
    net = weft.Net(import_model(helper.make_model(graph, ir_version=10)))
    given = np.random.default_rng(0).standard_normal((batch, 3)).astype(np.float32)
    outer, place = net.reference(given)
    np.testing.assert_allclose(outer, given[:, :, None] * given[:, None, :], rtol=1e-6)
    np.testing.assert_array_equal(place, given.argmax(1))


def test_the_reference_refuses_several_sizes_of_one_symbol():
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3]) for n in "xy"]
    add = helper.make_node("Add", ["x", "y"], ["z"])
    graph = helper.make_graph([add], "net", ports, [onnx.ValueInfoProto(name="z")])
    net = weft.Net(import_model(helper.make_model(graph, ir_version=10)))
    with pytest.raises(UserError, match="N is one size in all inputs; got 2 and 4"):
        net.reference(np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32))
