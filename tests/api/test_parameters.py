"""Weights at run time: one build for all checkpoints, prepared by generated code."""

from __future__ import annotations

import gc
import pickle
import subprocess
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.export.test_toolkit import make
from tests.plan.nets import Net as Making
from tests.turns import a_few, in_turn
from weft.api.planned import lowered
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.printer import attribute_text
from weft.ir.unknown import is_known
from weft.plan.interpret import run
from weft.runtime import build as building


def network(seed: int, channels: int = 8) -> weft.Net:
    """Convolutions that Winograd's and other loops compute, batch normalizations, a dense layer."""
    net = Making(seed)
    x = net.input(1, 3, 12, 12)
    for size, stride in ((channels, 1), (32, 1), (32, 2)):
        x = net.conv(x, size, stride=stride)
        ones = [
            net.builder.constant(1 + 0.1 * net.numbers((size,), 1, DType.F32), "n")
            for _ in range(3)
        ]
        variance = net.builder.constant(1 + np.abs(net.numbers((size,), 1, DType.F32)), "v")
        x = net.op("Relu", net.op("BatchNormalization", x, *ones, variance))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    x = net.op("Add", net.op("MatMul", x, net.constant(32, 10)), net.constant(10))
    return weft.Net(net.graph(x))


IMAGE = np.random.default_rng(9).standard_normal((1, 3, 12, 12)).astype(np.float32)


def weights(net: weft.Net) -> dict[str, np.ndarray]:
    return dict(net.graph.constants)


@pytest.mark.parametrize("threads", a_few([1, 2], 1))
def test_weights_at_run_time_give_the_bits_of_constants(threads: int) -> None:
    for seed in (1, 2):
        net = network(seed)
        made = net.compile(threads=threads, parameters="runtime")
        np.testing.assert_array_equal(made(IMAGE), net.compile(threads=threads)(IMAGE))


def test_the_interpreter_prepares_and_runs_the_same() -> None:
    net = network(1)
    program = net.program("generic", parameters="runtime")
    name = program.inputs[0].name
    (made,) = run(program, {name: IMAGE}, None, weights(net)).values()
    np.testing.assert_allclose(made, net.reference(IMAGE)[0], rtol=1e-4, atol=1e-5)


def test_the_c_depends_on_the_architecture_only() -> None:
    one, two = (network(seed).source("host", parameters="runtime") for seed in (1, 2))
    assert one.sources == two.sources
    assert one.header == two.header
    other = network(1, channels=4).source("host", parameters="runtime")
    assert other.sources != one.sources


def test_a_second_checkpoint_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    network(1).compile(parameters="runtime")

    def compiles(*_: object) -> None:
        raise AssertionError("nothing must be compiled")

    monkeypatch.setattr(building, "_compile", compiles)
    second = network(2)
    made = second.compile(parameters="runtime")
    np.testing.assert_allclose(made(IMAGE), second.reference(IMAGE)[0], rtol=1e-3, atol=1e-4)


LOADS: dict[str, Callable[[weft.Net, Path], Any]] = {
    "mapping": lambda net, _: weights(net),
    "net": lambda net, _: net,
    "file": lambda net, path: saved(net, path),
}


def saved(net: weft.Net, folder: Path) -> Path:
    net.save(folder / "second.weft")
    return folder / "second.weft"


@pytest.mark.parametrize("form", LOADS)
def test_load_replaces_the_weights_and_pickles_keep_them(form: str, tmp_path: Path) -> None:
    first, second = network(1), network(2)
    made = first.compile(parameters="runtime")
    before = made(IMAGE)
    made.load(LOADS[form](second, tmp_path))
    wanted = second.compile()(IMAGE)
    np.testing.assert_array_equal(made(IMAGE), wanted)
    assert not np.array_equal(before, wanted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made))(IMAGE), wanted)
    np.testing.assert_array_equal(made.net.reference(IMAGE)[0], second.reference(IMAGE)[0])
    # The net that it was compiled from is a value.
    np.testing.assert_array_equal(first.compile(parameters="runtime")(IMAGE), before)


def test_all_faults_are_told_and_the_old_weights_stay() -> None:
    made = network(1).compile(parameters="runtime")
    before = made(IMAGE)
    wrong = weights(network(2))
    name = next(iter(wrong))
    array = wrong.pop(name)
    kept = next(iter(wrong))
    wrong[kept] = wrong[kept].astype(np.float64)
    wrong["weigth"] = array
    with pytest.raises(UserError) as caught:
        made.load(wrong)
    told = str(caught.value)
    assert f"{name} is missing" in told
    assert f"{kept}: f32" in told
    assert "is float64" in told
    assert "weigth is unknown" in told
    np.testing.assert_array_equal(made(IMAGE), before)


