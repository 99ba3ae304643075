"""Calls of kernels while a plan becomes a program."""

from __future__ import annotations

from collections.abc import Mapping

from weft.loops.nodes import Kernel
from weft.plan.called import renamed
from weft.plan.joined import joined
from weft.plan.program import Address, Region
from weft.records import dataclass


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel in the making.

    Attributes:
        kernel: what is called.
        place: of the plan's step that it stands for, or the first one of them.
        read: arguments for what it reads; written: for its outputs.
        weights: its parameters that are constants.
        what: it computes; layer: for which layer; comments: on the call.
        names: for its parameters.
    """

    kernel: Kernel
    place: int
    read: tuple[Address, ...]
    written: tuple[Address, ...]
    weights: frozenset[str]
    what: str
    layer: str
    comments: tuple[str, ...]
    names: Mapping[str, str]


def block_by_block(first: KernelCall, second: KernelCall) -> KernelCall | None:
    """Both calls as one of a kernel that goes through the blocks of both; see ``joined``."""
    one, other = (renamed(each.kernel, each.names) for each in (first, second))
    (made,) = first.written
    if second.read.count(made) != 1:
        return None
    kernel = joined(one, other, other.params[second.read.index(made)].name)
    if kernel is None:
        return None
    read = (*first.read, *(each for each in second.read if each != made))
    weights = frozenset(
        param.name
        for param, address in zip(kernel.params, read, strict=False)
        if address.region in (Region.WEIGHTS, Region.PREPARED, Region.HELD)
    )
    return KernelCall(
        kernel,
        first.place,
        read,
        (made, *second.written),
        weights,
        f"{first.what}; then {second.what}",
        first.layer,
        tuple(dict.fromkeys((*first.comments, *second.comments))),
        {},
    )
