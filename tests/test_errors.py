"""Errors: what they say, and which names they think were meant."""

from __future__ import annotations

import pytest

from weft.errors import UserError, nearest, nearest_or_all

NAMES = ("Relu", "PRelu", "Conv", "ConvTranspose")


def test_the_parts_of_an_error_are_told_in_order():
    error = UserError("conv: groups must be 1", got="groups=2", fix="Split it.", where="node a")
    assert str(error) == "conv: groups must be 1; got groups=2 (node a). Split it."
    assert str(UserError("conv: groups must be 1")) == "conv: groups must be 1"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("rleu", "Relu or PRelu"),  # spelt alike, whatever the case
        ("trans", "ConvTranspose"),  # a part of a name
        ("x", ""),  # one letter is a part of too much
        ("softmax", ""),
    ],
)
def test_what_is_spelt_alike_is_named(name, meant):
    assert nearest(name, NAMES) == (f"Did you mean {meant}?" if meant else "")


def test_no_more_names_than_asked_for():
    assert nearest("rleu", NAMES, 1) == "Did you mean Relu?"


def test_all_are_listed_where_none_is_near():
    assert nearest_or_all("conw", NAMES) == "Did you mean Conv?"
    assert nearest_or_all("softmax", NAMES) == "There are: Relu, PRelu, Conv, ConvTranspose."
    assert nearest_or_all("softmax", ()) == "There are: none."


def test_long_lists_are_cut():
    listed = nearest_or_all("softmax", [f"n{each}" for each in range(1000)])
    assert listed.startswith("There are: n0, n1, ")
    assert listed.endswith(", n39 and 960 more.")
