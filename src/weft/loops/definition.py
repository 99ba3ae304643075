"""Definitions: what an output is, point by point, before any loop is chosen.

``out[i, j] = max over k of x[i, j + k]`` is a ``Compute`` with axes ``i, j`` whose value
holds a ``Reduce`` over ``k``.  Definitions compose by substitution, which is fusion;
``naive`` turns them into the unscheduled loops that every schedule is checked against.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.loops.nodes import Axis, Expr


@dataclass(frozen=True, slots=True)
class Compute:
    """``buffer[axes] = value`` for every point of the axes' ranges.

    ``value`` reads other buffers through ``Load`` and the axes through ``Var``.
    Its dtype is the output's.
    """

    axes: tuple[Axis, ...]
    value: Expr
