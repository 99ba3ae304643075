"""From a plan to a program: shared functions, addresses, comments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.dtypes import DType
from weft.errors import InternalError
from weft.ir.graph import Node
from weft.ir.types import TensorType
from weft.loops.nodes import Access, Buffer, Const, Expr, For, Kernel, Load, Stmt, Store, Var
from weft.loops.walk import map_expr, map_stmts
from weft.ops.control import ScanAttributes, scan_length
from weft.ops.evaluate import call_of
from weft.plan.group import Group
from weft.plan.plan import ALIGNMENT, Plan, PlannedStep
from weft.plan.program import (
    Address,
    Advance,
    CallStep,
    ExternFunction,
    Function,
    Parameter,
    Port,
    Program,
    Region,
    Repeat,
    Step,
)


def in_place(kernel: Kernel, parameter: str) -> Kernel:
    """The kernel with a read parameter merged into the output ``out``.

    Both walk the same memory point by point, maybe with their dimensions in another order.
    """
    source = next(buffer for buffer in kernel.params if buffer.name == parameter)
    output = kernel.params[-1]
    wanted = sorted(range(len(output.shape)), key=lambda axis: -output.steps[axis])
    have = sorted(range(len(source.shape)), key=lambda axis: -source.steps[axis])
    same = [(output.shape[a], output.steps[a]) for a in wanted] == [
        (source.shape[a], source.steps[a]) for a in have
    ]
    if not same:
        raise InternalError(f"{kernel.name} cannot run in place of {parameter}")
    place = dict(zip(wanted, have, strict=True))

    def reread(node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer == parameter:
            index = tuple(node.index[place[axis]] for axis in range(len(output.shape)))
            return Load(output.name, index, node.dtype)
        return node

    body = map_stmts(kernel.body, lambda expr: map_expr(expr, reread))
    params = tuple(buffer for buffer in kernel.params if buffer.name != parameter)
    return replace(kernel, params=params, body=body)


def identifier(text: str) -> str:
    """The nearest C identifier."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_") or "net"
    return f"n{name}" if name[0].isdigit() else name


@dataclass
class _Lowering:
    """Collects functions and weights over a plan and the plans nested in it."""

    functions: dict[object, Function] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    comments: dict[str, list[str]] = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    weight_names: dict[object, str] = field(default_factory=dict)
    arrays: list[np.ndarray] = field(default_factory=list)
    loops: int = 0

    def unique(self, wish: str) -> str:
        name, count = wish, 1
        while name in self.names:
            count += 1
            name = f"{wish}_{count}"
        self.names.add(name)
        return name

    def function(self, function: Function, what: str) -> str:
        """The name of a function equal to this one but for its name."""
        key = replace(function, name="")
        found = self.functions.get(key)
        if found is None:
            found = replace(function, name=self.unique(function.name))
            self.functions[key] = found
            self.comments[found.name] = []
        if what not in self.comments[found.name]:
            self.comments[found.name].append(what)
        return found.name

    def weight(self, value: str, array: np.ndarray, packing: object) -> str:
        """The name of a weight, equal ones shared."""
        key = (id(array), packing)
        found = self.weight_names.get(key)
        if found is None:
            found = self.unique(identifier(value))
            self.weight_names[key] = found
            self.arrays.append(array)  # its identity is a key, so it must stay alive
            apply = getattr(packing, "apply", None)
            self.weights[found] = np.ascontiguousarray(array) if apply is None else apply(array)
        return found


