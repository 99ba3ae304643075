"""Queries that can never match, and what is not of the language: refused with a hint."""

from __future__ import annotations

import pytest

from tests.rewrite.checks import graph_of
from weft.errors import UserError
from weft.match.compile import compile_query
from weft.match.query import query
from weft.rewrite.recipes import all_rules

REFUSED = [
    (
        "Conv[kernel=3]",
        6,
        "kernel of Conv is a tuple of whole numbers; got 3",
        "Did you mean kernel=(3,3)?",
    ),
    (
        "Conv[kernel!=3]",
        6,
        "kernel of Conv is a tuple of whole numbers; got 3",
        "Did you mean kernel=(3,3)?",
    ),
    (
        "Conv[kernel<3]",
        6,
        "kernel of Conv is a tuple of whole numbers, and < compares numbers; got 3",
        "",
    ),
    (
        "Conv[kernel=none]",
        6,
        "kernel of Conv is a tuple of whole numbers; got none",
        "It is always given: what is left out in a model is filled in.",
    ),
    (
        "Conv[groups=(1,1)]",
        6,
        "groups of Conv is a whole number; got (1,1)",
        "Did you mean groups=1?",
    ),
    (
        'Conv[groups="1"]',
        6,
        "groups of Conv is a whole number; got 1",
        "Did you mean groups=1?",
    ),
    (
        "Conv[groups=1.5]",
        6,
        "groups of Conv is a whole number; got 1.5",
        "",
    ),
    (
        "*[kernel=3]",
        3,
        "kernel is a tuple of whole numbers; got 3",
        "Did you mean kernel=(3,3)?",
    ),
    (
        "*[axis=(1,)]",
        3,
        "axis is a whole number; got (1)",
        "Did you mean axis=1?",
    ),
    (
        "Cast[to=float32]",
        6,
        "to of Cast is an element type such as 'f32'; got float32",
        "Did you mean to=f32?",
    ),
    (
        "Relu[shape=3]",
        6,
        "shape is a tuple of whole numbers or symbols; got 3",
        "Did you mean shape=(3,3)?",
    ),
    (
        'Relu[rank="a"]',
        6,
        "rank is a whole number; got a",
        "",
    ),
    (
        "Relu[family=poling]",
        6,
        "there is no family poling; got poling",
        "Did you mean pooling or sampling or resampling?",
    ),
    (
        "Relu[name=1]",
        6,
        "name is a string; got 1",
        'Did you mean name="1"?',
    ),
    (
        "Relu[const=3]",
        6,
        "const is true or false; got 3",
        "",
    ),
    (
        "Conv[w.shape=3]",
        6,
        "shape is a tuple of whole numbers or symbols; got 3",
        "Did you mean shape=(3,3)?",
    ),
    (
        "Conv[pads=1]",
        6,
        "pads of Conv is a tuple of whole numbers; got 1",
        "Did you mean pads=(1,1,1,1)?",
    ),
    (
        "Conv[x.dtype=int8]",
        6,
        "dtype is an element type such as 'f32'; got int8",
        "Did you mean dtype=i8?",
    ),
    (
        "Conv -[9]-> Relu",
        6,
        "Relu has no input 9: it takes x",
        "`-[1]->` enters input 1, `-[1:]->` leaves output 1; the first is 0.",
    ),
    (
        "Conv -[9:]-> Relu",
        6,
        "Conv has no output 9: it makes y",
        "`-[1]->` enters input 1, `-[1:]->` leaves output 1; the first is 0.",
    ),
    (
        "-[9]-> Relu",
        1,
        "an op, a name or a number is expected; got '-[9]->'",
        "An edge stands between two nodes: `* -[1]-> Add`.",
    ),
    (
        "Conv -[b]-> Relu",
        6,
        "Relu has no input b: it takes x",
        "`-[1]->` enters input 1, `-[1:]->` leaves output 1; the first is 0.",
    ),
    (
        "Add{x,y,z}",
        1,
        "Add takes a, b; got 3 operands",
        "",
    ),
    (
        "Conv(x,w,b,c,d)",
        1,
        "Conv takes x, w, b?; got 5 operands",
        "",
    ),
    (
        "Conv(x)",
        1,
        "Conv takes x, w, b?; got 1 operand",
        "`...` stands for the rest: Conv(x, ...).",
    ),
    (
        "Conv{-1}",
        1,
        "Conv takes x, w, b?; got 1 operand",
        "How often it repeats is a whole number from 0 on: Conv{2}, Conv{2,5}.",
    ),
    (
        "Conv{x}",
        1,
        "Conv takes x, w, b?; got 1 operand",
        "Name all.",
    ),
    (
        "c: Conv -> c: Relu",
        12,
        "c is one node wherever it stands, which cannot be Conv and Relu",
        "Give one of them another name.",
    ),
    (
        "c: Conv -> Relu -> c",
        20,
        "c stands twice in one chain, and nothing comes after itself",
        "Give the second another name, or begin another statement.",
    ),
    (
        "c: Conv -> Relu; c: Gemm -> Add",
        18,
        "c is one node wherever it stands, which cannot be Conv and Gemm",
        "Give one of them another name.",
    ),
    (
        "a: Conv -> b: Relu; a != a",
        21,
        "a is always a",
        "",
    ),
    (
        "y, i = Relu(x)",
        1,
        "Relu makes y; got 2 names",
        "",
    ),
    (
        "Conv <- Relu",
        6,
        "a new statement is expected; got '<'",
        "Chains follow the data: write `Conv -> Relu` for a Relu that reads a Conv.",
    ),
    (
        "Conv ~> Relu",
        6,
        "a new statement is expected; got '~'",
        "An edge is written `->`, from what makes a value to what reads it.",
    ),
    (
        "Conv => Relu",
        6,
        "a new statement is expected; got '='",
        "An edge is written `->`, from what makes a value to what reads it.",
    ),
    (
        "Conv --> Relu",
        6,
        "this is no part of one; got --> Relu",
        "An edge is written `->`, from what makes a value to what reads it.",
    ),
    (
        "Conv -> #1",
        9,
        "an op, a name or a number is expected; got '#1'",
        "`#1` stands in conditions with a fact (`Add[#1.const]`); an edge into input "
        "1 is `-[1]->`.",
    ),
    (
        "Add[#1]",
        5,
        "a fact of the operand is expected; got #1",
        "`#1` stands in conditions with a fact (`Add[#1.const]`); an edge into input "
        "1 is `-[1]->`.",
    ),
    (
        "Conv[groups==1]",
        13,
        "a value is expected; got '='",
        "Comparisons are written with one `=`.",
    ),
    (
        "Conv[groups=1 and users=1]",
        15,
        "']' or ',' is expected; got 'and'",
        "Conditions are joined by commas: `Conv[groups=1, users=1]`.",
    ),
    (
        "Conv[groups=1 && users=1]",
        15,
        "this is no part of one; got && users=1]",
        "Conditions are joined by commas: `Conv[groups=1, users=1]`.",
    ),
    (
        "Conv[kernel=[3,3]]",
        13,
        "a value is expected; got '['",
        "A tuple stands in parentheses: `kernel=(3,3)`.",
    ),
    (
        '"Conv" -> Relu',
        1,
        "an op, a name or a number is expected; got '\"Conv\"'",
        'An op stands without quotes; a name of the model in a condition: `Conv[name="c1"]`.',
    ),
    (
        "Conv -[0]- Relu",
        6,
        "this is no part of one; got -[0]- Relu",
        "An edge with a label is written `-[1]->`.",
    ),
    (
        "Conv .. Relu",
        6,
        "this is no part of one; got .. Relu",
        "Any further ones are `...`; any nodes between are `**`.",
    ),
    (
        "Conv[name='a']",
        11,
        "this is no part of one; got 'a']",
        'Text stands in double quotes: `name="conv1"`.',
    ),
    (
        "Conv || Relu",
        7,
        "an op, a name or a number is expected; got '|'",
        "Alternatives are written `|`.",
    ),
    (
        "Conv[groups<>1]",
        13,
        "a value is expected; got '>'",
        "Unequal is written `!=`.",
    ),
    (
        "Conv > Relu",
        6,
        "a new statement is expected; got '>'",
        "An edge is written `->`, from what makes a value to what reads it.",
    ),
    (
        "Conv - Relu",
        6,
        "this is no part of one; got - Relu",
        "An edge is written `->`, from what makes a value to what reads it.",
    ),
]


