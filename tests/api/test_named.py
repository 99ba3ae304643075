"""Inputs by position and by name, outputs with names."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import weft
from weft.api.named import fields_of, named_outputs, outputs_type
from weft.errors import UserError

ONE, TWO = np.float32([1, 2]), np.float32([10, 20])


@pytest.fixture(scope="module")
def net() -> weft.Net:
    image, mask = weft.input("image", "f32[2]"), weft.input("mask/in.1", "f32[2]")
    total, less = (image + mask).named("/head/sum"), (image - mask).named("less")
    return weft.net([image, mask], [total, less], name="small")


@pytest.fixture(scope="module")
def fast(net: weft.Net) -> weft.CompiledNet:
    return net.compile(threads=1)


def test_positions_names_and_mappings_are_the_same_call(net, fast):
    for call in (fast, net.reference):
        for made in (
            call(ONE, TWO),
            call({"image": ONE, "mask/in.1": TWO}),
            call({"mask/in.1": TWO}, image=ONE),
            call(ONE, **{"mask/in.1": TWO}),
            call(mask_in_1=TWO, image=ONE),
        ):
            np.testing.assert_array_equal(made[0], [11, 22])
            np.testing.assert_array_equal(made[1], [-9, -18])


def test_outputs_have_names_and_are_a_tuple(fast):
    made = fast(ONE, TWO)
    total, less = made
    assert isinstance(made, tuple)
    assert made.head_sum is total is made[0] is made["/head/sum"] is made["head_sum"]
    assert made.less is less is made[-1] is made["less"]
    assert (made._fields, made._names) == (("head_sum", "less"), ("/head/sum", "less"))
    assert list(made._asdict()) == ["head_sum", "less"]
    assert repr(made) == "/head/sum float32[2] [11. 22.]\nless float32[2] [ -9. -18.]"
    with pytest.raises(UserError) as caught:
        made["les"]
    assert str(caught.value) == "there is no such output; got les. Did you mean less?"


def test_outputs_are_kept_by_pickle_and_copy(fast):
    made = fast(ONE, TWO)
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert type(again) is type(made)
        np.testing.assert_array_equal(again.head_sum, made.head_sum)


def test_one_output_is_an_array():
    x = weft.input("x", "f32[2]")
    net = weft.net([x], [(x + 1).named("y")], name="one")
    assert type(net.compile(threads=1)(x=ONE)) is np.ndarray
    np.testing.assert_array_equal(net.reference(x=ONE).y, [2, 3])


def test_outputs_are_written_by_name(fast):
    total, less = np.empty(2, np.float32), np.empty(2, np.float32)
    fast(ONE, TWO, out={"less": less, "/head/sum": total})
    np.testing.assert_array_equal(total, [11, 22])
    np.testing.assert_array_equal(less, [-9, -18])
    with pytest.raises(UserError) as caught:
        fast(ONE, TWO, out={"less": less})
    assert str(caught.value) == (
        "small has 2 outputs: /head/sum, less; got nothing for /head/sum. "
        "Pass each by position or by name."
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda f: f(imaeg=ONE),
            "small has 2 inputs: image, mask/in.1; got imaeg. Did you mean image?",
        ),
        (
            lambda f: f(image=ONE),
            "small has 2 inputs: image, mask/in.1; got nothing for mask/in.1. "
            "Pass each by position or by name.",
        ),
        (
            lambda f: f({"image": ONE}),
            "small has 2 inputs: image, mask/in.1; got nothing for mask/in.1. "
            "Pass each by position or by name.",
        ),
        (
            lambda f: f(ONE, image=ONE),
            "every input is given once; got image twice: by position and by name",
        ),
        (
            lambda f: f({"image": ONE, "mask/in.1": TWO}, image=ONE),
            "every input is given once; got image twice: in the mapping and as an argument",
        ),
        (
            lambda f: f({"image": ONE, "mask/in.1": TWO, "mask_in_1": TWO}),
            "every input is given once; got mask/in.1 twice: by two names",
        ),
        (
            lambda f: f(ONE, TWO, TWO, image=ONE),
            "small has 2 inputs: image, mask/in.1; got 4 arrays",
        ),
        (
            lambda f: f(1, ONE, image=ONE),
            "every input is given once; got image twice: by position and by name",
        ),
    ],
)
def test_what_does_not_fit_is_refused(net, fast, call, message):
    for function in (fast, net.reference):
        with pytest.raises(UserError) as caught:
            call(function)
        assert str(caught.value) == message


def test_a_missing_input_by_position_is_refused(net, fast):
    with pytest.raises(UserError) as caught:
        fast(ONE)
    assert str(caught.value) == "small has 2 inputs: image, mask/in.1; got 1 arrays"
    with pytest.raises(UserError) as caught:
        net.reference(ONE)
    assert str(caught.value) == (
        "small has 2 inputs: image, mask/in.1; got nothing for mask/in.1. "
        "Pass each by position or by name."
    )


def test_nets_are_called_on_values_by_name(net):
    a, b = weft.input("a", "f32[2]"), weft.input("b", "f32[2]")
    made = weft.net([a, b], list(net({"mask/in.1": b}, image=a)))
    np.testing.assert_array_equal(made.reference(ONE, TWO)[1], [-9, -18])


def test_checks_and_toolkits_take_inputs_by_name(net):
    named = {"mask/in.1": TWO, "image": ONE}
    assert all(each.relative == 0 for each in net.verify(named))
    golden = net.toolkit("generic", inputs=named).golden
    assert [list(each.array) for each in golden.inputs] == [[1, 2], [10, 20]]


def test_fields_are_identifiers_and_differ():
    names = ("a", "/head/out.0", "class", "x y", "x_y", "count", "1", "_x", "", "é", "a")
    fields = fields_of(names[:-1])
    assert fields == (
        "a",
        "head_out_0",
        "class_",
        "x_y_2",
        "x_y",
        "count_",
        "value_1",
        "x",
        *fields[8:],
    )
    assert len(set(fields)) == len(fields)
    assert all(each.isidentifier() for each in fields)
    kind = outputs_type(names[:-1])
    made = named_outputs(kind, tuple(np.full(1, n) for n in range(10)))
    assert [int(made[name][0]) for name in names[:-1]] == list(range(10))