@dataclass(frozen=True)
class _Scope:
    """A plan in its surroundings: where its ports, its arena and its scratch lie."""

    plan: Plan
    lowering: _Lowering
    ports: Mapping[str, Address]
    arena: int
    advances: tuple[Advance, ...] = ()

    def steps(self) -> tuple[Step, ...]:
        found: list[Step] = []
        for place, step in enumerate(self.plan.steps):
            if isinstance(step.work, Group):
                found.append(self.kernel_step(step, step.work))
            elif step.nested is not None:
                found.extend(self.scan_steps(place, step))
            else:
                found.append(self.extern_step(place, step))
        return tuple(found)

    # --- addresses --------------------------------------------------------------------

    def address(self, value: str) -> Address:
        """Where a value begins."""
        view = self.plan.views[value]
        root = self.plan.roots[view.root]
        offset = view.offset * self.plan.types[value].dtype.bytes
        match root.region:
            case Region.ARENA:
                return Address(Region.ARENA, "", self.arena + self.plan.offsets[root.value] + offset)
            case Region.WEIGHTS:
                array = self.plan.graph.constants[root.value]
                return Address(
                    Region.WEIGHTS, self.lowering.weight(root.value, array, None), offset
                )
            case _:
                port = self.ports[root.value]
                return replace(port, offset=port.offset + offset)

    def scratch(self, place: int) -> int:
        """Arena offset of a step's scratch memory."""
        return self.arena + self.plan.scratch.get(place, 0)

    # --- steps ------------------------------------------------------------------------

    def kernel_step(self, step: PlannedStep, group: Group) -> CallStep:
        made = step.implementation
        if made is None:
            raise InternalError(f"group {group.value} has no implementation")
        kernel, operands = made.kernel, list(made.operands)
        if step.in_place:
            merged = next(
                place
                for place, operand in enumerate(operands)
                if self.plan.views[operand.value].root == step.in_place
            )
            kernel = in_place(kernel, kernel.params[merged].name)
            del operands[merged]
        what = describe(group, self.plan.types)
        name = self.lowering.function(kernel, what)
        arguments = [
            self.address(operand.value)
            if operand.packing is None
            else Address(
                Region.WEIGHTS,
                self.lowering.weight(
                    operand.value, self.plan.graph.constants[operand.value], operand.packing
                ),
            )
            for operand in operands
        ]
        return CallStep(name, (*arguments, self.address(group.value)), provenance(group))

    def extern_step(self, place: int, step: PlannedStep) -> CallStep:
        node = step.work.node if not isinstance(step.work, Group) else step.work.nodes[0]
        if step.body is None:
            raise InternalError(f"{node.name} has no body")
        parameters: list[Parameter] = []
        arguments: list[Address] = []
        for values, prefix, writes in ((node.inputs, "in", False), (node.outputs, "out", True)):
            for number, value in enumerate(values):
                if value:
                    dtype = self.plan.types[value].dtype
                    parameters.append(Parameter(f"{prefix}{number}", dtype, writes))
                    arguments.append(self.address(value))
        if step.body.scratch_bytes:
            parameters.append(Parameter("scratch", DType.U8, True))
            arguments.append(Address(Region.ARENA, "", self.scratch(place)))
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.op).lower()
        function = ExternFunction(name, tuple(parameters), step.body.body)
        what = f"{node.op} {', '.join(str(self.plan.types[v]) for v in node.inputs if v)}"
        return CallStep(
            self.lowering.function(function, what), tuple(arguments), (f"{node.op} {node.name}",)
        )

    def scan_steps(self, place: int, step: PlannedStep) -> list[Step]:
        """A loop over the body's steps, the states carried in scratch memory."""
        if isinstance(step.work, Group) or step.nested is None:
            raise InternalError("a scan step without a body")
        node, body = step.work.node, step.nested
        scan = _Scan.of(node, body, self.plan.types)
        self.lowering.loops += 1
        var = f"t{self.lowering.loops}"
        base = self.scratch(place)
        free = base + body.arena_bytes
        ports: dict[str, Address] = {}
        found: list[Step] = []
        after: list[Step] = []
        for number, (inner, next_inner) in enumerate(
            zip(scan.state_inputs, scan.state_outputs, strict=True)
        ):
            type = body.types[inner]
            final = node.outputs[number] if number < len(node.outputs) else ""
            if final:
                state = self.address(final)
            else:
                state = Address(Region.ARENA, "", free)
                free += _aligned(type.bytes)
            following = Address(Region.ARENA, "", free)
            free += _aligned(type.bytes)
            ports[inner], ports[next_inner] = state, following
            copy = self.lowering.function(copy_kernel(type), f"copies {type}")
            found.append(CallStep(copy, (self.address(node.inputs[number]), state)))
            after.append(CallStep(copy, (following, state)))
        for inner, outer, reverse in scan.slices:
            ports[inner] = self.slice(var, outer, scan.count, body.types[inner], reverse)
        for inner, outer in scan.invariants:
            ports[inner] = self.address(outer)
        for inner, outer, reverse in scan.stacked:
            if outer:
                ports[inner] = self.slice(var, outer, scan.count, body.types[inner], reverse)
            else:
                ports[inner] = Address(Region.ARENA, "", free)
                free += _aligned(body.types[inner].bytes)
        inside = _Scope(body, self.lowering, ports, base)
        comment = (f"{node.op} {node.name}: {scan.count} iterations",)
        found.append(Repeat(var, scan.count, (*inside.steps(), *after), comment))
        return found

    def slice(
        self, var: str, value: str, count: int, type: TensorType, reverse: bool
    ) -> Address:
        """One iteration's part of a value that is scanned over."""
        base = self.address(value)
        size = type.bytes
        offset = base.offset + ((count - 1) * size if reverse else 0)
        advance = Advance(var, -size if reverse else size)
        return replace(base, offset=offset, advances=(*base.advances, advance))


