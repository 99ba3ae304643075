# pyright: basic
"""How long a module takes, by estimates alone: compiled, and as PyTorch runs it.

Compiled code takes what its plan estimates: for each step the cycles of its kernel, or, if that
is longer, what memory takes to bring its operands.  A cycle lasts so long that the multiply-adds
that the machine record promises are those that the machine was measured to do.

PyTorch runs op by op.  Each takes a fixed time to be called, and then, whatever is longer, its
multiply-adds at the rate of PyTorch's convolutions or matrix products, or its bytes at the rate
of PyTorch's elementwise ops, or of the level of memory that holds them all if that is less.
Rates and calls are measured once in a process, on layers of one size.  Views move nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import fx, nn
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from weft.dtypes import DType
from weft.kernels.explain import ExplainedLayer
from weft.ops.table import OPS
from weft.plan.plan import Plan, PlannedStep
from weft.plan.stats import stats
from weft.plan.traffic import traffic
from weft.plan.work import work_of
from weft.records import dataclass
from weft.runtime.limits import Limits, limits
from weft.targets.target import Target
from weft.torch.aliases import is_view

_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Prediction:
    """Estimated microseconds of one call.

    Attributes:
        weft: by compiled code, with the ops that PyTorch runs between its parts.
        eager: by PyTorch, contiguous.
    """

    weft: float
    eager: float

    @property
    def gain(self) -> float:
        """How many times as fast compiled code is."""
        return self.eager / self.weft


def predict(
    graph: fx.Graph,
    parts: Sequence[tuple[Plan, Sequence[ExplainedLayer]]],
    foreign: Iterable[fx.Node],
) -> Prediction:
    """What a module takes on this machine, with as many threads as its plans have.

    Args:
        graph: of ATen ops with all sizes known.
        parts: the plans of what is compiled, at least one, and their layers.
        foreign: the ops that PyTorch runs between them.
    """
    plan, _ = parts[0]
    roofs = limits(_machine(plan), plan.threads)
    compiled = sum(_of_plan(plan, layers, roofs) for plan, layers in parts)
    between = _by_pytorch(foreign, roofs)
    return Prediction(compiled + between, _by_pytorch(graph.nodes, roofs))


def _machine(plan: Plan) -> Target:
    assert plan.target is not None
    return plan.target


# --- compiled code --------------------------------------------------------------------------


def _of_plan(plan: Plan, layers: Sequence[ExplainedLayer], roofs: Limits) -> float:
    """Microseconds of all steps."""
    machine = _machine(plan)
    flops_per_cycle = 2 * machine.multiply_adds * machine.lanes(DType.F32)
    # The estimates are for one core, the limits for all threads together.
    cycles_per_microsecond = 1000 * roofs.gflops / flops_per_cycle
    chosen = {
        layer.name: each.cycles
        for layer in layers
        for answer in layer.answers
        for each in answer.alternatives
        if each.chosen and each.cycles is not None
    }
    moved = traffic(plan, stats(plan.graph, OPS))
    return sum(
        max(_cycles(step, chosen, machine) / cycles_per_microsecond, roofs.bound(work, 0)[0])
        for step, work in zip(plan.steps, moved, strict=True)
    )


def _cycles(step: PlannedStep, chosen: Mapping[str, float], machine: Target) -> float:
    """Of a step on one core; those of the kernel's loops where nothing was estimated."""
    names = [group.value for group, _ in step.stages] or step.writes
    if all(name in chosen for name in names):
        return sum(chosen[name] for name in names)
    made = step.implementation
    return 0.0 if made is None else work_of(made.kernel, machine.costs)


# --- PyTorch --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rates:
    """What PyTorch does here.

    Attributes:
        convolution: floating-point operations per microsecond of a convolution.
        product: those of a matrix product.
        moved: bytes per microsecond that an elementwise op reads and writes.
        call: microseconds of an op that has nothing to do.
    """

    convolution: float
    product: float
    moved: float
    call: float


@cache
def _rates(threads: int) -> _Rates:
    del threads  # PyTorch's number, which the rates depend on
    image, wide, rows = (
        torch.randn(*each) for each in ((1, 64, 56, 56), (1, 256, 56, 56), (196, 768))
    )
    three, one = nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(256, 64, 1)
    dense, norm, little = nn.Linear(768, 768), nn.BatchNorm2d(64).eval(), torch.ones(1)
    with torch.no_grad():
        operations = 2 * image.numel() * (9 * 64 + 256)
        convolutions = _microseconds(lambda: three(image)) + _microseconds(lambda: one(wide))
        return _Rates(
            operations / convolutions,
            2 * 768 * rows.numel() / _microseconds(lambda: dense(rows)),
            2 * image.nbytes / _microseconds(lambda: norm(image)),
            _microseconds(lambda: torch.relu(little)),
        )


def _microseconds(run: Callable[[], object]) -> float:
    """Of the fastest of many runs."""
    run()
    least, end = float("inf"), time.perf_counter() + _SECONDS
    while (start := time.perf_counter()) < end:
        run()
        least = min(least, time.perf_counter() - start)
    return 1e6 * least


def _by_pytorch(nodes: Iterable[fx.Node], roofs: Limits) -> float:
    """Microseconds of some ops, one after the other."""
    rates = _rates(torch.get_num_threads())
    total = 0.0
    for node in nodes:
        # Checks and sizes give no tensors.
        if isinstance(node.target, torch._ops.OpOverload) and _tensors(node):
            moving = 0.0 if is_view(node) else _moving(node, roofs, rates)
            total += rates.call + max(moving, _computing(node, rates))
    return total


def _computing(node: fx.Node, rates: _Rates) -> float:
    """Microseconds that the multiply-adds of an op take."""
    target: Any = node.target
    counter = FlopCounterMode(display=False)
    try:
        with torch.no_grad(), counter:
            target(*map_arg(node.args, _unreal), **map_arg(node.kwargs, _unreal))
    except Exception:  # noqa: BLE001 (its result depends on data: nothing is known of it)
        return 0.0
    counts = counter.get_flop_counts().get("Global", {})
    return sum(
        flops / (rates.convolution if "convolution" in str(op) else rates.product)
        for op, flops in counts.items()
    )


def _unreal(node: fx.Node) -> Any:
    """What a node gives, without elements."""
    return pytree.tree_map_only(
        torch.Tensor,
        lambda each: torch.empty_strided(
            each.shape, each.stride(), dtype=each.dtype, device="meta"
        ),
        node.meta["val"],
    )


def _moving(node: fx.Node, roofs: Limits, rates: _Rates) -> float:
    """Microseconds that the operands and results of an op take."""
    tensors = [tensor for each in (*node.all_input_nodes, node) for tensor in _tensors(each)]
    # As far as sizes do not depend on data.
    sized = [each for each in tensors if all(isinstance(size, int) for size in each.shape)]
    moved = sum(each.nbytes for each in sized)
    level = next((each for each in roofs.levels if each.bytes >= moved), roofs.levels[-1])
    return moved / min(1000 * level.gbytes, rates.moved)


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    """What a node gives."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return [each for each in leaves if isinstance(each, torch.Tensor)]