def test_another_architecture_is_refused() -> None:
    made = network(1).compile(parameters="runtime")
    graph = network(2).graph
    nodes = [replace(node, op="Sigmoid") if node.op == "Relu" else node for node in graph.nodes]
    with pytest.raises(UserError, match="same architecture"):
        made.load(weft.Net(replace(graph, nodes=tuple(nodes))))


def test_constant_weights_cannot_be_loaded() -> None:
    made = network(1).compile()
    with pytest.raises(UserError, match=r'are constants.*parameters="runtime"'):
        made.load(network(2))


def test_only_the_named_constants_are_parameters() -> None:
    net = network(1)
    name = next(each for each in net.graph.constants)
    made = net.compile(parameters=[name])
    preparing = made.library.built.preparing
    assert preparing is not None
    assert [port.name for port in preparing.parameters] == [name]
    changed = 2 * net.graph.constants[name]
    made.load({name: changed})
    np.testing.assert_allclose(made(IMAGE), made.net.reference(IMAGE)[0], rtol=1e-3, atol=1e-4)
    with pytest.raises(UserError, match="names of constants of the network"):
        net.compile(parameters=["nothing"])


def test_values_of_parameters_cannot_reach_a_plan() -> None:
    net = network(1)
    plan = net.plan("host", parameters="runtime")
    assert not any(is_known(array) for array in plan.graph.constants.values())
    names = plan.constraints.parameters
    assert names
    assert set(names) <= net.graph.constants.keys()
    assert f"parameters={attribute_text(names)}" in str(plan)
    again = net.plan_from(str(plan))
    assert str(again) == str(plan)
    assert str(net.plan("host", parameters="runtime", plan=str(plan))) == str(plan)


def test_runtime_beside_a_plan_with_other_parameters_is_refused() -> None:
    net = network(1)
    names = list(net.graph.constants)
    plan = str(net.plan(parameters=names[:-2]))
    told = (
        f'parameters is fixed by the given plan; got "runtime" beside a plan in which '
        f"{names[-2]}, {names[-1]} differ. Leave it out, or plan again with it."
    )
    for use in (net.plan, net.source, net.compile):
        with pytest.raises(UserError) as caught:
            use(plan=plan, parameters="runtime")
        assert str(caught.value) == told
    made = net.compile(plan=plan, parameters=names[:-2])
    np.testing.assert_allclose(made(IMAGE), net.compile()(IMAGE), rtol=1e-4, atol=1e-5)
    assert made.library.built.preparing is not None
    assert {port.name for port in made.library.built.preparing.parameters} <= set(names[:-2])


def test_rules_that_look_at_values_are_refused_with_the_parameter() -> None:
    net = Making()
    scale = net.builder.constant(np.ones((1, 4, 1, 1), np.float32), "scale")
    graph = net.graph(net.op("Relu", net.op("Mul", net.input(1, 4, 5, 5), scale)))
    assert [node.op for node in weft.Net(graph).plan().graph.nodes] == ["Relu"]
    plan = weft.Net(graph).plan(parameters="runtime")
    assert [node.op for node in plan.graph.nodes] == ["Mul", "Relu"]


def test_calls_that_run_meanwhile_see_old_or_new_weights() -> None:
    one, two = network(1), network(2)
    made = one.compile(threads=1, parameters="runtime")
    allowed = [np.asarray(net.compile(threads=1)(IMAGE)).tobytes() for net in (one, two)]
    found: list[bytes] = []
    done = threading.Event()

    def call() -> None:
        while not done.is_set():
            found.append(np.asarray(made(IMAGE)).tobytes())

    caller = threading.Thread(target=call)
    caller.start()
    for _ in range(20):
        made.load(weights(two))
        made.load(weights(one))
    done.set()
    caller.join()
    assert found
    assert set(found) <= set(allowed)


def test_of_replaced_weights_the_memory_of_one_is_kept() -> None:
    one, two = network(1), network(2)
    made = one.compile(threads=1, parameters="runtime")
    in_use = []
    for _ in range(4):
        in_use.append(made.library.binding()[1])
        made.load(weights(two))
    kept = [weakref.ref(fixed.memory) for fixed in in_use]
    assert len({each() for each in kept}) == 4
    in_use.clear()
    gc.collect()
    (spare,) = [each for each in kept if each() is not None]
    for net in (one, two):
        before = made.library.binding()[1].memory
        made.load(weights(net))
        assert spare() is made.library.binding()[1].memory
        spare = weakref.ref(before)
        np.testing.assert_array_equal(made(IMAGE), net.compile(threads=1)(IMAGE))


