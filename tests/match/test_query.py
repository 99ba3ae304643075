"""Matches of queries: which are given where they overlap, and what they say of themselves."""

from __future__ import annotations

import inspect

import pytest

from tests.match.test_matcher import graph_of
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.match import disjoint
from weft.match.conditions import Subject
from weft.match.describe import query_of
from weft.match.query import Query, query
from weft.match.view import Match

RESIDUAL = graph_of(
    """(%x: f32[1,2,4]) -> (%s, %t) {
        const %w: f32[2,2,1] = [1.0, 2.0, 3.0, 4.0]
        const %k: f32[2,1] = [1.0, 2.0]
        %a: f32[1,2,4] = Conv(%x, %w)
        %b: f32[1,2,4] = Relu(%a)
        %c: f32[1,2,4] = Conv(%b, %w)
        %d: f32[1,2,4] = Clip(%c) {min=0.0, max=6.0}
        %s: f32[1,2,4] = Add(%d, %b)
        %e: f32[1,2,4] = Mul(%s, %k)
        %t: f32[1,2,4] = LeakyRelu(%e) {alpha=0.20000000298023224}
    }"""
)


def names(match: Match) -> str:
    return "".join(node.name for node in match.nodes)


def found(text: str, graph: Graph = RESIDUAL, overlaps: str = "all") -> list[str]:
    return [names(each) for each in query(graph, text, overlaps=overlaps)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("Conv -> Relu", ["ab"]),
        ("Conv -> Relu?", ["ab", "c"]),
        ("Conv -> (Relu | Clip[max=6])", ["ab", "cd"]),
        ("Conv -> (Clip | Relu[users=2])", ["ab", "cd"]),
        ("Conv -> (Clip | Relu[users=1])", ["cd"]),
        ("(Conv -> (Relu | Clip))+", ["abcd", "cd"]),
        ("(Conv -> (Relu | Clip)){2}", ["abcd"]),
        ("(Conv -> (Relu | Clip)){1}", ["ab", "cd"]),
        ("input -> *", ["a"]),
        ("* -> output", ["s", "t"]),
        ("Conv -> ** -> Add", ["abcds", "cds"]),
        ("Add -[b]-> *", []),
        ("* -[b]-> Add", ["bs"]),
        ("* -[0:1]-> Add", ["bs"]),
        ("Relu -> (?= Conv) -> Add", ["bs"]),
        ("Relu -> (?! Conv) -> Add", []),
        ("(?<= Relu) -> Conv", ["c"]),
        # It reads its weight, which no Relu makes, too.
        ("(?<! Relu) -> Conv", ["a", "c"]),
        ("(?<! Relu) -[x]-> Conv", ["a"]),
        ("(Conv -> Relu | Conv) -> Relu?", ["ab", "c"]),
        ("r: Relu -> s: Add; r -> Conv -> Clip -> s", ["bcds"]),
        ("s = Add{Clip(c), r}; r -> Conv -> c", ["cds"]),
        ("a: Conv; b: Conv; a != b", ["ac", "ac"]),
        ("!Conv[users=1] -> !Add -> *", ["bcd", "set"]),
        ("*[family=activation]", ["b", "t"]),
        ("Conv[w.shape=(2,...), #0.rank=3]", ["a", "c"]),
        ("Conv[#0.input]", ["a"]),
        ("Mul[const, dtype=f32, shape=(_,2,4)]", ["e"]),
        ("Mul{_, const k[shape=(2,1)]}", ["e"]),
        ("Mul{_, const k[shape=()]}", []),
        ('*[name~"[ac]"]', ["a", "c"]),
        ("LeakyRelu[alpha=0.2]", ["t"]),
        ("LeakyRelu[alpha>0.2, alpha<=0.3]", ["t"]),
        ("*[alpha!=0.3]", ["t"]),
        ("def half = Conv -> (Relu | Clip)\nhalf -> half", ["abcd"]),
        ("*[@min=0]", ["d"]),
    ],
)
def test_what_matches(text: str, matches: list[str]) -> None:
    assert found(text) == matches


def test_a_match_is_a_view() -> None:
    (match,) = query(RESIDUAL, "def half = c: Conv -> (Relu | Clip)\nfirst: half -> (n: *){2}")[:1]
    assert names(match) == "abcd"
    assert (match.inputs, match.constants, match.outputs) == (("x",), ("w",), ("b", "d"))
    assert match.node("first.c").op == "Conv"
    assert match.lists == {"n": ("c", "d")}
    assert match.has("first.c")
    assert match.root.name == "a"


