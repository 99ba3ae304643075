"""Plans as text: what is printed parses back, builds to the same bytes, and edits are checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from tests.kernels.winograd.test_pooling import pooled_net
from tests.models import networks
from tests.plan import nets
from tests.plan.test_chain import SMALL, inverted
from tests.turns import a_few, examples, in_turn
from weft.api import Net
from weft.codegen.emit import Files, emit
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.kernels.key import layer_key
from weft.kernels.selection import TaskChoice
from weft.plan.choice import Measured, Reason
from weft.plan.diff import diff
from weft.plan.parse import GRAMMAR, parse
from weft.plan.plan import Plan, written
from weft.plan.text import RESERVED
from weft.plan.to_program import lower

TARGETS = ("generic", "x86-avx512")


def code(plan: Plan) -> Files:
    assert plan.target is not None
    return emit(lower(plan, "net"), plan.target.flavour, "arrays", 1)


def sources(plan: Plan) -> tuple[object, ...]:
    made = code(plan)
    return made.header, made.private, made.sources


def assert_same(net: Net, plan: Plan) -> None:
    """Printing, parsing and printing is the identity; what is built from it the same bytes."""
    text = str(plan)
    parsed = parse(text)
    assert parsed == written(plan)
    assert str(parsed) == text
    again = net.plan_from(text, plan.target)
    assert str(again) == text
    assert sources(again) == sources(plan)


@pytest.mark.parametrize(("threads", "target"), in_turn([(1,), (2,)], TARGETS))
@pytest.mark.parametrize("name", networks.every())
def test_networks(name: str, target: str, threads: int) -> None:
    net = weft.load(networks.path_of(name)).bound()
    assert_same(net, net.plan(target, threads=threads))


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(nets.nets(), st.sampled_from(TARGETS), st.sampled_from([1, 2]))
def test_random_networks(made: tuple[Graph, object], target: str, threads: int) -> None:
    net = Net(made[0])
    assert_same(net, net.plan(target, threads=threads))


def chain() -> Net:
    net = nets.Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 96, 5), 4, 3))
    return Net(net.graph(net.op("Add", x, inverted(net, x))))


@pytest.mark.parametrize("threads", [1, 2])
def test_chains(threads: int) -> None:
    net = chain()
    plan = net.plan(SMALL, threads=threads)
    assert any(step.stages for step in written(plan).body.steps)
    assert_same(net, plan)


def test_plans_for_plain_c_have_no_kernels_for_vector_types() -> None:
    net = nets.Net()
    x = net.op("Relu", net.input(1, 96, 14, 14))
    narrow = net.conv(net.op("Relu", net.conv(x, 24, 1)), 24, 1)
    found = Net(net.graph(narrow))
    vectors, plain = (found.plan("x86-avx512", flavour=each) for each in ("gnu", "c99"))
    schemes = [[step.scheme for step in each.steps] for each in (vectors, plain)]
    assert any("d2" in each for each in schemes[0])
    assert not any("d2" in each for each in schemes[1])
    assert_same(found, plain)


def test_options_are_part_of_the_plan(digits: Path) -> None:
    net = weft.load(digits)
    plan = net.plan("x86-avx2", exact=True, flavour="c99", ram=1 << 20, flash=2 << 20)
    text = str(plan)
    assert '  constraints {exact=true, flavour="c99", ram=1048576, flash=2097152}\n' in text
    assert_same(net, plan)
    plain = net.plan("x86-avx2", plain=True)
    assert {step.kernel for step in written(plain).body.steps} == {"nest"}
    assert_same(net, plain)


def lstm() -> Net:
    x = weft.input("x", "f32[5,1,3]")
    made = weft.ops.lstm(x, *(_weights(shape) for shape in ((1, 16, 3), (1, 16, 4))))
    return weft.net([x], [made[0]])


def _weights(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_loops_over_time_have_plans_of_their_bodies() -> None:
    net = lstm()
    plan = net.plan("x86-avx512")
    assert any(step.body for step in written(plan).body.steps)
    assert_same(net, plan)


def test_measured_choices_and_their_times() -> None:
    net = chain()
    plan = net.plan("x86-avx512")
    choice = next(s.implementation.choice for s in plan.steps if s.implementation)
    assert isinstance(choice, TaskChoice)
    key = layer_key(choice.task)
    measured = Measured({key: choice.name}, {key: {choice.name: 12.5}})
    plan = net.plan("x86-avx512", choices=measured)
    assert plan.constraints.tuned
    assert "kernel " + choice.name + ", measured" in str(plan)
    assert " 12.500 us sums " in str(plan)
    assert_same(net, plan)


def test_words_of_the_grammar_are_quoted() -> None:
    words = set(re.findall(r'"([a-z]+)"', GRAMMAR))
    assert words == RESERVED


# --- edits ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def net(digits: Path) -> Net:
    return weft.load(digits)


@pytest.fixture(scope="module")
def text(net: Net) -> str:
    return str(net.plan("x86-avx512"))


def test_another_kernel(net: Net, text: str) -> None:
    # The first step that has a choice, and an alternative that adds up in another order.
    steps = parse(text).body.steps
    first = next(each for each in steps if each.answers and each.reason is Reason.CHEAPEST)
    offered = [each for answer in first.answers for each in answer.alternatives if each.applies]
    chosen = next(each for each in offered if each.chosen)
    other = next(each.name for each in offered if each.sums != chosen.sums)
    edited = text.replace(f"kernel {first.kernel}, cheapest", f"kernel {other}", 1)
    assert edited != text
    plan = net.plan_from(edited)
    (step,) = [each for each in written(plan).body.steps if each.writes == first.writes]
    assert (step.kernel, step.reason) == (other, Reason.ASKED)
    assert_same(net, plan)
    changes = diff(parse(text), written(plan)).changes
    assert f"{step.writes[0]}: kernel {first.kernel} -> {other}" in changes
    assert str(net.plan_from(plan)) == str(plan)


@pytest.mark.thorough
def test_a_kernel_that_needs_scratch_memory_gets_it() -> None:
    made = nets.Net()
    x = made.op("Relu", made.conv(made.input(1, 16, 24, 24), 32, 3))
    net = Net(made.graph(made.conv(x, 32, 3)))
    text = written(net.plan("x86-avx512"))
    step = text.body.steps[-2]
    kernels = [each.name for answer in step.answers for each in answer.alternatives if each.applies]
    scratch: set[bool] = set()
    for kernel in (kernels[0], kernels[-1]):
        edited = replace(step, kernel=kernel, scratch=0)
        steps = (*text.body.steps[:-2], edited, text.body.steps[-1])
        plan = net.plan_from(replace(text, body=replace(text.body, steps=steps)))
        scratch.add(plan.steps[-2].scratch > 0)
        assert_same(net, plan)
    assert scratch == {False, True}


def test_another_offset(net: Net, text: str) -> None:
    edited = text.replace("arena at 1024, 512 bytes", "arena at 1536, 512 bytes")
    plan = net.plan_from(edited)
    assert sources(plan) != sources(net.plan("x86-avx512"))
    assert_same(net, plan)
    assert diff(parse(text), parse(edited)).changes == (
        "transpose_out: lies arena at 1024 -> arena at 1536",
    )


def test_what_was_in_place_can_be_apart(net: Net, text: str) -> None:
    edited = re.sub(r" +in place of \S+\n", "", text, count=1)
    edited = re.sub(r"(Relu_1_output_0: .* arena at )0", r"\g<1>2048", edited)
    edited = edited.replace("arena 2048 bytes", "arena 3072 bytes")
    plan = net.plan_from(edited)
    assert sources(plan) != sources(net.plan("x86-avx512"))
    assert_same(net, plan)


def test_equal_plans_do_not_differ(text: str) -> None:
    assert not diff(parse(text), parse(text))


def test_other_weights_fit(net: Net, text: str) -> None:
    weights = {name: 2 * array for name, array in net.graph.constants.items() if array.size > 8}
    other = net.with_weights(weights)
    assert sources(other.plan_from(text)) != sources(net.plan_from(text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("weft plan 1", "weft plan 2", "plan: the format must be 1; got 2 (line 1)"),
        (r"@[0-9a-f]{16}", "@0000000000000000", "plan: it must be of this network"),
        ("count=32", "count=16", "got vectors=Vectors{bytes=64, count=16} for"),
        ("target x86-avx512", "target x86-avx513", "unknown target"),
        ("threads 1", "threads 0", "the number of threads must be"),
        ("kernel winograd-f4x1", "kernel winograd-f9x1", "of its alternatives; got winograd-f9x1"),
        ("cheapest", "dearest", "a reason is one of cheapest, measured,"),
        ("arena at 1024, 512", "arena at 512, 512", "must not overlap"),
        ("arena at 1024, 512", "arena at 1028, 512", "multiples of 64; got 1028 (line 19)"),
        ("arena at 1024, 512", "arena at 1048576, 512", "must lie within the arena of 2048 bytes"),
        ("arena at 0, 1024", "arena at 64, 1024", "must lie where it lies"),
        ("arena at 0, 1024", "arena at 0, 1025", "only offsets may be edited"),
        (r"strides \(256, 1, 64, 16\)", "strides (256, 16, 4, 1)", "only offsets may be edited"),
        ("%image: f32", "%imago: f32", "a value must be one of the network; got imago (line 5)"),
        (r" +%image: f32\[1,1,8,8\] input\n", "", "every value must have its place"),
        (r"in place of \S+", "in place of %image", "in place of a value can be what is computed"),
        (r"(?s)steps \{.*\n  \}\n  arena", "steps {}\n  arena", "every step of the network"),
        (r"= Conv \+ MaxPool \+ Relu\(%i", "= Conv(%i", "must be Conv + MaxPool + Relu of image"),
        (r"arena 2048 bytes", "arena 99999999999999999 bytes", "an arena has"),
        ("threads 1", "threads 1 constraints {exact=3}", "the constraint exact has another type"),
        ("threads 1", "threads 1 constraints {swift=true}", "a constraint is one of exact, plain,"),
        ("threads 1", "threads 99999999999999999999", "is expected"),
        ("threads 1", "threads §", "this is no part of one; got §"),
    ],
)  # fmt: skip
def test_refusals(net: Net, text: str, old: str, new: str, message: str) -> None:
    edited = re.sub(old, new, text, count=1)
    assert edited != text
    with pytest.raises(UserError) as error:
        net.plan_from(edited)
    assert message in str(error.value)


def bands() -> Plan:
    return chain().plan(SMALL)


def pooled() -> Plan:
    net, value = pooled_net((1, 16, 12, 12), 24, (2, 2), last=False)
    return Net(net.graph(value)).plan("x86-avx512")


@pytest.mark.parametrize("change", ["op", "inputs"])
@pytest.mark.parametrize("stage", a_few([0, 1], 1))
@pytest.mark.parametrize("made", [bands, pooled])
def test_a_stage_must_do_what_it_does(made: Callable[[], Plan], stage: int, change: str) -> None:
    plan = made()
    text = parse(str(plan))
    (number,) = [place for place, step in enumerate(text.body.steps) if step.stages]
    step = text.body.steps[number]
    old = step.stages[stage]
    does = f"{' + '.join(old.ops)} of {', '.join(old.reads)}"
    if change == "op":
        new = replace(old, ops=("Tanh", *old.ops[1:]))
    else:
        new = replace(old, reads=(text.body.steps[-1].writes[0], *old.reads[1:]))
    stages = tuple(new if each is old else each for each in step.stages)
    steps = [*text.body.steps]
    steps[number] = replace(step, stages=stages)
    edited = str(replace(text, body=replace(text.body, steps=tuple(steps))))
    with pytest.raises(UserError) as error:
        Net(plan.graph).plan_from(edited, plan.target)
    pairs = zip(edited.splitlines(), str(plan).splitlines(), strict=True)
    (line,) = [number for number, (one, other) in enumerate(pairs, 1) if one != other]
    got = f"{' + '.join(new.ops)} of {', '.join(new.reads)}"
    assert str(error.value) == (
        f"plan: the stage that makes {old.writes[0]} must be {does}; got {got} (line {line}). "
        f"Write again what it does: {does}; the kernel may be edited."
    )


def test_a_step_before_what_it_reads(net: Net, text: str) -> None:
    plan = parse(text)
    steps = plan.body.steps
    swapped = replace(plan, body=replace(plan.body, steps=(steps[1], steps[0], *steps[2:])))
    with pytest.raises(UserError) as error:
        net.plan_from(str(swapped))
    assert "must run after what it reads" in str(error.value)
    assert "Move the step" in str(error.value)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(data=st.data())
def test_text_that_is_cut_short_or_damaged_is_refused(
    net: Net, text: str, data: st.DataObject
) -> None:
    end = data.draw(st.integers(0, len(text) - 3))
    with pytest.raises(UserError):
        parse(text[:end])
    junk = data.draw(st.sampled_from(["{", "}", '"', "%", "@", "0", "kernel", "\n", ")", "in"]))
    with suppress(UserError):
        net.plan_from(text[:end] + junk + text[end:])
