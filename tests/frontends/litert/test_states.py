"""Subgraphs, variables and signatures: files of more than one operator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.frontends.litert.against import by_litert, by_weft, check, imported
from tests.frontends.litert.builder import Case, Op, Sub, T, const, file, inputs_of
from tests.frontends.litert.cases import RNG, x
from weft.errors import UserError
from weft.frontends.litert.loading import RefusedError

RUNS = 3
HANDLE = T((), "resource")


def agree(content: bytes, inputs: Sequence[np.ndarray], runs: int = 1) -> None:
    made = imported(content)
    expected = by_litert(content, list(inputs), runs)
    check(by_weft(made, list(inputs), runs), expected, 0, 1e-5)


def refused(content: bytes) -> str:
    with pytest.raises(RefusedError) as error:
        imported(content)
    return str(error.value)


# --- LSTM -------------------------------------------------------------------------------------


def lstm(
    *, coupled: bool, peepholes: bool, project: bool, norm: bool, clip: float, time_major: bool
) -> Case:
    units, width, batch, steps = 4, 3, 2, 5
    out = 2 if project else units

    def weight(*shape: int) -> T:
        return const(RNG.uniform(-0.5, 0.5, shape), "float32")

    given: list[T | None] = [x(steps, batch, width) if time_major else x(batch, steps, width)]
    given += [None if coupled else weight(units, width), *(weight(units, width) for _ in range(3))]
    given += [None if coupled else weight(units, out), *(weight(units, out) for _ in range(3))]
    given += [None if not peepholes or (coupled and at == 0) else weight(units) for at in range(3)]
    given += [None if coupled else weight(units), *(weight(units) for _ in range(3))]
    given += [weight(out, units) if project else None, weight(out) if project else None]
    given += [T((batch, out), variable=True), T((batch, units), variable=True)]
    if norm:
        given += [None if coupled else weight(units), *(weight(units) for _ in range(3))]
    values = {"fusedActivationFunction": 4, "cellClip": clip, "projClip": 0.0}
    values["timeMajor"] = time_major
    made = x(steps, batch, out) if time_major else x(batch, steps, out)
    options = "UnidirectionalSequenceLSTMOptions"
    return Case("UNIDIRECTIONAL_SEQUENCE_LSTM", given, (made,), options, values)


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize(
    ("coupled", "project", "norm", "clip"),
    [
        (False, False, False, 0.0),
        (True, False, False, 0.0),
        (False, True, False, 0.0),
        (False, False, False, 0.3),
        (False, True, True, 0.5),
        (True, False, True, 0.0),
    ],
)
def test_lstm(coupled, peepholes, project, norm, clip, time_major) -> None:
    case = lstm(
        coupled=coupled,
        peepholes=peepholes,
        project=project,
        norm=norm,
        clip=clip,
        time_major=time_major,
    )
    agree(case.content(), inputs_of(case), RUNS)


# --- control flow -----------------------------------------------------------------------------


def branch(name: str, operator: str) -> Sub:
    op = Op(operator, (0, 1), (2,), f"{operator.capitalize()}Options")
    return Sub((x(2, 3), const(3.0, "float32"), x(2, 3)), (op,), (0,), (2,), name)


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_if(condition, known) -> None:
    truth = T((), "bool", np.array(condition) if known else None)
    values = {"thenSubgraphIndex": 1, "elseSubgraphIndex": 2}
    op = Op("IF", (0, 1), (2,), "IfOptions", values)
    main = Sub((truth, x(2, 3), x(2, 3)), (op,), (1,) if known else (0, 1), (2,))
    content = file([main, branch("then", "ADD"), branch("else", "MUL")])
    inputs = [main.tensors[1].random(1)]
    if not known:
        inputs = [np.array(condition), *inputs]
    agree(content, inputs)


def loop(limit: int, *, counted: bool = True) -> bytes:
    number, rows = T((), "int32"), x(2, 3)
    less = Op("LESS", (0, 1), (2,), "LessOptions")
    condition = Sub((number, const(limit), T((), "bool"), rows), (less,), (0, 3), (2,), "cond")
    count = Op("ADD", (0, 1), (2,), "AddOptions")
    grow = Op("MUL", (3, 4), (5,), "MulOptions")
    tensors = (number, const(1), number, rows, const(1.5, "float32"), rows)
    body = Sub(tensors, (count, grow), (0, 3), (2, 5), "body")
    values = {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    op = Op("WHILE", (0, 1), (2, 3), "WhileOptions", values)
    begin = const(0) if counted else number
    main = Sub((begin, rows, number, rows), (op,), (1,) if counted else (0, 1), (3,))
    return file([main, condition, body])


def test_while() -> None:
    agree(loop(5), [x(2, 3).random(1)])


def test_while_that_never_ends() -> None:
    assert "a loop may have 1024 rounds" in refused(loop(1 << 30))


def test_while_of_unknown_length() -> None:
    reason = "the condition of a loop must be known before the model runs"
    assert reason in refused(loop(5, counted=False))


def test_call() -> None:
    op = Op("CALL", (0,), (1,), "CallOptions", {"subgraph": 1})
    content = file([Sub((x(2, 3), x(2, 3)), (op,), (0,), (1,)), branch("called", "ADD")])
    given = x(2, 3).random(1)
    np.testing.assert_array_equal(by_weft(imported(content), [given])[0], given + 3)


def test_subgraphs_that_call_each_other() -> None:
    values = {"thenSubgraphIndex": 1, "elseSubgraphIndex": 1}
    op = Op("IF", (0, 1), (2,), "IfOptions", values)
    tensors = (T((), "bool", np.array(True)), x(2), x(2))
    content = file([Sub(tensors, (op,), (1,), (2,)), Sub(tensors, (op,), (1,), (2,))])
    assert "subgraphs must call each other at most 16 deep" in refused(content)


# --- variables --------------------------------------------------------------------------------


def counter(initial: float) -> bytes:
    """A file that adds its input to a variable, and gives the sum."""
    handle = Op("VAR_HANDLE", (), (0,), "VarHandleOptions", {"sharedName": b"total"})
    options = "CallOnceOptions"
    tensors = (HANDLE, x(2), x(2), x(2))
    operators = (
        Op("CALL_ONCE", (), (), options, {"initSubgraphIndex": 1}),
        handle,
        Op("READ_VARIABLE", (0,), (1,), "ReadVariableOptions"),
        Op("ADD", (1, 2), (3,), "AddOptions"),
        Op("ASSIGN_VARIABLE", (0, 3), (), "AssignVariableOptions"),
    )
    begin = const([initial, initial], "float32")
    assign = Op("ASSIGN_VARIABLE", (0, 1), (), "AssignVariableOptions")
    once = Sub((HANDLE, begin), (handle, assign), (), (), "once")
    return file([Sub(tensors, operators, (2,), (3,)), once])


@pytest.mark.parametrize("initial", [0.0, 1.25])
@pytest.mark.parametrize("runs", [1, 3])
def test_variables(initial, runs) -> None:
    agree(counter(initial), [np.array([1, 2], np.float32)], runs)


@pytest.mark.parametrize("initial", [0.0, 1.25])
def test_compiled_variables(initial, tmp_path: Path) -> None:
    path = tmp_path / "counter.tflite"
    path.write_bytes(counter(initial))
    net = weft.load(path)
    assert next(value for value, _ in net.states) == "state/total"
    run = net.compile()
    given = np.array([1, 2], np.float32)
    for count in (1, 2, 3):
        np.testing.assert_array_equal(run(given), initial + count * given)


# --- signatures -------------------------------------------------------------------------------


def signed() -> bytes:
    subs = [branch("plus", "ADD"), branch("times", "MUL")]
    return file(
        subs,
        [("add", 0, {0: "image"}, {2: "sum"}), ("scale", 1, {0: "picture"}, {2: "product"})],
    )


def test_signatures(tmp_path: Path) -> None:
    path = tmp_path / "signed.tflite"
    path.write_bytes(signed())
    given = x(2, 3).random(1)
    first, second = weft.load(path), weft.load(path, signature="scale")
    assert (first.graph.inputs, first.graph.outputs) == (("image",), ("sum",))
    assert (second.graph.inputs, second.graph.outputs) == (("picture",), ("product",))
    np.testing.assert_array_equal(first.reference(given)[0], given + 3)
    np.testing.assert_array_equal(second.reference(given)[0], given * 3)


def test_unknown_signature(tmp_path: Path) -> None:
    path = tmp_path / "signed.tflite"
    path.write_bytes(signed())
    with pytest.raises(UserError) as error:
        weft.load(path, signature="scales")
    assert str(error.value) == (
        "the file has no signature scales. Did you mean scale? It has add, scale"
    )


# --- inputs -----------------------------------------------------------------------------------


def test_open_batch(tmp_path: Path) -> None:
    given = T((1, 4), signature=(-1, 4), name="serving_default_x:0")
    op = Op("MUL", (0, 1), (2,), "MulOptions")
    path = tmp_path / "open.tflite"
    path.write_bytes(file([Sub((given, const(2.0, "float32"), x(1, 4)), (op,), (0,), (2,))]))
    for name in ("x", "serving_default_x:0"):
        net = weft.load(path, {name: (8, 4)})
        assert net.inputs["x"].dims == (8, 4)
    with pytest.raises(UserError) as error:
        weft.load(path, {"x": (8, 5)})
    assert str(error.value) == (
        "the shape of an input must fit the model; got [8, 5] for [-1, 4] (input x)"
    )


def test_constants(tmp_path: Path) -> None:
    op = Op("ADD", (0, 1), (2,), "AddOptions")
    path = tmp_path / "add.tflite"
    path.write_bytes(file([Sub((x(3), x(3), x(3)), (op,), (0, 1), (2,))]))
    net = weft.load(path, constants={"t1": np.ones(3, np.float32)})
    assert net.graph.inputs == ("t0",)


def test_every_refused_operator_is_listed() -> None:
    tensors = (x(2), x(2), x(2), x(2), x(2))
    operators = (
        Op("CUSTOM", (0,), (1,), custom="FlexErf"),
        Op("CUSTOM", (1,), (2,), custom="Mine"),
        Op("RELU", (2,), (3,)),
        Op("REAL", (3,), (4,)),
    )
    assert refused(file([Sub(tensors, operators, (0,), (4,))])) == (
        "litert: 3 operators cannot be imported:\n"
        "  t1 (FlexErf, operator 0 of subgraph 0): FlexErf is a TensorFlow (flex) operator, which "
        "Weft does not know\n"
        "  t2 (Mine, operator 1 of subgraph 0): Mine is custom, which Weft does not know\n"
        "  t4 (REAL, operator 3 of subgraph 0): REAL is not supported"
    )
