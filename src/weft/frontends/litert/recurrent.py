"""Recurrent layers without gates, whose states are variables of the file."""

from __future__ import annotations

from weft.frontends.emit import Tensor
from weft.frontends.litert.hybrid import Dense, dense
from weft.frontends.litert.record import Emit, litert

MOST_STEPS = 256


@litert("SVDF")
def svdf(
    g: Emit,
    x: Tensor,
    features: Tensor,
    times: Tensor,
    b: Tensor | None,
    state: Tensor,
    *,
    rank: int,
    fused_activation_function: int,
    asymmetric_quantize_inputs: bool = False,
) -> Tensor:
    g.require_rank(x, 2)
    g.require_rank(times, 2)
    filters, memory = times.shape
    if rank < 1 or filters % rank or state.type.size != x.shape[0] * filters * memory:
        g.refuse(f"a rank of {rank} does not fit {times.type}")
    found = dense(g, x, features, 1, asymmetric_quantize_inputs)(x)
    batch = x.shape[0]
    before = g.reshape(state, (batch, filters, memory))
    newest = g.reshape(found, (batch, filters, 1))
    after = g("Concat", g.slice(before, 2, 1, memory), newest, axis=2)
    g.assign(4, g.reshape(after, state.shape))
    sums = g("ReduceSum", g("Mul", after, times), axes=(2,), keepdims=0)
    if rank > 1:
        parts = g.reshape(sums, (batch, filters // rank, rank))
        sums = g("ReduceSum", parts, axes=(2,), keepdims=0)
    if b is not None:
        sums = g("Add", sums, b)
    return g.activated(sums, fused_activation_function)


def _step(g: Emit, parts: list[tuple[Tensor, Dense]], b: Tensor, activation: int) -> Tensor:
    """A bias, and what each input adds by its weights."""
    for x, weights in parts:
        b = g("Add", b, weights(x))
    return g.activated(b, activation)


@litert("RNN")
def rnn(
    g: Emit,
    x: Tensor,
    w: Tensor,
    recurrent: Tensor,
    b: Tensor,
    hidden: Tensor,
    *,
    fused_activation_function: int,
    asymmetric_quantize_inputs: bool = False,
) -> Tensor:
    own = dense(g, x, w, 1, asymmetric_quantize_inputs)
    again = dense(g, x, recurrent, 2, asymmetric_quantize_inputs)
    made = _step(g, [(x, own), (hidden, again)], b, fused_activation_function)
    g.assign(4, made)
    return made


def steps_of(g: Emit, x: Tensor, axis: int) -> list[Tensor]:
    """The rows of every step, in order."""
    g.require_rank(x, 3)
    if not 1 <= x.shape[axis] <= MOST_STEPS:
        g.refuse(f"1 to {MOST_STEPS} steps are supported, not {x.shape[axis]}")
    rest = tuple(size for at, size in enumerate(x.shape) if at != axis)
    return [g.reshape(g.slice(x, axis, at, at + 1), rest) for at in range(x.shape[axis])]


def joined_steps(g: Emit, rows: list[Tensor], axis: int) -> Tensor:
    """The rows of every step as one tensor."""
    return g("Concat", *(_with_step(g, each, axis) for each in rows), axis=axis)


def _with_step(g: Emit, row: Tensor, axis: int) -> Tensor:
    return g.reshape(row, (*row.shape[:axis], 1, *row.shape[axis:]))


@litert("UNIDIRECTIONAL_SEQUENCE_RNN")
def unidirectional_sequence_rnn(
    g: Emit,
    x: Tensor,
    w: Tensor,
    recurrent: Tensor,
    b: Tensor,
    hidden: Tensor,
    *,
    time_major: bool = False,
    fused_activation_function: int,
    asymmetric_quantize_inputs: bool = False,
) -> Tensor:
    axis = 0 if time_major else 1
    own = dense(g, x, w, 1, asymmetric_quantize_inputs)
    again = dense(g, x, recurrent, 2, asymmetric_quantize_inputs)
    rows: list[Tensor] = []
    for row in steps_of(g, x, axis):
        hidden = _step(g, [(row, own), (hidden, again)], b, fused_activation_function)
        rows.append(hidden)
    g.assign(4, hidden)
    return joined_steps(g, rows, axis)


@litert("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_sequence_rnn(
    g: Emit,
    x: Tensor,
    *rest: Tensor | None,
    time_major: bool = False,
    fused_activation_function: int,
    merge_outputs: bool = False,
    asymmetric_quantize_inputs: bool = False,
) -> list[Tensor]:
    if len(rest) != 11 or any(each is None for each in rest[:8]):
        g.refuse("it must have 12 inputs, with weights and states")
    axis, extra = 0 if time_major else 1, rest[8]
    crossed = extra is not None and rest[9] is None
    if crossed and not time_major:
        g.refuse("an input of its own for the direction backwards needs time_major")
    made: list[Tensor] = []
    for first, own_extra, backwards in ((1, 10, False), (5, 11, True)):
        source = extra if crossed and backwards and extra is not None else x
        rows = steps_of(g, source, axis)
        others = steps_of(g, extra, axis) if extra is not None and not crossed else []

        def weights(place: int) -> Dense:
            found = rest[place - 1]
            assert found is not None
            return dense(g, x, found, place, asymmetric_quantize_inputs)

        own, again, bias, hidden = (
            weights(first),
            weights(first + 1),
            rest[first + 1],
            rest[first + 2],
        )
        assert bias is not None
        assert hidden is not None
        aside = weights(own_extra) if others else None
        outputs: dict[int, Tensor] = {}
        for at in reversed(range(len(rows))) if backwards else range(len(rows)):
            parts = [(rows[at], own)]
            parts += [(others[at], aside)] if aside is not None else []
            hidden = _step(g, [*parts, (hidden, again)], bias, fused_activation_function)
            outputs[at] = hidden
        g.assign(first + 3, hidden)
        made.append(joined_steps(g, [outputs[at] for at in range(len(rows))], axis))
    return [g("Concat", *made, axis=2)] if merge_outputs else made
