"""From a plan to a program: shared functions, addresses, comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from weft.cached import cached_property
from weft.dtypes import DType
from weft.errors import InternalError, UserError
from weft.ir.graph import Graph, Node
from weft.ir.short_names import names_of
from weft.ir.types import TensorType
from weft.loops.nodes import (
    Access,
    Kernel,
)
from weft.ops.record import ExternBody
from weft.ops.recorded import graph_of
from weft.ops.rounding import SENTENCES, roundings
from weft.plan.called import copy_kernel
from weft.plan.comments import describe, layer_of, op_text, provenance
from weft.plan.fusion import Group
from weft.plan.implementation import Implementation, Operand, Outside
from weft.plan.joined import may_join
from weft.plan.kernel_call import KernelCall, block_by_block
from weft.plan.lazy_weights import LazyWeights
from weft.plan.lowering import Lowering, program_name
from weft.plan.make import function_name, words
from weft.plan.memory import aligned
from weft.plan.mirrored import alternates, mirrored
from weft.plan.plan import ALIGNMENT, Plan, PlannedStep
from weft.plan.program import (
    Address,
    Advance,
    CallStep,
    ExternFunction,
    FormalParameter,
    Port,
    Preparation,
    Program,
    ProgramStep,
    Region,
    Repeat,
    State,
    located,
)
from weft.plan.roles import parameter_names
from weft.plan.scans import Scan, Slice, scan_of
from weft.plan.tensors import Opaque
from weft.records import dataclass
from weft.targets.target import DESKTOP

PlanOf: TypeAlias = Callable[[Graph], Plan]


_ARENA = Address(Region.ARENA, "")


@dataclass
class _Room:
    """Scratch memory that is handed out bit by bit, from a place in the arena."""

    free: Address

    def take(self, type: TensorType) -> Address:
        """Memory for a packed tensor."""
        found = self.free
        self.free = found.moved(aligned(type.bytes, ALIGNMENT))
        return found


@dataclass(frozen=True)
class _Scope:
    """A plan in its surroundings: where its ports, its arena and its scratch lie.

    Inside of a loop, ``mirrored`` lets kernels read their weights from the end.
    """

    plan: Plan
    lowering: Lowering
    ports: Mapping[str, Address]
    arena: Address = _ARENA
    inside: bool = False
    mirrored: bool = False

    def shown(self, name: str) -> str:
        """What a node or a value is called in the C."""
        return self.names.get(name, name)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What nodes are called in comments."""
        return names_of(self.plan.graph)

    def steps(self) -> tuple[ProgramStep, ...]:
        found: list[ProgramStep] = []
        place = 0
        while place < len(self.plan.steps):
            step = self.plan.steps[place]
            match step:
                case PlannedStep(Group() as group, Implementation(outside=Outside() as called)):
                    found.append(self.outside_step(place, group, called))
                case PlannedStep(Group(), Implementation()):
                    made = self.kernel_call(place)
                    if self.inside and may_join(self.plan, place + 1):
                        both = block_by_block(made, self.kernel_call(place + 1))
                        place += both is not None
                        made = both or made
                    found.append(self.kernel_step(made))
                case PlannedStep(Opaque(node), nested=Plan() as body):
                    found.extend(self.scan_steps(place, node, body))
                case PlannedStep(Opaque(node), body=ExternBody() as body):
                    found.append(self.extern_step(place, node, body))
                case _:
                    raise InternalError(f"nothing computes {', '.join(step.writes)}")
            place += 1
        return tuple(found)

    # --- addresses --------------------------------------------------------------------

    def address(self, value: str) -> Address:
        """Where a value begins."""
        view = self.plan.views[value]
        root = self.plan.roots[view.root]
        offset = view.offset * self.plan.types[value].dtype.bytes
        match root.region:
            case Region.ARENA:
                return self.at(self.plan.offsets[root.value] + offset)
            case Region.STATE:
                return Address(Region.STATE, "", self.plan.state_offsets[root.value] + offset)
            case Region.WEIGHTS:
                array = self.plan.graph.constants[root.value]
                return self.lowering.weight(self.shown(root.value), array, None).moved(offset)
            case _:
                return self.ports[root.value].moved(offset)

    def at(self, offset: int) -> Address:
        """A place in the arena: in one of its regions, or where a step has it."""
        name, inside = located(self.plan.arenas, offset)
        return replace(self.arena, name=name or self.arena.name).moved(inside)

    def scratch(self, place: int) -> Address:
        """Where a step's scratch memory begins."""
        return self.at(self.plan.scratch.get(place, 0))

    # --- steps ------------------------------------------------------------------------

    def kernel_call(self, place: int) -> KernelCall:
        """What a step calls."""
        step = self.plan.steps[place]
        group, made = step.work, step.implementation
        assert isinstance(group, Group)
        assert made is not None
        kernel, operands, taken = made.kernel, list(made.operands), step.in_place
        if taken:
            roots = [self.plan.views[operand.value].root for operand in operands]
            merged = roots.index(taken)
            kernel = self.lowering.in_place(kernel, kernel.params[merged].name)
            del operands[merged]
        pairs = list(zip(operands, kernel.params, strict=False))
        return KernelCall(
            kernel,
            place,
            tuple(map(self.argument, operands)),
            (self.address(group.value),),
            frozenset(param.name for each, param in pairs if self.is_weight(each)),
            describe(group, self.plan.types),
            layer_of(group, self.names),
            provenance(group, self.names),
            parameter_names(group, kernel, [operand.value for operand in operands]),
        )

    def kernel_step(self, call: KernelCall) -> CallStep:
        kernel = mirrored(call.kernel, call.weights) if self.mirrored else call.kernel
        name = self.lowering.function(kernel, call.what, call.layer, call.names)
        simple, parts = self.lowering.cut(kernel, name, self.plan.threads)
        made = self.plan.steps[call.place].implementation
        scratch = self.scratch_of(call.place, simple, name, made.scratch if made else ())
        return CallStep(name, (*call.read, *scratch, *call.written), call.comments, parts)

    def scratch_of(
        self, place: int, kernel: Kernel, function: str, offsets: Sequence[int]
    ) -> list[Address]:
        """The scratch buffers of a step: what parts do not share is there for each of them."""
        share = self.plan.steps[place].scratch // self.plan.threads
        shared = self.lowering.shared(kernel, function, self.plan.threads)
        names = [each.name for each in kernel.params if each.access is Access.SCRATCH]
        start = self.scratch(place)
        return [
            replace(start.moved(offset), part_bytes=0 if name in shared else share)
            for name, offset in zip(names, offsets, strict=True)
        ]

    def is_weight(self, operand: Operand) -> bool:
        """Whether a kernel reads a constant."""
        return self.plan.roots[self.plan.views[operand.value].root].region is Region.WEIGHTS

    def argument(self, operand: Operand) -> Address:
        """What is passed for an operand of a kernel."""
        if operand.packing is None:
            return self.address(operand.value)
        array = self.plan.graph.constants[operand.value]
        return self.lowering.weight(self.shown(operand.value), array, operand.packing)

    def outside_step(self, place: int, group: Group, called: Outside) -> CallStep:
        """The call of a library for a group."""
        types, body = self.plan.types, called.body
        parameters = [
            FormalParameter(f"in{number}", types[operand.value].dtype, False)
            for number, operand in enumerate(called.operands)
        ]
        arguments = list(map(self.argument, called.operands))
        if body.scratch_bytes:
            parameters.append(FormalParameter("scratch", DType.U8, True))
            arguments.append(self.scratch(place))
        parameters.append(FormalParameter("out", group.type.dtype, True))
        arguments.append(self.address(group.value))
        name = self.lowering.function(
            _extern(function_name(group), parameters, body),
            describe(group, types),
            layer_of(group, self.names),
        )
        return CallStep(name, tuple(arguments), provenance(group, self.names))

    def extern_step(self, place: int, node: Node, body: ExternBody) -> CallStep:
        parameters: list[FormalParameter] = []
        arguments: list[Address] = []
        for values, prefix, writes in ((node.inputs, "in", False), (node.outputs, "out", True)):
            for number, value in enumerate(values):
                if value:
                    dtype = self.plan.types[value].dtype
                    parameters.append(FormalParameter(f"{prefix}{number}", dtype, writes))
                    arguments.append(self.address(value))
        if body.scratch_bytes:
            parameters.append(FormalParameter("scratch", DType.U8, True))
            arguments.append(self.scratch(place))
        function = _extern(words(node.op), parameters, body)
        types = ", ".join(str(self.plan.types[value]) for value in node.inputs if value)
        what = f"{op_text(node)}: {types}"
        layer = self.names[node.name]
        name = self.lowering.function(function, what, layer)
        return CallStep(name, tuple(arguments), (f"{node.op} {layer}",))

    # --- scans ------------------------------------------------------------------------

    def scan_steps(self, place: int, node: Node, body: Plan) -> tuple[ProgramStep, ...]:
        """Copies of the initial states, and a loop over the body's steps.

        Two iterations are one of the loop: states are in two places by turns, so that nothing
        is copied.  Of an odd number, the first iteration comes before the loop.
        """
        scan = scan_of(node, body.graph, self.plan.types)
        var = self.lowering.variable()
        start = self.scratch(place)
        room = _Room(start.moved(body.arena_bytes))
        turns, before = self.states(scan, body, room)
        unread = {
            each.inner: room.take(body.types[each.inner])
            for each in (*scan.read, *scan.written)
            if not each.outer
        }
        invariants = {inner: self.address(outer) for inner, outer in scan.invariants}
        again = bool(scan.states) and body.threads == 1  # an image brings new activations
        alternate = again and alternates(body.weight_bytes, self.lowering.caches)

        def iteration(number: int, first: int) -> tuple[ProgramStep, ...]:
            """The steps of an iteration: of the loop, whose first this is, or alone."""
            ports = {**unread, **invariants, **turns[number % 2]}
            looped = var if number >= first else ""
            for each in (*scan.read, *scan.written):
                if each.outer:
                    ports[each.inner] = self.slice(each, number, scan.count, looped)
            turned = alternate and number % 2 == 1
            return _Scope(body, self.lowering, ports, start, inside=True, mirrored=turned).steps()

        comment = (f"{node.op} {node.name}: {scan.count} iterations",)
        if scan.count < 2:
            once = iteration(0, 0) if scan.count else ()
            return (*before, Repeat(var, scan.count, once, comment))
        odd = scan.count % 2
        if odd:
            before += iteration(0, 1)
        pair = (*iteration(odd, odd), *iteration(odd + 1, odd))
        return (*before, Repeat(var, scan.count // 2, pair, comment))

    def states(
        self, scan: Scan, body: Plan, room: _Room
    ) -> tuple[tuple[dict[str, Address], dict[str, Address]], list[ProgramStep]]:
        """Where states are in even and in odd iterations, and the copies before the first."""
        turns: tuple[dict[str, Address], dict[str, Address]] = {}, {}
        before: list[ProgramStep] = []
        for state in scan.states:
            type = body.types[state.before]
            held = self.address(state.final) if state.final else room.take(type)
            places = [held, room.take(type)]
            if scan.count % 2:
                places.reverse()  # The last iteration writes where the final state belongs.
            for turn, ports in enumerate(turns):
                ports[state.before], ports[state.after] = places[turn], places[1 - turn]
            copy = self.lowering.function(copy_kernel(type), f"copies {type}")
            before.append(CallStep(copy, (self.address(state.initial), places[0])))
        return turns, before

    def slice(self, part: Slice, number: int, count: int, var: str) -> Address:
        """An iteration's part of a value that is scanned over.

        Args:
            part: which value.
            number: of the iteration, or of the first one of those in a loop.
            count: of all iterations.
            var: of the loop, which moves on by two; none for an iteration outside of it.
        """
        base, size = self.address(part.outer), self.plan.types[part.outer].bytes // count
        step = -size if part.backward else size
        first = (count - 1) * size if part.backward else 0
        advances = (*base.advances, *((Advance(var, 2 * step),) if var else ()))
        return replace(base.moved(first + number * step), advances=advances)


def _extern(name: str, parameters: Sequence[FormalParameter], body: ExternBody) -> ExternFunction:
    """A function whose C is given."""
    return ExternFunction(
        name, tuple(parameters), body.body, body.stack_bytes, body.foreign, body.prepare
    )


def lower(
    plan: Plan, name: str = "", prepared: PlanOf | None = None, *, in_place: bool = False
) -> Program:
    """The program of a plan.

    Args:
        plan: what to lower; calls that are worth it are cut for its threads.
        name: of the program, if not the graph's.
        prepared: plans the graph that makes of parameters what the kernels read.
        in_place: whether runs read large parameters where the caller has them, if kernels can.
    """
    target = plan.target
    costs, caches = (target.costs, target.caches) if target else (DESKTOP, ())
    lowering = Lowering(costs, caches, reads_in_place=in_place)
    graph, handed = plan.graph, set(plan.states.values())
    ports = {value: Address(Region.INPUT, value) for value in graph.inputs}
    ports |= {value: Address(Region.OUTPUT, value) for value in graph.outputs}
    name = program_name(name or graph.name)
    steps = _Scope(plan, lowering, ports).steps()
    preparation = _preparation(lowering, name, prepared)
    return Program(
        name=name,
        inputs=_ports([each for each in graph.inputs if each not in plan.states], plan.types),
        outputs=_ports([each for each in graph.outputs if each not in handed], plan.types),
        functions=tuple(lowering.functions),
        steps=steps,
        weights=LazyWeights(lowering.weights),
        arena_bytes=plan.arena_bytes,
        alignment=ALIGNMENT,
        function_comments=tuple(lowering.function_comments()),
        threads=plan.threads,
        states=tuple(
            State(port, plan.states[port.name], plan.state_offsets[port.name])
            for port in _ports(list(plan.states), plan.types)
        ),
        preparation=preparation,
        arenas=plan.arenas,
        notes=tuple(SENTENCES[each] for each in roundings(graph)),
    )


def _preparation(lowering: Lowering, name: str, planned: PlanOf | None) -> Preparation | None:
    """The second program, if there are parameters."""
    if not lowering.prepared and not lowering.held:
        return None
    if planned is None:
        raise UserError(
            "a plan with parameters at run time is compiled or exported",
            got=f"the plan of {name} alone, whose weights nothing prepares",
            fix="Plan it without parameters.",
        )
    plan = planned(graph_of(lowering.prepared, f"{name}_prepare"))
    graph = plan.graph
    ports = {value: Address(Region.INPUT, value) for value in graph.inputs}
    ports |= dict(zip(graph.outputs, lowering.places.values(), strict=True))
    steps = _Scope(plan, lowering, ports).steps()
    held = {port.name: place for port, place in lowering.held.items()}
    parameters = _ports(graph.inputs, plan.types)
    parameters += tuple(port for port in lowering.held if port.name not in ports)
    return Preparation(parameters, lowering.prepared_bytes, steps, plan.arena_bytes, held)


def _ports(values: Sequence[str], types: Mapping[str, TensorType]) -> tuple[Port, ...]:
    return tuple(Port(value, types[value].dtype, types[value].dims) for value in values)
