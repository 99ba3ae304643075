"""Ops that are not Weft's: what their functions get wrong is told as their fault."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from weft.errors import UserError
from weft.ir.types import TensorType, parse_type
from weft.loops.definition import Compute
from weft.ops.guard import guarded
from weft.ops.record import Call, Define, Extern, ExternBody, NoGrad, Op, Param


def infer(call: Call) -> tuple[TensorType, ...]:
    return (call.type(0),)


def reference(_: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (x,)


def define(_: Call) -> tuple[Compute, ...]:
    return ()


def op(**parts: Any) -> Op:
    record = {
        "name": "Mine",
        "inputs": (Param("x"),),
        "infer": infer,
        "reference": reference,
        "compute": Define(define),
        "grad": NoGrad("none is needed"),
        "doc": "Of a plugin.",
    }
    return guarded(Op(**(record | parts)))


CALL = Call("Mine", None, (parse_type("f32[2,3]"),), where="node here")
ARRAY = np.zeros((2, 3), np.float32)


def indexes(call: Call) -> tuple[TensorType, ...]:
    return (call.inputs[5],)  # type: ignore[return-value]


def gives_one(call: Call) -> TensorType:
    return call.type(0)


def widens(_: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (x.astype(np.float64),)


def gives_array(_: Call, x: np.ndarray) -> np.ndarray:
    return x


def gives_nothing(_: Call) -> None:
    return


def refuses(call: Call) -> tuple[TensorType, ...]:
    raise call.error("x must be larger")


def at(function: Any, below: int = 0) -> str:
    return f"({__file__}, line {inspect.getsourcelines(function)[1] + below}, node here)"


@pytest.mark.parametrize(
    ("part", "function", "message"),
    [
        (
            "infer",
            indexes,
            f"op Mine: `infer` failed; got IndexError: tuple index out of range {at(indexes, 1)}",
        ),
        (
            "infer",
            gives_one,
            "op Mine: `infer`: it must return a tuple of TensorType, one for each output; it "
            f"returned {CALL.inputs[0]!r} {at(gives_one)}",
        ),
        ("infer", refuses, "mine: x must be larger; got f32[2,3] (node here)"),
        (
            "reference",
            widens,
            "op Mine: `reference`: it must give f32[2,3] as output 0, as `infer` says; it gave "
            f"float64[2, 3] {at(widens)}",
        ),
        (
            "reference",
            gives_array,
            "op Mine: `reference`: it must return a tuple of arrays, one for each output; it "
            f"returned ndarray {at(gives_array)}",
        ),
        (
            "define",
            gives_nothing,
            "op Mine: `define`: it must return a tuple of Compute, one for each output; it "
            f"returned None {at(gives_nothing)}",
        ),
        (
            "extern",
            gives_nothing,
            f"op Mine: `extern`: it must return an ExternBody, not None {at(gives_nothing)}",
        ),
    ],
)
def test_faults_of_ops_are_theirs(part: str, function: Any, message: str) -> None:
    forms = {"define": Define, "extern": Extern}
    name = "compute" if part in forms else part
    made = op(**{name: forms[part](function) if part in forms else function})
    calls = {
        "infer": lambda: made.infer(CALL),
        "reference": lambda: made.reference(CALL, ARRAY),
        "compute": lambda: made.compute.function(CALL),  # type: ignore[union-attr]
    }
    with pytest.raises(UserError) as caught:
        calls[name]()
    assert str(caught.value) == message


def test_sound_ops_are_as_they_were() -> None:
    made = op(compute=Extern(lambda _: ExternBody("")))
    assert made.infer(CALL) == (CALL.inputs[0],)
    assert made.reference(CALL, ARRAY)[0] is ARRAY
    assert op().compute.function(CALL) == ()  # type: ignore[union-attr]
