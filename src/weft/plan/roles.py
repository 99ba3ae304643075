"""What the operands of a group are called in generated code: ``image``, ``filter``, ``bias``."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from weft.ir.graph import Node
from weft.loops.nodes import Kernel
from weft.loops.statements import declared_in
from weft.loops.walk import loads
from weft.ops.table import OPS
from weft.plan.attention import attention_of
from weft.plan.fusion import Group
from weft.plan.make import words

_PLAIN = {"x": "input"}
"""Names of parameters that would say nothing."""


def parameter_names(group: Group, kernel: Kernel, values: Sequence[str]) -> dict[str, str]:
    """A telling name for each parameter of a kernel that an operand of its group stands for.

    Args:
        group: what the kernel computes.
        kernel: its loops, whose first parameters stand for the values.
        values: the operands in order; one that is packed in several parts is there for each.
    """
    roles = operand_roles(group)
    kept = {each.name for each in kernel.params[len(values) :]}
    taken = kept | declared_in(kernel.body) - {each.name for each in kernel.params}
    names: dict[str, str] = {}
    for value, parameter in zip(values, kernel.params, strict=False):
        name = _numbered(roles.get(value, "operand"), taken)
        taken.add(name)
        names[parameter.name] = name
    return names


def _numbered(wish: str, taken: Container[str]) -> str:
    """A name that is not taken: ``filter2``, as ``filter_1`` is a register with a part of it."""
    name, count = wish, 2
    while name in taken:
        name, count = f"{wish}{count}", count + 1
    return name


def operand_roles(group: Group) -> Mapping[str, str]:
    """The role of every value that a group reads.

    It is the one that the op gives to its parameter, looked for through whatever moves or
    converts the value before; without any, the op and its parameter are named.
    """
    found = {value: _role(group.nodes, value) for value in group.reads}
    attention = attention_of(group.compute)
    if attention is not None:
        for name in ("queries", "keys", "values"):
            for load in loads(getattr(attention, name)):
                found[load.buffer] = name
    return found


def _role(nodes: Sequence[Node], value: str) -> str:
    """The role of a value among the nodes that follow it."""
    nearest, waiting, seen = "", [value], set[str]()
    while waiting:
        current = waiting.pop(0)
        seen.add(current)
        for node in nodes:
            if current not in node.inputs:
                continue
            role, name = _formal(node, node.inputs.index(current))
            if role:
                return role
            nearest = nearest or name
            if node.inputs[0] == current:
                waiting += [each for each in node.outputs if each and each not in seen]
    return nearest or "operand"


def _formal(node: Node, place: int) -> tuple[str, str]:
    """The role of an op's formal input, and a name for it where it has none."""
    op = OPS.plain(node.op)
    if op is None or not op.inputs:
        return "", "operand"
    param = op.inputs[min(place, len(op.inputs) - 1)]
    if param.role or (len(param.name) > 1 and not param.variadic):
        return param.role, param.name
    if param.name in _PLAIN or (len(op.inputs) == 1 and not param.variadic):
        return "", _PLAIN.get(param.name, param.name)
    return "", f"{words(node.op)}_operand"
