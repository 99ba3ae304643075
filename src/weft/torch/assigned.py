# pyright: basic
"""What forwards assign to attributes of their modules while they are exported."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.errors import UserError
from weft.records import dataclass
from weft.torch.recording import Recorded
from weft.torch.watch import exact


def exported_alike(module: torch.nn.Module, export: Callable[[], Any]) -> Any:
    """Exports a module whose next call would give the same program.

    Compiled code has the numbers of the example for good, so it must not depend on numbers that
    the forward changes, such as counters.  It is exported once more with the changed numbers, and
    must compute the same; a number that matters in later calls only is not seen.

    Args:
        module: whose forward is exported.
        export: calls ``torch.export`` or ``record``, which undo what the forward assigns to
            attributes.

    Returns:
        What ``export`` gives; ``None`` where it gave that once.

    Raises:
        UserError: the next call would compute something else.
    """

    def once() -> tuple[Any, list[_Number]]:
        with _same_containers(module), _assigned_numbers(module) as assigned:
            made = export()
        return made, assigned

    exported, assigned = once()
    if assigned and exported is not None:
        with _set(assigned):
            again, _ = once()
        if again is None:
            return None
        if not _equal_programs(exported, again):
            raise UserError(
                f"the forward of {type(module).__name__} computes with attributes that it changes",
                got=", ".join(each.path for each in assigned),
                fix="Make them buffers, which compiled code reads and writes.",
            )
    return exported


@dataclass(frozen=True)
class _Number:
    """A number that is an attribute of a module inside of another one."""

    path: str
    owner: torch.nn.Module
    value: Any

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


@contextmanager
def _assigned_numbers(module: torch.nn.Module) -> Iterator[list[_Number]]:
    """Finds numbers among a module's attributes that its forward changes, with their new values."""
    found: list[_Number] = []
    before = _numbers(module)

    def compare(*_: object) -> None:
        for path, now in _numbers(module).items():
            if path in before and exact(now.value) != exact(before[path].value):
                found.append(now)

    hook = module.register_forward_hook(compare)
    try:
        yield found
    finally:
        hook.remove()


def _numbers(module: torch.nn.Module) -> dict[str, _Number]:
    """By path, the numbers among the attributes of a module and its submodules."""
    numbers = (
        _Number(f"{path}.{name}".lstrip("."), each, value)
        for path, each in module.named_modules()
        for name, value in vars(each).items()
        if isinstance(value, int | float)
    )
    return {each.path: each for each in numbers}


@contextmanager
def _set(numbers: Sequence[_Number]) -> Iterator[None]:
    """Gives attributes other numbers for a while."""
    before = [vars(each.owner)[each.name] for each in numbers]
    try:
        for each in numbers:
            vars(each.owner)[each.name] = each.value
        yield
    finally:
        for each, value in zip(numbers, before, strict=True):
            vars(each.owner)[each.name] = value


def _equal_programs(one: Any, other: Any) -> bool:
    """Whether two exports or recordings of a module compute the same, number by number."""
    constants = [_constants(one), _constants(other)]
    return (
        _text(one) == _text(other)
        and len(constants[0]) == len(constants[1])
        and all(
            first.dtype == second.dtype and torch.equal(first, second)
            for first, second in zip(*constants, strict=True)
        )
    )


def _text(found: Any) -> Any:
    if isinstance(found, Recorded):
        return [
            (each.name, each.target, str(each.args), str(each.kwargs)) for each in found.graph.nodes
        ]
    return found.graph_module.code


def _constants(found: Any) -> list[torch.Tensor]:
    if isinstance(found, Recorded):
        return [each.value for each in found.placeholders if each.kind == "constant"]
    return [each for each in found.constants.values() if isinstance(each, torch.Tensor)]


@contextmanager
def _same_containers(module: torch.nn.Module) -> Iterator[None]:
    """Gives attributes back the lists, tuples and dicts that they are.

    ``torch.export`` puts copies in their place, which other code that was compiled for the module
    would have to take for others.
    """
    before = [(vars(each), dict(vars(each))) for each in module.modules()]
    try:
        yield
    finally:
        for space, known in before:
            for name, value in known.items():
                if space.get(name, value) is not value and _alike(space[name], value):
                    space[name] = value


def _alike(one: Any, other: Any) -> bool:
    """Whether two containers hold the same objects in the same way."""
    (leaves, spec), (others, known) = pytree.tree_flatten(one), pytree.tree_flatten(other)
    return spec == known and all(map(operator.is_, leaves, others))