@dataclass(frozen=True)
class _Scan:
    """The operands of a scan, paired with the inputs and outputs of its body."""

    count: int
    state_inputs: tuple[str, ...]
    state_outputs: tuple[str, ...]
    slices: tuple[tuple[str, str, bool], ...]
    invariants: tuple[tuple[str, str], ...]
    stacked: tuple[tuple[str, str, bool], ...]

    @staticmethod
    def of(node: Node, body: Plan, types: Mapping[str, TensorType]) -> _Scan:
        a: ScanAttributes = node.attributes
        states, end = a.num_states, a.num_states + a.num_scan_inputs
        inner, made = body.graph.inputs, body.graph.outputs
        outer = (*node.outputs, *([""] * (len(made) - len(node.outputs))))
        return _Scan(
            scan_length(call_of(node, types)),
            inner[:states],
            made[:states],
            tuple(
                (name, value, bool(direction))
                for name, value, direction in zip(
                    inner[states:end], node.inputs[states:end], a.input_directions, strict=True
                )
            ),
            tuple(zip(inner[end:], node.inputs[end:], strict=True)),
            tuple(
                (name, value, bool(direction))
                for name, value, direction in zip(
                    made[states:], outer[states:], a.output_directions, strict=True
                )
            ),
        )


def _aligned(bytes: int) -> int:
    return -(-bytes // ALIGNMENT) * ALIGNMENT


def copy_kernel(type: TensorType) -> Kernel:
    """Copies a packed tensor."""
    buffers = (
        Buffer("in0", type.dtype, (type.size,)),
        Buffer("out", type.dtype, (type.size,), Access.WRITE),
    )
    store: Stmt = Store("out", (Var("i"),), Load("in0", (Var("i"),), type.dtype))
    loop = For("i", Const(0, DType.I64), Const(type.size, DType.I64), (store,))
    return Kernel("copy", buffers, (loop,))


def describe(group: Group, types: Mapping[str, TensorType]) -> str:
    """Ops and shapes of a group, for comments."""
    ops = " + ".join(node.op for node in group.nodes)
    reads = ", ".join(str(types[value]) for value in group.reads)
    return f"{ops}: {reads} -> {group.type}"


def provenance(group: Group) -> tuple[str, ...]:
    """Where a group comes from: source nodes and the rules that made it."""
    sources: dict[str, None] = {}
    rules: dict[str, None] = {}
    for node in group.nodes:
        sources.update(dict.fromkeys(node.origin.sources or (node.name,)))
        rules.update(dict.fromkeys(node.origin.rules))
    lines = [f"from {', '.join(sources)}"]
    if rules:
        lines.append(f"by {', '.join(rules)}")
    return tuple(lines)


def lower(plan: Plan, name: str = "") -> Program:
    """The program of a plan."""
    lowering = _Lowering()
    graph = plan.graph
    ports = {value: Address(Region.INPUT, value) for value in graph.inputs}
    ports |= {value: Address(Region.OUTPUT, value) for value in graph.outputs}
    steps = _Scope(plan, lowering, ports, 0).steps()
    return Program(
        name=identifier(name or graph.name),
        inputs=_ports(graph.inputs, plan.types),
        outputs=_ports(graph.outputs, plan.types),
        functions=tuple(lowering.functions.values()),
        steps=steps,
        weights=lowering.weights,
        arena_bytes=plan.arena_bytes,
        alignment=ALIGNMENT,
        function_comments=tuple((name, tuple(what)) for name, what in lowering.comments.items()),
    )


def _ports(values: Sequence[str], types: Mapping[str, TensorType]) -> tuple[Port, ...]:
    return tuple(Port(value, types[value].dtype, types[value].dims) for value in values)