@pytest.mark.parametrize(("text", "column", "rule", "fix"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_can_never_match_is_refused(text: str, column: int, rule: str, fix: str) -> None:
    with pytest.raises(UserError) as caught:
        compile_query(text)
    pointed = f"(line 1, column {column}\n    {text}\n    {' ' * (column - 1)}^)"
    assert str(caught.value) == f"query: {rule} {pointed}" + (f". {fix}" if fix else "")


@pytest.mark.parametrize(
    "text",
    [
        "Conv[kernel=(3,3)]",
        "Conv[kernel=(3,_)]",
        "Conv[kernel=(3,...)]",
        "Conv[kernel=_]",
        'Conv[kernel~"*3*"]',
        "Conv[kernel!=(1,1), groups>1]",
        "Conv[groups=1.0]",
        "Clip[min=0, max=none]",
        "Clip[max=6.5]",
        "Cast[to=f16]",
        "Add(x[shape=(N,3,...)], _)",
        "Add(x[dtype=f32], _)",
        "*[keepdims=true]",
        "*[axis=1]",
        "*[family=control]",
        "Concat(x, y, z, u)",
        "Concat -[9]-> Concat",
        "* -[9]-> *",
        "Split -[9:]-> Relu",
        "Add{x, x}",
        "Conv(x, ...)",
        "Conv(x, w, b?)",
        "(a: Conv | a: Gemm) -> Relu",
        "a: Relu -> Conv -> j: Add; a -> j",
        "a: Conv -> Relu; a: Conv -> Add",
        "(c: Conv -> Relu)+",
        "y, i = MaxPool(x)",
        "y = Relu(x); y -> Conv",
        "Relu -[y:w]-> Conv",
    ],
)
def test_what_can_match_is_read(text: str) -> None:
    compile_query(text)


def test_all_rules_can_match() -> None:
    for rule in all_rules():
        assert rule.pattern.ops


TWO = graph_of(
    """(%x: f32[1,3,8,8]) -> (%y) {
        %a: f32[1,3,8,8] = Relu(%x)
        %b: f32[1,3,8,8] = Neg(%a)
        %y: f32[1,3,8,8] = Add(%a, %b)
    }"""
)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Relu -> Gelu", "the graph has no Gelu"),
        ("Conv -> Gelu", "the graph has no Conv and no Gelu"),
        ("*{500}", "no path of the graph has 500 nodes, the longest has 3"),
        ("Add -> Relu", ""),
        ("Relu -> Neg", ""),
    ],
)
def test_why_there_is_no_match(text: str, hint: str) -> None:
    found = query(TWO, text, overlaps="greedy")
    assert found.hint == hint
    assert repr(found).splitlines()[0] == f"Matches: {'1 match' if found else '0 matches'}"
    assert (f"hint  {hint}" in repr(found)) == bool(hint)


def test_where_else_is_asked_only_where_there_is_no_match() -> None:
    asked: list[str] = []

    def elsewhere() -> str:
        asked.append("")
        return "2 matches after something"

    for text in ("Relu", "Add -> Relu"):
        found = query(TWO, text)
        found.elsewhere = elsewhere
        assert found.hint == ("" if found else "2 matches after something")
    assert len(asked) == 1
