"""The engine: names, provenance, history, limits; and the whole pipeline."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.counted import lines_run
from tests.rewrite.checks import (
    assert_same,
    graph_of,
    infer,
    nodes_of,
    outputs_of,
    simplified,
)
from tests.turns import examples
from weft.ir.graph import Graph
from weft.ir.history import HistoryEntry
from weft.ir.verify import verify
from weft.rewrite.engine import rewrite
from weft.rewrite.recipes import PIPELINE, RULES, simplify
from weft.rewrite.rule import Exactness, Rule

NEGATIONS = Rule(
    name="cancel-negations",
    before="n = Neg(x)\ny = Neg(n)",
    after=lambda match, _: match["x"],
    exactness=Exactness.BIT_EXACT,
    doc="Two negations cancel.",
)


def test_to_a_fixed_point_with_names_and_history() -> None:
    graph = graph_of(
        """(%x: f32[2]) -> (%f) {
            %a: f32[2] = Abs(%x)
            %b: f32[2] = Neg(%a)
            %c: f32[2] = Neg(%b)
            %d: f32[2] = Neg(%c)
            %e: f32[2] = Neg(%d)
            %f: f32[2] = Exp(%e)
        }"""
    )
    done, log = rewrite(graph, [NEGATIONS])
    assert nodes_of(done) == ["%a: f32[2] = Abs(%x)", "%f: f32[2] = Exp(%a)"]
    assert done.history == (HistoryEntry("rewrite", "cancel-negations (2)"),)
    assert [str(each) for each in log.fired] == [
        "cancel-negations at c (bit-exact)",
        "cancel-negations at e (bit-exact)",
    ]
    assert log.fired[0].sources == ("b", "c")
    assert log.exactness is Exactness.BIT_EXACT
    again, log = rewrite(done, [NEGATIONS])
    assert again is done
    assert log.fired == ()


def test_what_others_read_stays() -> None:
    graph = graph_of(
        """(%x: f32[2]) -> (%y, %z) {
            %a: f32[2] = Neg(%x)
            %b: f32[2] = Neg(%a)
            %y: f32[2] = Exp(%b)
            %z: f32[2] = Abs(%a)
        }"""
    )
    done, _ = rewrite(graph, [NEGATIONS])
    assert nodes_of(done) == [
        "%a: f32[2] = Neg(%x)",
        "%y: f32[2] = Exp(%x)",
        "%z: f32[2] = Abs(%a)",
    ]


def test_a_graph_output_that_is_an_input_gets_an_identity() -> None:
    graph = graph_of(
        """(%x: f32[2]) -> (%y) {
            %a: f32[2] = Neg(%x)
            %y: f32[2] = Neg(%a)
        }"""
    )
    done, _ = rewrite(graph, [NEGATIONS])
    assert nodes_of(done) == ["%y: f32[2] = Identity(%x)"]


def test_labels_that_are_not_allowed_are_left_out() -> None:
    graph = graph_of(
        """(%x: f32[1,2,4,4]) -> (%y) {
            const %w: f32[2,2,1,1]
            const %k: f32[2,1,1]
            %i: f32[1,2,4,4] = Identity(%x)
            %c: f32[1,2,4,4] = Conv(%i, %w)
            %y: f32[1,2,4,4] = Mul(%c, %k)
        }"""
    )
    done, log = simplify(graph, allow=Exactness.BIT_EXACT)
    assert log.counts() == {"remove-no-op": 1}
    assert_same(graph, done, Exactness.BIT_EXACT)
    assert simplify(graph)[1].exactness is Exactness.REASSOCIATING


def test_the_pipeline_is_visible_and_complete() -> None:
    assert [stage.name for stage in PIPELINE] == ["clean", "form", "fold", "cheapen", "share"]
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.doc.endswith(".") for rule in RULES)


# --- the pipeline on whole nets -------------------------------------------------------------

RESIDUAL = """(%x: f32[N,3,8,8]) -> (%probabilities, %features) {
    const %w1: f32[4,3,3,3]
    const %w2: f32[4,4,3,3]
    const %s: f32[4]
    const %h: f32[4]
    const %m: f32[4]
    const %v: f32[4]
    const %fc: f32[4,5]
    const %bias: f32[5]
    %p: f32[N,3,10,10] = Pad(%x) {pads=(0,0,1,1,0,0,1,1)}
    %c1: f32[N,4,8,8] = Conv(%p, %w1)
    %n1: f32[N,4,8,8] = BatchNormalization(%c1, %s, %h, %m, %v)
    %r1: f32[N,4,8,8] = Clip(%n1) {min=0.0, max=6.0}
    %c2: f32[N,4,8,8] = Conv(%r1, %w2) {pads=(1,1,1,1)}
    %n2: f32[N,4,8,8] = BatchNormalization(%c2, %s, %h, %m, %v)
    %sum: f32[N,4,8,8] = Add(%n2, %r1)
    %r2: f32[N,4,8,8] = Relu(%sum)
    %drop: f32[N,4,8,8] = Dropout(%r2)
    %pool: f32[N,4,4,4] = MaxPool(%drop) {kernel=(2,2), strides=(2,2)}
    %mean: f32[N,4,1,1] = GlobalAveragePool(%pool)
    %flat: f32[N,4] = Flatten(%mean)
    %features: f32[N,4] = Identity(%flat)
    %fc_out: f32[N,5] = MatMul(%features, %fc)
    %logits: f32[N,5] = Add(%fc_out, %bias)
    %probabilities: f32[N,5] = Softmax(%logits)
}"""


def test_a_residual_net() -> None:
    graph, log = simplified(RESIDUAL)
    assert nodes_of(graph) == [
        "%n1: f32[N,4,8,8] = Conv(%x, %w1_1, %bias_1) {pads=(1, 1, 1, 1)}",
        "%r1: f32[N,4,8,8] = Clip(%n1) {min=0.0, max=6.0}",
        "%n2: f32[N,4,8,8] = Conv(%r1, %w2_1, %bias_1) {pads=(1, 1, 1, 1)}",
        "%sum: f32[N,4,8,8] = Add(%n2, %r1)",
        "%maxpool_out: f32[N,4,4,4] = MaxPool(%sum) {kernel=(2, 2), strides=(2, 2)}",
        "%pool: f32[N,4,4,4] = Relu(%maxpool_out)",
        "%mean: f32[N,4,1,1] = GlobalAveragePool(%pool)",
        "%features: f32[N,4] = Flatten(%mean)",
        "%logits: f32[N,5] = Gemm(%features, %fc_1, %bias_3)",
        "%probabilities: f32[N,5] = Softmax(%logits)",
    ]
    assert log.counts() == {
        "remove-no-op": 2,
        "pad-into-conv": 1,
        "fold-batch-norm": 2,
        "relu-past-max-pool": 1,
        "fold-add": 1,
    }


def test_surviving_values_keep_their_meaning() -> None:
    before = graph_of(RESIDUAL)
    after, _ = simplify(before)
    names = [value for node in after.nodes for value in node.outputs]
    shared = tuple(value for value in names if value in before.types)
    whole = [
        Graph(g.name, g.inputs, shared, g.nodes, g.types, g.constants) for g in (before, after)
    ]
    first, second = (outputs_of(graph) for graph in whole)
    assert len(shared) == 9
    for value in shared:
        np.testing.assert_allclose(first[value], second[value], atol=1e-4, rtol=1e-4)


def test_simplifying_twice_changes_nothing() -> None:
    once, _ = simplify(graph_of(RESIDUAL))
    twice, log = simplify(once)
    assert twice is once
    assert log.fired == ()


UNARY = ["Relu", "Neg", "Identity", "Dropout", "Sigmoid", "Abs", "Clip0", "Clip6", "T", "View"]
BINARY = ["Add", "Mul", "Sub", "Max2"]


@st.composite
def elementwise_nets(draw: st.DrawFn) -> str:
    """Small nets of what rules rewrite, with several readers and several outputs."""
    shape = {"x": "2,3"}
    lines = ["const %k: f32[3]", "const %s: f32[] = [2.0]", "const %z: f32[1] = [0.0]"]
    for number in range(draw(st.integers(1, 12))):
        name = f"v{number}"
        value = draw(st.sampled_from(list(shape)))
        op = draw(st.sampled_from(UNARY + BINARY))
        dims = shape[value]
        if op == "T":
            dims = ",".join(reversed(dims.split(",")))
            text = f"Transpose(%{value})"
        elif op == "View":
            text = f"Reshape(%{value}) {{shape=(1,6)}}"
            dims = "1,6"
        elif op == "Clip0":
            text = f"Clip(%{value}) {{min=0.0}}"
        elif op == "Clip6":
            text = f"Clip(%{value}) {{min=-1.0, max=6.0}}"
        elif op in BINARY:
            peers = [other for other, its in shape.items() if its == dims] + ["s", "z"]
            peers += ["k"] * (dims == "2,3")
            pair = [f"%{value}", f"%{draw(st.sampled_from(peers))}"]
            if draw(st.booleans()):
                pair.reverse()
            text = f"{op.replace('2', '')}({', '.join(pair)})"
        else:
            text = f"{op}(%{value})"
        shape[name] = dims
        lines.append(f"%{name}: f32[{dims}] = {text}")
    made = [name for name in shape if name != "x"]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=4, unique=True))
    head = ", ".join(f"%{name}" for name in outputs)
    body = "\n".join(lines)
    return f"(%x: f32[2,3]) -> ({head}) {{\n{body}\n}}"


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(elementwise_nets())
def test_any_net_keeps_its_outputs(text: str) -> None:
    graph = graph_of(text)
    done, log = simplify(graph)
    verify(done, infer)
    assert_same(graph, done, log.exactness)
    again, log = simplify(done)
    assert log.fired == ()
    assert again == done


def test_composites_are_formed_of_what_folding_leaves() -> None:
    graph = graph_of(
        """
        (%x: f32[2,3]) -> (%y) {
          %r: f32[2,3] = Relu(%x)
          %s: f32[2,3] = Sigmoid(%r)
          %c: f32[2,3] = Clip(%x) {min=0.0}
          %y: f32[2,3] = Mul(%s, %c)
        }
        """
    )
    done, log = simplify(graph)
    assert_same(graph, done, log.exactness)
    assert [node.op for node in done.nodes] == ["Relu", "Swish"]


def _deep(length: int) -> Graph:
    lines = ["const %k: f32[4]"]
    value = "x"
    for number in range(length):
        lines.append(f"%i{number}: f32[4] = Identity(%{value})")
        lines.append(f"%s{number}: f32[4] = Sigmoid(%i{number})")
        lines.append(f"%m{number}: f32[4] = Mul(%i{number}, %s{number})")
        value = f"m{number}"
    body = "\n".join(lines)
    return graph_of(f"(%x: f32[4]) -> (%{value}) {{\n{body}\n}}")


def test_the_pipeline_is_linear() -> None:
    def work(length: int) -> int:
        graph = _deep(length)
        assert len(simplify(graph)[0].nodes) == length
        return lines_run(lambda: simplify(graph))

    # Ten times the nodes: a quadratic pass would do a hundred times the work.
    assert work(300) < 11 * work(30)


def test_bodies_are_simplified_too() -> None:
    graph, log = simplified(
        """(%x: f32[3,4], %h: f32[4]) -> (%last, %all) {
            %last: f32[4], %all: f32[3,4] = Scan(%h, %x) {
              num_states=1, num_scan_inputs=1,
              body=graph step(%s: f32[4], %e: f32[4]) -> (%t, %u) {
                const %two: f32[] = [2.0]
                %i: f32[4] = Identity(%e)
                %g: f32[4] = Sigmoid(%i)
                %m: f32[4] = Mul(%i, %g)
                %t: f32[4] = Add(%s, %m)
                %u: f32[4] = Div(%t, %two)
              }
            }  # scan
        }"""
    )
    body = graph.nodes[0].attributes.body
    assert nodes_of(body) == [
        "%m: f32[4] = Swish(%e)",
        "%t: f32[4] = Add(%s, %m)",
        "%u: f32[4] = Mul(%t, %two_1)",
    ]
    assert log.counts() == {"remove-no-op": 1, "form-swish": 1, "divide-by-power-of-two": 1}
