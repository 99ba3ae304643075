"""Every construct of the language means what the brute-force matcher says."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lark import Lark

from tests.match.brute import Brute, Meaning, TooLongError
from tests.match.test_matcher import graph_of
from tests.turns import examples
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.match.conditions import Predicate
from weft.match.parse import GRAMMAR, _Lines
from weft.match.pattern import Expression, Look, PatternRepeat, children
from weft.match.query import Matches, query
from weft.match.view import Match
from weft.ops.table import OPS

TYPE = TensorType(DType.F32, (1, 4))


@st.composite
def graphs(draw: st.DrawFn, most: int = 4) -> Graph:
    """Nodes with one input, two, an optional one, or two outputs, over two inputs."""
    values = ["u", "v", "k", "two"]
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, most))):
        op = draw(st.sampled_from(["Relu", "Neg", "Add", "LeakyRelu", "Dropout"]))
        count = 2 if op == "Add" else 1
        inputs = tuple(
            draw(st.sampled_from(values[-4:] if number > 2 else values)) for _ in range(count)
        )
        outputs = (f"n{number}", f"m{number}") if op == "Dropout" else (f"n{number}",)
        attributes = OPS[op].attributes()
        if op == "LeakyRelu":
            attributes = OPS[op].attributes(alpha=draw(st.sampled_from([0.25, 0.5])))
        nodes.append(Node(f"N{number}", op, inputs, outputs, attributes))
        values.extend(outputs)
    made = [value for node in nodes for value in node.outputs]
    outputs = tuple(dict.fromkeys([draw(st.sampled_from(made)), made[-1]]))
    constants = {"k": np.array([[1.0]], np.float32), "two": np.array([2.0], np.float32)}
    types = dict.fromkeys(values, TYPE)
    types["two"] = TensorType(DType.F32, (1,))
    types["k"] = TensorType(DType.F32, (1, 1))
    for array in constants.values():
        array.flags.writeable = False
    return Graph("g", ("u", "v"), outputs, tuple(nodes), types, constants)


NODES = (
    "Relu",
    "Neg",
    "Add",
    "Dropout",
    "*",
    "*",
    "!Neg",
    "!(Add | Relu)",
    "LeakyRelu[alpha=0.5]",
    "*[users=1]",
    "*[const]",
    "*[input | output]",
    "Add[a.const, !b.const]",
    "a: *",
    "a: Relu",
    "b: *[users>=1]",
    "Add(x, _)",
    "Add{x, Neg}",
    "Add{Relu(x), y}",
    "Add(x, x)",
    "Add(_, Neg? -> Relu)",
    "*(2, ...)",
    "Dropout(x, y?, ...)",
    "*{}",
    "*()",
    "*(...)",
    "LeakyRelu[@alpha=0.5, users=1,]",
    "*[(users>=2 | const), #0.rank=2]",
    "Add[#1.shape=(_,...), a.dtype=f32]",
    '*[reads(1), !reads(2), named(x, 2), name~"N[0-2]"]',
    "*[plain(), op_is(Relu)]",
    "*[#0.plain(), !named(x, 2, none)]",
    "*[]",
    "Neg[users=1,]",
    "Add(_, x)[users=1]",
    "*(_, ...)[users>=1]",
    "*[users=1 | const | rank=1]",
    "*[shape=(1) | shape=(1,) | shape=(1, 4)]",
    "Neg{x}",
    "*[shape=(), users!=2 | shape=(1, 4,)]",
    "*[alpha<=0.25, rank<3, size>3]",
    "*(const, const k[rank=2], ...)",
)
VALUES = (
    "input",
    "output",
    "const k",
    "const[rank=2]",
    "a",
    "x",
    "output x",
    "_",
    "_[users=1]",
    "2.0",
    "input x[users=1]",
)
ARROWS = ("->", "->", "->", "-[a]->", "-[1]->", "-[0:]->", "-[1:x]->")
PARTS = ("Relu -> Neg?", "(Neg | Relu -> *)", "d: * -> Relu?", "Add | d: Neg", "r -> (d: Neg)?")
"""Of sub-patterns: the first may be used by those after it."""
PREDICATES: dict[str, Predicate] = {
    "reads": lambda subject, count: len(subject.node.inputs) == count,
    "named": lambda subject, *words: words == ("x", 2),
    "plain": lambda subject: subject.type.shape == (1, 4),
    "op_is": lambda subject, op: subject.node.op == op,
}


LOOKS = ("(?=", "(?!", "(?<=", "(?<!")
COUNTS = ("?", "*", "+", "{2}", "{1,2}", "{0,2}", "{2,}")
MADE = (
    "y = Add(x, _)",
    "x = Relu(_)",
    "a != b",
    "x, m = Dropout(_)",
    "x, ... = *(_)",
    "_, x, ... = Dropout(_)",
    "y, _, z = Dropout(_)",
)
USED = ("p", "p?", "p+", "f: p", "f: p -> p", "(p -> *){1,2}", "(p | f: p | Neg)")
BETWEEN = ("; ", "\n", " // so\n", "\n\n")


@st.composite
def chains(draw: st.DrawFn, depth: int = 2) -> str:
    steps: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 11))
        if kind < 7 or depth == 0:
            step = draw(st.sampled_from(NODES))
        elif kind == 7:
            step = draw(st.sampled_from(VALUES))
        elif kind == 8:
            step = f"{draw(st.sampled_from(LOOKS))} {draw(chains(depth - 1))})"
        elif kind == 9:
            step = f"({draw(chains(depth - 1))} | {draw(chains(depth - 1))})"
        else:
            step = f"({draw(chains(depth - 1))}){draw(st.sampled_from(COUNTS))}"
        if steps:
            steps.append(draw(st.sampled_from(ARROWS)))
        steps.append(step)
    return " ".join(steps)


@st.composite
def queries(draw: st.DrawFn) -> str:
    statements = [draw(chains())]
    for _ in range(draw(st.sampled_from([0, 0, 1]))):
        statements.append(draw(chains(1)))
    if draw(st.integers(0, 5)) == 0:
        statements.append(draw(st.sampled_from(MADE)))
    if draw(st.integers(0, 3)) == 0:
        statements[0] = f"{draw(st.sampled_from(USED))} -> {statements[0]}"
        statements = ["def r = Relu", f"def p = {draw(st.sampled_from(PARTS))}", *statements]
    return draw(st.sampled_from(BETWEEN)).join(statements)


DRAWN = (
    *NODES,
    *VALUES,
    *MADE,
    *USED,
    *(f"def p = {part}" for part in PARTS),
    *(f"{look} *)" for look in LOOKS),
    *(f"(*){count}" for count in COUNTS),
    *(f"* {arrow} *" for arrow in ARROWS),
    *(f"*{between}*" for between in BETWEEN),
    "(* | *)",
    "* -> * -> *",
    "*\n*; *",
)
"""Everything that ``queries`` draws from, alone."""


def pieces(text: str) -> tuple[set[Any], set[tuple[str, str]]]:
    """The rules of the grammar that a text needs, and the words of closed sets in it."""
    grammar = _grammar()
    used: set[Any] = set()
    callbacks: dict[Any, Any] = grammar.parser.parser.parser.callbacks
    told = dict(callbacks)
    for rule, build in told.items():
        callbacks[rule] = lambda found, rule=rule, build=build: (used.add(rule), build(found))[1]
    tokens = {(token.type, str(token)) for token in grammar.lex(text)}
    grammar.parse(text)
    callbacks.update(told)
    return used, tokens


@cache
def _grammar() -> Any:
    lines = _Lines()
    return Lark(GRAMMAR, parser="lalr", lexer="basic", postlex=lines, maybe_placeholders=True)


CLOSED = {
    "KIND": ("const", "input", "output"),
    "QUANTIFIER": ("?", "+"),
    "LOOK": ("(?=", "(?!", "(?<=", "(?<!"),
    "COMPARISON": ("<=", ">=", "<", ">", "~"),
}
"""Terminals that are a few words, each of which means something else."""
UNSEEN = {"COMMENT", "SPACE"}
"""Terminals that the parser never sees."""


REFUSED = ("*[@alpha(1)]", "*[const(1)]")
"""What the grammar can say, and nothing means."""


def test_every_construct_is_among_what_queries_draw() -> None:
    rules: set[Any] = set()
    tokens: set[tuple[str, str]] = set()
    for text in DRAWN:
        found, words = pieces(text)
        rules.update(found)
        tokens.update(words)
    for text in REFUSED:
        with pytest.raises(UserError, match="there is no predicate"):
            query(Graph("empty", (), (), (), {}), text)
        rules.update(pieces(text)[0])
    # A text without a statement is an error, and has a test of its own.
    wanted = {str(rule) for rule in _grammar().rules if rule.expansion}
    assert wanted - set(map(str, rules)) == set()
    assert {terminal.name for terminal in _grammar().terminals} == UNSEEN | {t for t, _ in tokens}
    for terminal, words in CLOSED.items():
        assert {word for kind, word in tokens if kind == terminal} == {*words}


def told(match: Match) -> tuple[frozenset[str], frozenset[tuple[str, str]], frozenset[object]]:
    named = {name: node.name for name, node in match.named.items()}
    rounds = frozenset((n, v) for n, values in match.lists.items() for v in values)
    return (
        frozenset(node.name for node in match.nodes),
        frozenset((dict(match.values) | named).items()),
        rounds,
    )


def meant(meaning: Meaning) -> tuple[frozenset[str], frozenset[tuple[str, str]], frozenset[object]]:
    return frozenset(meaning.nodes), meaning.names, meaning.rounds


RELAXED = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def asked(graph: Graph, text: str, **options: object) -> Matches:
    try:
        return query(graph, text, predicates=PREDICATES, **options)  # type: ignore[arg-type]
    except UserError:
        # Names that are not given elsewhere, and the like: there is a test of each.
        assume(False)
        raise


@RELAXED
@given(graphs(), queries())
def test_every_match_is_found_and_no_other(graph: Graph, text: str) -> None:
    brute = Brute(graph, text, PREDICATES)
    assume(len(brute.total) < 3)
    found = asked(graph, text, overlaps="every")
    assert {told(match) for match in found} == {meant(each) for each in meanings_of(brute)}
    assert len({told(match) for match in found}) == len(found)


def meanings_of(brute: Brute) -> set[Meaning]:
    try:
        return brute.meanings()
    except TooLongError:
        assume(False)
        raise


def starts(meanings: set[Meaning]) -> dict[str, list[Meaning]]:
    found: dict[str, list[Meaning]] = defaultdict(list)
    for each in meanings:
        found[each.nodes[0]].append(each)
    return found


@RELAXED
@given(graphs(), chains())
def test_all_are_the_longest_of_their_kind(graph: Graph, text: str) -> None:
    brute = Brute(graph, text, PREDICATES)
    assume(len(brute.total) < 3 and "(?<" not in text)
    found = asked(graph, text)
    meanings = meanings_of(brute)
    assume(all(each.nodes for each in meanings))
    firm = set(names_outside_of_repetitions(brute))
    kinds: dict[object, int] = defaultdict(int)
    for each in meanings:
        names = frozenset(pair for pair in each.names if pair[0] in firm)
        kind = (each.nodes[0], each.fixed | {each.nodes[0]}, names)
        kinds[kind] = max(kinds[kind], len(each.nodes))
    everything = {meant(each)[:2] for each in meanings}
    assert {told(match)[:2] for match in found} <= everything
    best = {(kind[0], size) for kind, size in kinds.items()}  # type: ignore[index]
    assert {(match.root.name, len(match.nodes)) for match in found} == best
    assert len(found) <= len(kinds)


def names_outside_of_repetitions(brute: Brute) -> list[str]:
    def outside(expression: Expression) -> list[str]:
        if isinstance(expression, PatternRepeat | Look):
            return []
        name = getattr(expression, "capture", getattr(expression, "name", ""))
        return [name, *(n for each in children(expression) for n in outside(each))]

    return [name for s in brute.query.statements for name in outside(s.expression)]


@RELAXED
@given(graphs(), chains())
def test_greedy_takes_the_longest_that_is_left(graph: Graph, text: str) -> None:
    brute = Brute(graph, text, PREDICATES)
    assume(len(brute.total) < 3 and "(?<" not in text)
    found = asked(graph, text, overlaps="greedy")
    meanings = meanings_of(brute)
    assume(all(each.nodes for each in meanings))
    by_start = starts(meanings)
    place = {node.name: number for number, node in enumerate(graph.nodes)}
    taken: set[str] = set()
    chosen: list[tuple[str, int]] = []
    mine = iter(found)
    for start in sorted(by_start, key=place.__getitem__):
        free = [each for each in by_start[start] if taken.isdisjoint(each.nodes)]
        if not free:
            continue
        size = max(len(each.nodes) for each in free)
        chosen.append((start, size))
        match = next(mine)
        assert (match.root.name, len(match.nodes)) == chosen[-1]
        # Several may be the longest: go on with the one that was taken.
        own = frozenset(node.name for node in match.nodes)
        assert own in {frozenset(each.nodes) for each in free}
        taken |= own
    assert next(mine, None) is None


@RELAXED
@given(graphs(), chains())
def test_best_is_the_best(graph: Graph, text: str) -> None:
    brute = Brute(graph, text, PREDICATES)
    assume(len(brute.total) < 2)
    found = asked(graph, text, overlaps="best")
    sets = {frozenset(each.nodes) for each in meanings_of(brute)} - {frozenset()}
    assume(len(sets) < 10)
    best = 0
    for count in range(len(sets) + 1):
        for some in combinations(sets, count):
            nodes = [name for each in some for name in each]
            if len(nodes) == len(set(nodes)):
                best = max(best, len(nodes))
    taken = [node.name for match in found for node in match.nodes]
    assert len(taken) == len(set(taken)) == best
    assert found.cut == ""


def test_sub_patterns_are_what_they_stand_for() -> None:
    graph = graph_of(
        """(%x: f32[4]) -> (%d) {
            %a: f32[4] = Relu(%x)
            %b: f32[4] = Neg(%a)
            %c: f32[4] = Relu(%b)
            %d: f32[4] = Neg(%c)
        }"""
    )
    short = query(graph, "def pair = Relu -> Neg\npair -> pair", overlaps="every")
    long = query(graph, "(Relu -> Neg) -> (Relu -> Neg)", overlaps="every")
    assert list(map(told, short)) == list(map(told, long))
    with pytest.raises(UserError):
        query(graph, "def pair = Relu -> pear\npair")