def test_names_of_what_is_not_there() -> None:
    graph = graph_of("(%x: f32[4]) -> (%b) {\n%a: f32[4] = Neg(%x)\n%b: f32[4] = Abs(%a)\n}")
    (match,) = query(graph, "Neg -> (r: Relu)? -> Abs(x)")
    assert not match.has("r")
    assert match["x"] == "a"
    (alone,) = query(graph, "input x; x -> Neg")
    assert alone["x"] == "x"
    (values,) = query(graph, "output y")
    assert values.nodes == ()
    assert values.start is None


def test_predicates() -> None:
    def reads(subject: Subject, count: int) -> bool:
        assert subject.node is not None
        return len(subject.node.inputs) == count

    matches = query(RESIDUAL, "*[reads(2), !first]", predicates={"reads": reads, "first": is_first})
    assert [names(each) for each in matches] == ["c", "s", "e"]


def is_first(subject: Subject) -> bool:
    return subject.node is not None and subject.node.name == "a"


def chain(count: int) -> Graph:
    lines = []
    for place in range(count):
        op = ("Relu", "Neg")[place % 2]
        lines.append(f"%v{place + 1}: f32[4] = {op}(%v{place})")
    return graph_of(f"(%v0: f32[4]) -> (%v{count}) {{\n" + "\n".join(lines) + "\n}")


def test_overlaps() -> None:
    graph = chain(6)
    pair = "Relu -> Neg -> Relu?"
    sizes = {
        overlaps: [
            len(match.nodes) for match in query(graph, pair, overlaps=overlaps, seconds=3600)
        ]
        for overlaps in ("all", "every", "greedy", "best")
    }
    assert sizes == {
        "all": [3, 3, 2],
        "every": [2, 3, 2, 3, 2],
        # The second takes what the first has left.
        "greedy": [3, 2],
        "best": [2, 2, 2],
    }


def test_best_can_be_weighed() -> None:
    def weight(match: Match) -> int:
        return 10 if len(match.nodes) == 3 else 1

    found = query(chain(6), "Relu -> Neg -> Relu?", overlaps="best", seconds=3600, weight=weight)
    assert [len(match.nodes) for match in found] == [3, 2]
    assert found.cut == ""


def test_best_says_when_it_is_cut() -> None:
    found = query(chain(40), "Relu -> Neg -> Relu?", overlaps="best", seconds=0.0)
    assert found.cut.startswith(("stopped after 0 s: weight ", "nothing was weighed within 0 s"))
    assert sum(len(match.nodes) for match in found) >= 30


def test_best_honours_its_time() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1
        return now[0]

    # A second passes whenever somebody looks: what is found by then is what there is.
    asked = Query.read("a: * -> ** -> b: *")
    found = asked.matches(chain(60), overlaps="best", seconds=4, clock=clock)
    assert found.cut.startswith("stopped after 4 s: not all matches were found by then")
    assert now[0] < 12
    taken = [node.name for match in found for node in match.nodes]
    assert len(taken) == len(set(taken))


def test_the_time_of_best_is_no_search_of_the_others() -> None:
    def clock() -> float:
        raise AssertionError

    assert len(Query.read("Relu -> Neg").matches(chain(6), clock=clock)) == 3


@pytest.mark.parametrize("seconds", [-1, "2", None, float("nan")])
def test_a_time_is_a_number(seconds: float) -> None:
    with pytest.raises(UserError) as caught:
        query(chain(6), "Relu", overlaps="best", seconds=seconds)
    assert str(caught.value) == f"seconds must be a number, 0 or more; got {seconds!r}"


@pytest.mark.thorough
def test_counts_go_as_far_as_graphs_are_long() -> None:
    (match,) = query(chain(500), "*{500}", overlaps="greedy")
    assert len(match.nodes) == 500
    assert len(query(chain(500), "*{200}", overlaps="greedy")) == 2


def test_greedy_overlaps_do_not_advise_themselves() -> None:
    row = " -> ".join(["Relu?"] * 2000)
    with pytest.raises(UserError) as caught:
        query(chain(6), row, overlaps="greedy")
    assert caught.value.fix == (
        "Say more about what stands in its repetitions, or let them count less far."
    )


def test_faults_of_predicates_and_weights_are_theirs() -> None:
    def divides(subject: Subject) -> bool:
        return len(subject.value) / 0 > 1

    def tells_nothing(_: Match) -> None:
        return

    line = inspect.getsourcelines(divides)[1] + 1
    with pytest.raises(UserError) as caught:
        query(chain(6), "Relu[divides]", predicates={"divides": divides})
    assert str(caught.value) == (
        "query: predicate divides failed; got ZeroDivisionError: division by zero "
        f"({__file__}, line {line}, node v1)"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    line = inspect.getsourcelines(tells_nothing)[1]
    with pytest.raises(UserError) as caught:
        query(chain(6), "Relu", overlaps="best", weight=tells_nothing)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "query: `weight` failed; got TypeError: it must return a whole number; it returned None "
        f"({__file__}, line {line}, a match of v1)"
    )


