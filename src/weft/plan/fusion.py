"""Fusion groups: which values are computed together in one kernel.

Every group computes one value.  A value whose users are all in one group may join it: its
definition is put in place of its loads.  It joins when that does not repeat much work:

- what only moves elements joins any user but a contraction;
- so does what reads half precision as single precision, and that joins a contraction, too;
- a map (no reduction) joins unless it would be evaluated more often than its cost allows,
  or could ride on a contraction while its user reduces;
- a reduction joins when it is still evaluated once for each of its elements;
- a contraction (a sum of products of two tensors) is the anchor of its group: what follows
  it elementwise rides on its epilogue, and nothing joins its operands but a product with one
  factor for each step of the sum: that is as well multiplied into the weights of a step;
- in bodies of loops, products of vectors and matrices that are put together element by element
  are one group, as those of a recurrent cell's gates;
- but what could ride on another contraction rides on that one, unless a loop repeats both: sums
  of many run as one array, instead of waiting until the last one reads them all;
- but for attention: the softmax of a contraction that weighs another one, and both;
- and for separable transforms, products with small constant matrices along two axes, as of a
  filter for Winograd's convolution: both and all that moves or maps elements before and after
  them are one group, whose kernel computes a window in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from weft.ir.graph import Node
from weft.ir.types import TensorType
from weft.ir.unknown import is_known
from weft.loops.definition import Compute, substitute_load
from weft.loops.nodes import Binary, Expr, Load, Reduce, Select
from weft.loops.python_arithmetic import HALVES
from weft.loops.walk import free_vars, loads, reduces, walk
from weft.ops.shape import VIEWS
from weft.plan.attention import attention_of
from weft.plan.contractions import FEW_TERMS, contraction, is_gated, is_short, separable
from weft.plan.evaluations import is_costly, uses_of
from weft.plan.norms import measured
from weft.plan.tensors import Defined, Item, TensorProgram, is_point, is_widening, moved_from
from weft.records import dataclass

MAX_NODES = 240
"""Distinct expression nodes in one group; more makes unreadable C for no gain."""
MAX_BUFFERS = 16
MANY_SUMS = 16
"""Sums that a factor of each step must be used for to be multiplied into the weights."""


@dataclass(frozen=True)
class Group:
    """One kernel to be.

    Attributes:
        value: what it computes.
        compute: the fused definition; loads name values outside the group.
        type: of the value.
        members: the values it stands for, producers last.
        nodes: their nodes, in graph order.
        stages: the groups of a fused chain (``weft.plan.chain``), in order.
        measured: whether a norm measures what it computes (``weft.plan.norms``).
    """

    value: str
    compute: Compute
    type: TensorType
    members: tuple[str, ...]
    nodes: tuple[Node, ...]
    stages: tuple[Group, ...] = ()
    measured: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """Values that it loads, in order of appearance."""
        return tuple(dict.fromkeys(load.buffer for load in loads(self.compute.value)))


def attends(compute: Compute) -> bool:
    """Whether a definition is attention that is worth a kernel of its own.

    Of one key, or by vectors of one element, nothing is left of what it consists of.
    """
    found = attention_of(compute)
    if found is None:
        return False
    return min(axis.extent for axis in (found.key, found.width, found.column)) > 1


@dataclass
class _Draft:
    compute: Compute
    members: list[str]
    contraction: Reduce | None


class _Grouping:
    def __init__(self, program: TensorProgram, repeated: bool) -> None:
        self.program = program
        self.repeated = repeated
        self.users: dict[str, list[Item]] = {}
        for item in program.items:
            for value in item.reads:
                self.users.setdefault(value, []).append(item)
        self.makers = {item.value: item for item in program.items if isinstance(item, Defined)}
        self.root: dict[str, str] = {}
        self.drafts: dict[str, _Draft] = {}

    def run(self) -> None:
        for item in reversed(self.program.items):
            if isinstance(item, Defined):
                self.place(item)
        for value in list(self.drafts):
            self.attend(value)

    def attend(self, value: str) -> None:
        """Makes attention one group: scores, softmax and the sum that softmax weighs."""
        draft = self.drafts.get(value)
        if draft is None or draft.contraction is None:
            return
        for weights in self.inside(value, draft.contraction):
            soft = self.drafts[weights]
            for scores in self.inside(weights, soft.compute.value):
                product = self.drafts[scores]
                compute = substitute_load(draft.compute, weights, soft.compute)
                compute = substitute_load(compute, scores, product.compute)
                if product.contraction is not None and attends(compute):
                    draft.compute = compute
                    draft.contraction = contraction(compute.value)
                    draft.members += [*soft.members, *product.members]
                    for member in draft.members:
                        self.root[member] = value
                    del self.drafts[weights], self.drafts[scores]
                    return

    def inside(self, value: str, expr: Expr) -> list[str]:
        """The groups whose values an expression of another group is the only one to read."""
        return [
            buffer
            for buffer in dict.fromkeys(load.buffer for load in loads(expr))
            if buffer in self.drafts
            and self.makers[buffer].node.op not in VIEWS
            and buffer not in self.program.graph.outputs
            and all(self.root_of(user) == value for user in self.users[buffer])
        ]

    def root_of(self, item: Item) -> str | None:
        """The group that an item belongs to, if it belongs to one."""
        return self.root[item.value] if isinstance(item, Defined) else None

    def place(self, item: Defined) -> None:
        home = self.home(item)
        if home is not None:
            draft = self.drafts[home]
            if self.may_join(item, draft):
                draft.compute = substitute_load(draft.compute, item.value, item.compute)
                draft.members.append(item.value)
                draft.contraction = contraction(draft.compute.value)
                self.root[item.value] = home
                return
        self.root[item.value] = item.value
        self.drafts[item.value] = _Draft(
            item.compute, [item.value], contraction(item.compute.value)
        )

    def home(self, item: Defined) -> str | None:
        """The one group that uses a value, if it may join any."""
        users = self.users.get(item.value, ())
        if item.value in self.program.graph.outputs or not users:
            return None
        roots: set[str] = set()
        for user in users:
            if not isinstance(user, Defined) or user.node.op in VIEWS:
                return None
            roots.add(self.root[user.value])
        return roots.pop() if len(roots) == 1 and item.node.op not in VIEWS else None

    def may_join(self, item: Defined, draft: _Draft) -> bool:
        uses = list(uses_of(draft.compute, item.value))
        size = self.program.types[item.value].size
        if not uses or not self.small_enough(item, draft):
            return False
        reducing = reduces(item.compute.value)
        if is_widening(item.compute) or self.transforms(item, draft):
            return True
        if draft.contraction is not None:
            inside = any(load.buffer == item.value for load in loads(draft.contraction.value))
            if inside:
                return self.scales(item, draft)
            if self.is_gate(item, uses, draft):
                return True
            apart = self.narrows(item) or not self.repeated
            return not reducing and not (apart and self.rides(item))
        if contraction(item.compute.value) is not None:
            return self.is_epilogue(uses, draft)
        if reducing:
            return self.once_each(uses, draft, size)
        if moved_from(item.compute) is not None:
            return True
        if (self.rides(item) or self.ends(item)) and not self.goes_on(item, uses, draft):
            return False
        places = {(load.index, count) for load, count in uses}
        evaluations = sum(count for _, count in places)
        return evaluations <= (2 if is_costly(item.compute.value) else 4) * max(size, 1)

    def is_gate(self, item: Defined, uses: list[tuple[Load, int]], draft: _Draft) -> bool:
        """Whether the value joins products of vectors and matrices, as those of a cell's gates."""
        constants, axes = self.program.constants, draft.compute.axes
        return (
            self.repeated
            and all(is_point(load, axes) for load, _ in uses)
            and is_gated(item.compute, constants)
            and is_gated(draft.compute, constants)
        )

    def ends(self, item: Defined) -> bool:
        """Whether the value is what a reduction gives, in half precision and nothing else."""
        (read, *others) = item.reads or ("",)
        made = self.makers.get(read)
        if made is None or others or self.program.types[item.value].dtype not in HALVES:
            return False
        return len(self.users[read]) == 1 and reduces(made.compute.value) and self.narrows(item)

    def goes_on(self, item: Defined, uses: list[tuple[Load, int]], draft: _Draft) -> bool:
        """Whether the sums that a value could ride on may be part of the group that reads it."""
        if reduces(draft.compute.value):
            return False
        if not self.narrows(item) or self.is_epilogue(uses, draft):
            return True
        # A transform takes conversions along: it writes its points in any order.
        compute = substitute_load(draft.compute, item.value, item.compute)
        joined = _Draft(compute, draft.members, None)
        makers = [self.makers[each] for each in item.reads if each in self.makers]
        return any(self.transforms(made, joined) for made in makers)

    def transforms(self, item: Defined, draft: _Draft) -> bool:
        """Whether the value is part of a separable transform, whose windows registers hold.

        Vectors run along an axis that the transform leaves alone.
        """
        values = draft.compute.value, item.compute.value
        if not draft.compute.axes or any(isinstance(node, Select) for node in walk(*values)):
            return False
        if separable(draft.compute.value) is not None:
            return not reduces(item.compute.value)
        found = self.small_product(item)
        if found is None:
            return False
        matrix, factor = found
        joint = substitute_load(draft.compute, item.value, item.compute)
        constants = [load for load in loads(joint.value) if load.buffer in self.program.constants]
        if any(draft.compute.axes[-1].var in free_vars(load) for load in constants):
            return False
        if reduces(draft.compute.value):
            outer = separable(joint.value)
            steps = {axis.var for axis in outer.axes} if outer else set[str]()
            # A product with a product of matrices is no transform along another axis.
            along = [free_vars(load) & steps for load in constants if load.buffer == matrix]
            return outer is not None and not any(along)
        inner = self.makers.get(factor)
        alone = len(self.users[factor]) == 1 and factor not in self.program.graph.outputs
        return inner is not None and alone and self.small_product(inner) is not None

    def small_product(self, item: Defined) -> tuple[str, str] | None:
        """The matrix and the other factor, if a value is a product with a small constant one."""
        value = item.compute.value
        if not (isinstance(value, Reduce) and is_short(value)):
            return None
        match value.value:
            case Binary("mul", Load() as lhs, Load() as rhs):
                pass
            case _:
                return None
        for matrix, factor in ((lhs, rhs), (rhs, lhs)):
            array = self.program.constants.get(matrix.buffer)
            if array is not None and is_known(array) and array.size <= FEW_TERMS**2:
                return matrix.buffer, factor.buffer
        return None

    def scales(self, item: Defined, draft: _Draft) -> bool:
        """Whether the value is a product whose factors a contraction finds step by step.

        Every factor then belongs to a step of the sum, not to what the step adds to, and is
        used for many sums.
        """
        reduce = draft.contraction
        match item.compute.value, reduce.value if reduce else None:
            case Binary("mul", Load() as lhs, Load() as rhs), Binary("mul", Load(), Load()):
                pass
            case _:
                return False
        assert reduce is not None
        whole = [load for load in (lhs, rhs) if is_point(load, item.compute.axes)]
        factors = [load for load in (lhs, rhs) if load not in whole]
        operands = [load for load in loads(reduce.value) if load.buffer == item.value]
        others = [load for load in loads(reduce.value) if load.buffer != item.value]
        if len(whole) != 1 or len(factors) != 1 or len(operands) != 1 or len(others) != 1:
            return False
        if others[0].buffer not in self.program.constants:
            return False
        places = {
            axis.var: part
            for axis, part in zip(item.compute.axes, operands[0].index, strict=True)
            if axis.extent > 1
        }
        used = [places[name] for name in free_vars(factors[0]) if name in places]
        steps = {axis.var for axis in reduce.axes}
        size = self.program.types[factors[0].buffer].size
        often = self.program.types[item.value].size >= MANY_SUMS * size
        return often and bool(used) and all(free_vars(part) <= steps for part in used)

    def narrows(self, item: Defined) -> bool:
        """Whether the value takes fewer bytes an element than what it is computed from."""
        types = self.program.types
        read = max(
            (types[each].dtype.bytes for each in item.reads if each in self.makers), default=0
        )
        return types[item.value].dtype.bytes < read

    def rides(self, item: Defined) -> bool:
        """Whether the value could ride on a contraction, point by point."""
        for value in dict.fromkeys(load.buffer for load in loads(item.compute.value)):
            made = self.makers.get(value)
            if made is None or len(self.users[value]) > 1:
                continue
            if not all(
                is_point(load, item.compute.axes)
                for load in loads(item.compute.value)
                if load.buffer == value
            ):
                continue
            if contraction(made.compute.value) is not None:
                return True
            if not reduces(made.compute.value) and self.rides(made):
                return True
        return False

    def small_enough(self, item: Defined, draft: _Draft) -> bool:
        nodes = sum(1 for _ in walk(draft.compute.value)) + sum(1 for _ in walk(item.compute.value))
        buffers = {load.buffer for load in loads(draft.compute.value)}
        buffers |= {load.buffer for load in loads(item.compute.value)}
        return nodes <= MAX_NODES and len(buffers) <= MAX_BUFFERS

    @staticmethod
    def is_epilogue(uses: list[tuple[Load, int]], draft: _Draft) -> bool:
        """Whether every element of the contraction is used at exactly one point."""
        if reduces(draft.compute.value):
            return False
        if any(load.index != uses[0][0].index for load, _ in uses):
            return False
        # A transposition between the two would leave one of them a bad order of memory.
        return is_point(uses[0][0], draft.compute.axes)

    @staticmethod
    def once_each(uses: list[tuple[Load, int]], draft: _Draft, size: int) -> bool:
        """Whether a reduction, hoisted to where its index is known, is not repeated."""
        if any(load.index != uses[0][0].index for load, _ in uses):
            return False
        extents = {axis.var: axis.extent for axis in draft.compute.axes}
        names = frozenset[str]().union(*map(free_vars, uses[0][0].index))
        if not names <= extents.keys():
            return False
        return prod(extents[name] for name in names) <= max(size, 1)


def form(program: TensorProgram, *, repeated: bool = False) -> Mapping[str, Group]:
    """The groups, by the value that they compute.

    Args:
        program: all values.
        repeated: whether it is the body of a loop, whose matrices come from caches.
    """
    grouping = _Grouping(program, repeated)
    grouping.run()
    nodes = {item.value: item.node for item in program.items if isinstance(item, Defined)}
    order = {node.name: place for place, node in enumerate(program.graph.nodes)}
    groups: dict[str, Group] = {}
    norms = measured(program)
    for item in program.items:
        draft = grouping.drafts.get(item.value) if isinstance(item, Defined) else None
        if draft is None or not isinstance(item, Defined):
            continue
        found = {nodes[member].name: nodes[member] for member in draft.members}
        ordered = sorted(found.values(), key=lambda node: order.get(node.name, 0))
        groups[item.value] = Group(
            item.value,
            draft.compute,
            program.types[item.value],
            tuple(draft.members),
            tuple(ordered),
            measured=not norms.isdisjoint(draft.members),
        )
    return groups
