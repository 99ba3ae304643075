"""The record of options: methods take it, keywords, or both."""

from __future__ import annotations

import pickle
import re
from dataclasses import fields
from typing import get_type_hints

import numpy as np
import pytest

import weft
from weft import options as module
from weft.cli.options import FLAGS
from weft.errors import UserError
from weft.options import Options

KEYWORDS = [each for name, each in vars(module).items() if name.endswith("Keywords")]


@pytest.fixture
def net() -> weft.Net:
    x = weft.input("x", "f32[1,3,8,8]")
    return weft.net([x], [weft.layers.Conv(8, 3)(x)], name="little")


@pytest.mark.parametrize("kind", KEYWORDS, ids=lambda kind: kind.__name__)
def test_keywords_are_fields_of_the_record(kind: type) -> None:
    known = get_type_hints(Options)
    assert {**known, **get_type_hints(kind)} == known


def test_every_option_is_documented_in_the_record_alone() -> None:
    documented = re.findall(r"^        (\w+): ", str(Options.__doc__), re.MULTILINE)
    assert documented == [each.name for each in fields(Options)] + ["UserError"]


def test_a_record_is_the_same_as_keywords(net: weft.Net) -> None:
    ours = Options(target="x86-avx2", threads=2, exact=True, flavour="c99", name="ours")
    same = net.plan("x86-avx2", threads=2, exact=True, flavour="c99")
    assert str(net.plan(options=ours)) == str(same)
    files = net.source("x86-avx2", threads=2, exact=True, flavour="c99", name="ours")
    assert net.source(options=ours).sources == files.sources


def test_keywords_go_before_the_record(net: weft.Net) -> None:
    ours = Options(target="generic", threads=2)
    plan = net.plan("x86-avx2", options=ours, threads=1)
    assert (plan.target and plan.target.name, plan.threads) == ("x86-avx2", 1)


def test_a_method_ignores_options_that_it_does_not_take(net: weft.Net) -> None:
    ours = Options(target="cortex-m4", threads=1, weights="blob", ram=1)
    x = np.ones((1, 3, 8, 8), np.float32)
    np.testing.assert_allclose(net.compile(options=ours)(x), net.reference(x)[0], atol=1e-5)


def test_compiled_nets_with_a_record_are_pickled(net: weft.Net) -> None:
    fast = net.compile(options=Options(threads=1, exact=True))
    assert pickle.loads(pickle.dumps(fast)).library.path == fast.library.path


def test_unknown_keywords_are_named(net: weft.Net) -> None:
    with pytest.raises(TypeError, match=r"argument 'thread'\. Did you mean threads"):
        net.plan(thread=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'batch'"):
        net.export("nowhere", batch=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "the number of threads must be"),
        ({"flavour": "c17"}, "c17"),
        ({"weights": "foo"}, "weights must be arrays, blob or inline; got 'foo'"),
        ({"tune": "yes"}, "tune must be True, False"),
        ({"name": "9 lives"}, "name must be a C identifier"),
        ({"precision": None}, "precision must be one of float32, bfloat16, float16; got None"),
        ({"max_rounding": "0.1"}, "max_rounding must be a number of at least 0, such as 0.012"),
        ({"max_rounding": -1.0}, "max_rounding must be a number of at least 0, such as 0.012"),
        ({"keep_float32": ["conv", 3]}, "keep_float32 must be names of layers"),
        ({"batch": 1.5}, "batch must be a whole number; got 1.5"),
        ({"batch": "2"}, "batch must be a whole number; got '2'"),
    ],
)
def test_records_are_validated(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Options(**options)  # type: ignore[arg-type]


def test_one_layer_to_keep_is_a_name_and_not_its_letters() -> None:
    assert Options(precision="bf16", keep_float32="conv").keep_float32 == ("conv",)


@pytest.mark.parametrize(
    "more", [{"threads": 2}, {"exact": True}, {"target": "x86-avx2"}, {"choices": {"a": "b"}}]
)
def test_options_that_contradict_a_plan_are_refused(net: weft.Net, more: dict[str, object]) -> None:
    plan = net.plan("generic")
    (name,) = more
    with pytest.raises(UserError, match=f"{name} is fixed by the given plan"):
        net.program(plan=plan, **more)  # type: ignore[arg-type]


def test_a_compiler_may_be_a_command_with_flags(net: weft.Net) -> None:
    fast = net.compile(compiler="cc -DGIVEN", threads=1)
    assert fast.library.path != net.compile(compiler="cc", threads=1).library.path


def test_the_command_line_has_options_of_the_record() -> None:
    assert FLAGS.keys() <= {each.name for each in fields(Options)}