@pytest.mark.parametrize(("threads", "flavour"), in_turn([(1,), (2,)], ["c89", "c99"]))
def test_an_exported_network_prepares_its_weights(
    flavour: str, threads: int, tmp_path: Path
) -> None:
    net = network(1)
    net.export(
        tmp_path / "out", flavour=flavour, threads=threads, name="small", parameters="runtime"
    )
    header = (tmp_path / "out" / "small.h").read_text()
    assert "int small_prepare(const void *const *parameters, void *arena" in header
    assert f"#define SMALL_PARAMETERS {len(net.graph.constants)} " in header
    assert ": w, f32[8,3,3,3]" in header
    done: subprocess.CompletedProcess[str] = make(tmp_path / "out", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    data = tmp_path / "out" / "small_parameters.bin"
    data.write_bytes(bytes(data.stat().st_size))
    assert make(tmp_path / "out", "test").returncode != 0


# --- in place -----------------------------------------------------------------------------------

ROW = np.random.default_rng(5).standard_normal((1, 2048)).astype(np.float32)


def dense(seed: int) -> weft.Net:
    """A dense layer with weights that are worth to be left where they are."""
    net = Making(seed)
    x = net.input(1, 2048)
    made = net.op("Gemm", x, net.constant(2053, 2048), net.constant(2053), transB=1)
    return weft.Net(net.graph(made))


@pytest.mark.parametrize("threads", [1, 2])
def test_large_weights_stay_in_the_arrays_that_were_given(threads: int) -> None:
    net = dense(1)
    made = net.compile(threads=threads, parameters="runtime", in_place=True)
    packed = net.compile(threads=threads, parameters="runtime")
    first, other = made.library.built.preparing, packed.library.built.preparing
    assert first is not None
    assert other is not None
    (name,) = first.held
    assert not other.held
    assert first.bytes < 20_000 < other.bytes
    np.testing.assert_array_equal(made(ROW), packed(ROW))
    np.testing.assert_allclose(made(ROW), net.reference(ROW)[0], rtol=1e-4, atol=1e-4)
    given = {each: array.copy() for each, array in weights(dense(2)).items()}
    made.load(given)
    packed.load(given)
    np.testing.assert_array_equal(made(ROW), packed(ROW))
    before = packed(ROW)
    given[name][:] = 0
    np.testing.assert_array_equal(packed(ROW), before)
    assert np.ptp(made(ROW) - np.asarray(next(a for a in given.values() if a.size == 2053))) == 0


def test_given_arrays_live_as_long_as_runs_read_them() -> None:
    made = dense(1).compile(parameters="runtime", in_place=True)
    first = made.library.built.preparing
    assert first is not None
    given = {each: array.copy() for each, array in weights(dense(2)).items()}
    held = weakref.ref(given[first.held[0]])
    made.load(given)
    wanted = made(ROW)
    del given
    gc.collect()
    assert held() is not None
    np.testing.assert_array_equal(made(ROW), wanted)
    made.load(dense(3))
    gc.collect()
    assert held() is None


def test_arrays_that_lie_otherwise_are_copied() -> None:
    net = dense(1)
    made = net.compile(parameters="runtime", in_place=True)
    wanted = made(ROW)
    made.load({each: np.asfortranarray(array) for each, array in weights(net).items()})
    np.testing.assert_array_equal(made(ROW), wanted)


def test_the_interpreter_reads_parameters_in_place() -> None:
    net = dense(1)
    plan = net.plan("x86-avx2", parameters="runtime")
    program = lowered(plan, in_place=True)
    assert program.preparation is not None
    assert program.preparation.held
    (made,) = run(program, {program.inputs[0].name: ROW}, None, weights(net)).values()
    np.testing.assert_allclose(made, net.reference(ROW)[0], rtol=1e-4, atol=1e-4)


def test_exported_code_copies_its_parameters() -> None:
    program = dense(1).program("x86-avx2", parameters="runtime")
    assert program.preparation is not None
    assert not program.preparation.held


def test_a_blob_of_parameters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a blob holds weights that are known"):
        network(1).export(tmp_path / "out", weights="blob", parameters="runtime")
