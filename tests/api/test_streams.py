"""State that runs hand on: what a compiled net remembers, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.rewrite.checks import graph_of
from weft.errors import UserError

HIDDEN, WINDOW, SAMPLES, FILTERS = 24, 96, 32, 12
STATES = {"h": "hn", "c": "cn", "sound": "heard"}


def detector(path: Path) -> Path:
    """A voice detector: a window that moves on, filters, one LSTM step, a probability."""
    random = np.random.default_rng(5)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        array = random.normal(0, 1 / np.sqrt(shape[-1]), shape).astype(np.float32)
        return numpy_helper.from_array(array, name)

    def info(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    integers = {"from": [SAMPLES], "to": [WINDOW], "axis": [1], "row": [1, 1, FILTERS]}
    weights = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in integers.items()]
    weights += [
        weight("filters", FILTERS, 1, WINDOW),
        weight("W", 1, 4 * HIDDEN, FILTERS),
        weight("R", 1, 4 * HIDDEN, HIDDEN),
        weight("B", 1, 8 * HIDDEN),
        weight("out", HIDDEN, 1),
    ]
    nodes = [
        helper.make_node("Slice", ["sound", "from", "to", "axis"], ["rest"]),
        helper.make_node("Concat", ["rest", "x"], ["heard"], axis=1),
        helper.make_node("Unsqueeze", ["heard", "axis"], ["wave"]),
        helper.make_node("Conv", ["wave", "filters"], ["bands"]),
        helper.make_node("Reshape", ["bands", "row"], ["step"]),
        helper.make_node(
            "LSTM", ["step", "W", "R", "B", "", "h", "c"], ["", "hn", "cn"], hidden_size=HIDDEN
        ),
        helper.make_node("MatMul", ["hn", "out"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["voice"]),
    ]
    state = (1, 1, HIDDEN)
    inputs = [info("x", 1, SAMPLES), info("h", *state), info("c", *state), info("sound", 1, WINDOW)]
    outputs = [
        info("voice", 1, 1, 1),
        info("hn", *state),
        info("cn", *state),
        info("heard", 1, WINDOW),
    ]
    graph = helper.make_graph(nodes, "detector", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> weft.Net:
    return weft.load(detector(tmp_path_factory.mktemp("net") / "detector.onnx"))


@pytest.fixture(scope="module")
def fast(net: weft.Net) -> weft.CompiledNet:
    return net.with_state(STATES).compile(threads=1)


class Reference:
    """The reference, whose states are handed on by hand."""

    def __init__(self, net: weft.Net) -> None:
        self.net = net
        self.held = {name: np.zeros(net.inputs[name].dims, np.float32) for name in STATES}

    def __call__(self, x: np.ndarray) -> np.ndarray:
        found = self.net.reference({"x": x, **self.held})
        self.held = {name: found[output] for name, output in STATES.items()}
        return found["voice"]


def sound(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (count, 1, SAMPLES)).astype(np.float32)


def assert_held(state: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    for name, array in wanted.items():
        np.testing.assert_allclose(state[name], array, rtol=0, atol=1e-5)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_many_calls_are_those_of_the_reference(net, fast, count: int) -> None:
    fast.reset()
    reference = Reference(net)
    windows = sound(count)
    found = np.stack([fast(window) for window in windows])
    wanted = np.stack([reference(window) for window in windows])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    assert_held(fast.state, reference.held)
    assert np.ptp(wanted) > 0.1


def test_streams_do_not_hear_each_other(net, fast) -> None:
    streams = [fast.stream(), fast.stream(), fast.stream()]
    references = [Reference(net) for _ in streams]
    for window in sound(5):
        for number, (stream, reference) in enumerate(zip(streams, references, strict=True)):
            given = window * (number + 1)
            np.testing.assert_allclose(stream(x=given), reference(given), rtol=0, atol=1e-5)
    for stream, reference in zip(streams, references, strict=True):
        assert_held(stream.state, reference.held)


def test_a_reset_starts_anew(fast) -> None:
    windows = sound(4)
    stream = fast.stream()
    first = [stream(window) for window in windows]
    assert stream.state["h"].any()
    stream.reset()
    assert not any(each.any() for each in stream.state.values())
    assert np.array_equal([stream(window) for window in windows], first)
    stream.reset()
    stream(windows[0])
    held = {name: array.copy() for name, array in stream.state.items()}
    assert np.array_equal(fast.stream(held)(windows[1]), first[1])
    out = np.empty((1, 1, 1), np.float32)
    stream.reset(held)
    stream(windows[1], out=out)
    assert np.array_equal(out, first[1])


def test_the_net_has_a_stream_of_its_own(fast) -> None:
    fast.reset()
    windows = sound(3)
    first = [fast(window) for window in windows]
    assert not np.array_equal(fast(windows[0]), first[0])
    again = pickle.loads(pickle.dumps(fast))
    assert np.array_equal([again(window) for window in windows], first)


def test_state_survives_edits_and_copies(net) -> None:
    held = net.with_state({"h": "hn", "c": "cn"})
    assert held.free_inputs == ("x", "sound")
    assert pickle.loads(pickle.dumps(held)).states == copy.copy(held).states == held.states
    assert held.with_state({"sound": "heard"}).states == tuple(STATES.items())
    assert held.identity != net.identity
    assert "state" in repr(held)


def test_initial_values_that_do_not_fit_are_refused(fast) -> None:
    with pytest.raises(UserError) as error:
        fast.reset({"h": np.zeros(3, np.float32), "d": np.zeros(1), "c": np.zeros((1, 1, HIDDEN))})
    for part in ("h must be float32[1, 1, 24], not float32[3]", "no state d", "c must be float32"):
        assert part in str(error.value)


def test_arrays_over_the_state_of_a_run_are_refused() -> None:
    """A run writes its state before it has read all inputs, and perhaps after an output."""
    graph = graph_of("""(%x: f32[4,8], %held: f32[4,8]) -> (%y, %after) {
      const %w: f32[8,8]
      %after: f32[4,8] = Add(%held, %held)
      %m: f32[4,8] = MatMul(%after, %w)
      %y: f32[4,8] = Mul(%m, %x)
    }""")
    fast = weft.Net(graph).with_state({"held": "after"}).compile()
    ones = np.ones((4, 8), np.float32)
    fast.reset({"held": ones})
    with pytest.raises(UserError) as error:
        fast(fast.state["held"])
    assert str(error.value) == (
        "input x must not share memory with the state of the run; got memory of held. "
        "Pass an array with memory of its own."
    )
    with pytest.raises(UserError, match="output y must not share memory with the state of the run"):
        fast(ones, out=fast.state["held"])
    assert np.array_equal(fast.state["held"], ones)
    # The memory of another stream's state is as good as any.
    other = fast.stream({"held": ones})
    expected = fast(ones)
    assert np.array_equal(other(fast.stream({"held": ones}).state["held"]), expected)


def test_states_that_cannot_be_are_refused(net) -> None:
    with pytest.raises(UserError) as error:
        net.with_state({"x": "heard", "k": "cn", "h": "nothing", "c": "hn", "sound": "hn"})
    text = str(error.value)
    for part in (
        "x is f32[1,32], heard is f32[1,96]",
        "there is no input k",
        "there is no output nothing",
        "hn is the next value of several inputs",
    ):
        assert part in text
    only = weft.trace(weft.ops.relu, "f32[3]")
    name, output = only.graph.inputs[0], only.graph.outputs[0]
    with pytest.raises(UserError, match="no output is left"):
        only.with_state({name: output})
    with pytest.raises(UserError, match="has no state"):
        only.compile().stream()
    with pytest.raises(UserError, match="with_state"):
        only.with_state([name])  # type: ignore[arg-type]


def test_every_step_is_verified(net) -> None:
    random = np.random.default_rng(3)
    arrays = {k: random.normal(0, 1, t.dims).astype(np.float32) for k, t in net.inputs.items()}
    found = net.with_state(STATES).verify(arrays)
    assert {"voice", "hn", "cn", "heard"} <= {each.value for each in found}
    assert all(each.largest < 1e-4 for each in found)


def test_plans_say_what_is_handed_on(net) -> None:
    held = net.with_state(STATES)
    plan = held.plan("generic")
    assert "\n  state %sound = %heard\n" in str(plan)
    again = held.plan_from(str(plan))
    assert str(again) == str(plan)
    wide = weft.Options(target="generic", name="net")
    assert held.source(options=wide, plan=str(plan)) == held.source(options=wide)
    with pytest.raises(UserError, match="the states of a plan are those of the network; got h=hn"):
        net.plan_from(str(plan))
    with pytest.raises(UserError, match="a state stands once; got h, h, "):
        held.plan_from(str(plan).replace("state %h = %hn\n", "state %h = %hn state %h = %cn\n"))


def test_states_are_no_ports(net) -> None:
    program = net.with_state(STATES).program("generic")
    assert [port.name for port in program.inputs] == ["x"]
    assert [port.name for port in program.outputs] == ["voice"]
    assert [each.offset for each in program.states] == [0, 128, 256]