def test_best_needs_ortools_only_where_matches_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disjoint, "installed", lambda package: False)
    assert query(chain(6), "Relu -> Neg", overlaps="best").cut == ""
    found = query(chain(6), "Relu -> Neg -> Relu?", overlaps="best")
    assert [len(match.nodes) for match in found] == [3, 2]
    assert found.cut == (
        "the heaviest were taken first; to weigh all sets of matches against each other, "
        "install OR-tools: pip install 'weft[solver]'"
    )


def test_best_takes_the_heaviest_where_there_are_too_many() -> None:
    found = query(chain(3000), "Relu -> **", overlaps="best")
    assert [len(match.nodes) for match in found] == [3000]
    assert found.cut.endswith("too many to weigh against each other: the heaviest were taken first")


def test_long_rows_of_choices() -> None:
    row = " -> ".join(["Relu?"] * 2000)
    with pytest.raises(UserError, match="it can match in too many ways"):
        query(chain(6), row)


def ladder(steps: int) -> Graph:
    """Two ways at every step: more paths than can ever be listed."""
    lines = []
    for place in range(steps):
        lines.append(f"%l{place}: f32[4] = Relu(%v{place})")
        lines.append(f"%v{place + 1}: f32[4] = Add(%v{place}, %l{place})")
    return graph_of(f"(%v0: f32[4]) -> (%v{steps}) {{\n" + "\n".join(lines) + "\n}")


def test_many_ways_are_one_match() -> None:
    longest, other = query(ladder(200), "input -> ** -> output")
    assert (len(longest.nodes), len(other.nodes)) == (400, 399)


def test_too_many_ways_are_refused() -> None:
    with pytest.raises(UserError) as caught:
        query(ladder(30), "input -> ** -> output", overlaps="every")
    assert str(caught.value) == (
        "query: it can match in too many ways; got no end after 17,000 steps. Say more about "
        "what stands in its repetitions, or ask for greedy overlaps."
    )
    found = query(ladder(30), "input -> ** -> output", overlaps="best")
    assert len(found) == 1
    assert len(found[0].nodes) == 60
    assert found.cut == ("of matches that differ in repetitions only the longest were considered")


def test_long_graphs_need_no_deep_stack() -> None:
    graph = chain(5000)
    (match,) = query(graph, "(Relu -> Neg)+", overlaps="greedy")
    assert len(match.nodes) == 5000
    graph = chain(400)
    text = query_of(graph, [node.name for node in graph.nodes[:300]])
    assert len(query(graph, text)[0].nodes) == 300


def test_the_query_of_a_part() -> None:
    text = query_of(RESIDUAL, ["b", "c", "d", "s"])
    assert text == (
        "b = Relu(a)\nc = Conv(b, const w)\nd = Clip(c) [@min=0.0, @max=6.0]\ns = Add(d, b)"
    )
    (match,) = query(RESIDUAL, text)
    assert names(match) == "bcds"
    assert match["w"] == "w"


def test_the_query_of_nothing() -> None:
    with pytest.raises(UserError) as caught:
        query_of(RESIDUAL, ["bb"])
    assert str(caught.value) == "query: graph g has no node bb. Did you mean b?"


def test_overlaps_that_do_not_exist() -> None:
    with pytest.raises(UserError) as caught:
        Query.read("Conv").matches(RESIDUAL, overlaps="gredy")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "overlaps are all, every, greedy, best; got gredy. Did you mean greedy?"
    )


def test_order_of_alternatives_says_nothing() -> None:
    one = "(Relu | Relu -> Conv | Relu -> Conv -> Clip)"
    other = "(Relu -> Conv -> Clip | Relu -> Conv | Relu)"
    for rest in ("-> Add", "-> Conv?", "-> *{2}"):
        assert found(f"{one} {rest}", overlaps="every") == found(
            f"{other} {rest}", overlaps="every"
        )


def test_a_node_of_the_chain_makes_an_operand() -> None:
    shallow = graph_of(
        """(%x: f32[4]) -> (%b) {
            %a: f32[4] = Neg(%x)
            %b: f32[4] = Add(%x, %a)
        }"""
    )
    for operands in ("(x, Neg)", "{Neg, x}"):
        assert found(f"Neg -> Add{operands}", shallow) == ["ab"]


def test_rounds_that_find_the_same_again_are_not_further_matches() -> None:
    every = query(RESIDUAL, "(const value){1,2}", overlaps="every")
    assert [set(each.lists["value"]) for each in every] == [{"w"}, {"k"}]


def test_nodes_know_their_sources() -> None:
    node: Node = query(RESIDUAL, "c: Conv[#0.input]")[0].node("c")
    assert node.name == "a"
