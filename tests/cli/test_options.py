"""Options whose values would be changed or ignored are refused."""

from __future__ import annotations

import shlex

import numpy as np
import pytest

import weft
from tests.cli.commands import weft as command
from weft.errors import UserError

BOUND = (
    "only an open size can be bound; all of digits are known; got batch 5. "
    "Other shapes: --input NAME=SHAPE, or in Python net.with_shapes."
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("verify M --tolerance -1", "-1 is not a finite number of at least 0."),
        ("verify M --tolerance nan", "nan is not a finite number of at least 0."),
        ("verify M --seed -1", "-1 is not in the range x>=0."),
        ("run M --random --seed -1", "-1 is not in the range x>=0."),
        ("run M --random --scale inf", "inf is not a finite number."),
        ("bench M --seconds 0", "0 is not a finite number above 0."),
        ("bench M --seconds nan", "nan is not a finite number above 0."),
        ("bench M --layers --top -3", "-3 is not in the range x>=1."),
        ("tune M --seconds -3", "-3 is not a finite number above 0."),
        ("compare M --seconds nan", "nan is not a finite number above 0."),
        ("query M Conv --seconds -1", "-1 is not a finite number above 0."),
        ("campaign M fault-weights count=1 --trials 0", "0 is not in the range x>=1."),
    ],
)
def test_values_out_of_range_are_wrong_usage(digits, line, message):
    result = command(*(str(digits) if word == "M" else word for word in shlex.split(line)))
    assert result.exit_code == 2
    assert result.stderr.rstrip().endswith(message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "export M -o OUT --name '9 bad-name' --target generic",
            "error: name must be a C identifier: letters, digits and single underscores between "
            "them, a letter first\n  got: '9 bad-name'\n  fix: For example: n9_bad_name\n",
        ),
        (
            "run M --random --std 0",
            "error: --std must be finite numbers other than 0\n  got: 0\n",
        ),
        ("run M --random --mean 3", "error: --mean is for images\n  got: --random\n"),
        ("run M x.npy --random", "error: --random cannot be combined with files\n  got: x.npy\n"),
        ("run M x.npy --seed 3", "error: --seed is for --random\n  got: files\n"),
        ("compare M --cost macs", "error: --cost requires --svg\n  fix: Add --svg FILE.\n"),
        (
            "compare M --no-run --seconds 3",
            "error: --seconds has no effect with --no-run\n  got: --no-run\n",
        ),
        ("cache --keep 3M", "error: --keep requires --prune\n  fix: Add --prune.\n"),
        ("show M --flavour c99", "error: --flavour is for --after c\n  got: --after expand\n"),
        (
            "show M --input image=1x1x8x8 --input image=1x1x8x8",
            "error: --input names an input once\n  got: image twice\n",
        ),
        (
            "show M --batch 5",
            "error: only an open size can be bound; all of digits are known\n  got: batch 5\n"
            "  fix: Other shapes: --input NAME=SHAPE, or in Python net.with_shapes.\n",
        ),
    ],
)
def test_values_without_effect_are_refused(digits, tmp_path, line, message):
    places = {"M": str(digits), "OUT": str(tmp_path / "out")}
    result = command(*(places.get(word, word) for word in shlex.split(line)))
    assert result.exit_code == 1
    assert result.stderr == message
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_an_identifier_is_kept(digits):
    net = weft.load(digits)
    assert net.source("generic", name="reader_2").interface.function == "reader_2_run"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda n: n.plan("generic", threads=0),
            "the number of threads must be a whole number from 1 to 1024; got 0",
        ),
        (lambda n: n.compile(tune="yes"), "tune must be True, False or \"cached\"; got 'yes'"),
        (
            lambda n: n.compile(tune_seconds=-1),
            "tune_seconds must be a finite number above 0; got -1",
        ),
        (
            lambda n: n.tune(seconds=float("nan")),
            "seconds must be a finite number above 0; got nan",
        ),
        (lambda n: n.bound(5), BOUND),
        (
            lambda n: n.source("generic", weights="foo"),
            "weights must be arrays, blob or inline; got 'foo'",
        ),
        (
            lambda n: n.source("generic", parts=-1),
            "parts must not be negative; 0 means one file for each function; got -1",
        ),
        (lambda n: weft.compare([n], seconds=0), "seconds must be a finite number above 0; got 0"),
        (
            lambda n: weft.compare([n], names=[""]),
            "names are a sequence of texts that are not empty; got ['']",
        ),
        (
            lambda n: weft.trace(weft.layers.Conv(3, 1), "f32[1,3,4,4]", seed=-1),
            "net: the seed must be a whole number, 0 or more; got -1",
        ),
    ],
)
def test_python_refuses_the_same(digits, call, message):
    with pytest.raises(UserError) as caught:
        call(weft.load(digits))
    assert str(caught.value) == message


def test_a_batch_that_is_there_already_is_no_error():
    x = weft.input("x", "f32[2,3]")
    net = weft.net([x], [(x + 1).named("y")])
    ones = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(net.compile(batch=2, threads=1)(ones), ones + 1)
