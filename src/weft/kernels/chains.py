"""Which groups in a row run depth first, and in bands of how many rows."""

from __future__ import annotations

from collections.abc import Mapping

from weft.ir.types import TensorType
from weft.plan.chain import Fuse, Fused
from weft.plan.group import Group
from weft.plan.strides import View
from weft.targets.target import Target


def fuser(target: Target, *, threads: int = 1, exact: bool = False) -> Fuse:
    """What fuses chains for a target."""

    def fuse(
        groups: tuple[Group, ...],
        views: Mapping[str, View],
        types: Mapping[str, TensorType],
        constants: frozenset[str],
    ) -> tuple[Fused, ...]:
        return ()

    return fuse
