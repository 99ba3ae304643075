"""What an instruction multiplies whose steps are several neighbours along a reduction."""

from __future__ import annotations

from collections.abc import Mapping

from weft.dtypes import DType
from weft.loops.instruction import Instruction
from weft.loops.nodes import Load
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class PairedFactors:
    """What an instruction multiplies where steps are pairs, or fours
    (``weft.kernels.products.pairs``).

    Attributes:
        axis: of the reduction, of which a step is so many neighbours.
        image: what positions read, at the first of them.
        rows: the instructions by their lanes.
    """

    axis: str
    image: Load
    rows: Mapping[int, Instruction]

    @property
    def depth(self) -> int:
        """Neighbours of a step."""
        return depth_of(self.rows)

    @property
    def positions(self) -> int:
        """Positions whose sums an instruction adds to."""
        return positions_of(self.rows)

    @property
    def lane_bytes(self) -> int:
        """Bytes of weights that a lane takes in a step."""
        return DType.BF16.bytes * self.depth

    @property
    def vectors(self) -> int:
        """Vectors of weights for one of sums."""
        return self.lane_bytes // DType.F32.bytes


def depth_of(rows: Mapping[int, Instruction]) -> int:
    """Neighbours along a reduction that instructions multiply for each sum."""
    return max(row.meaning.params[-1].shape[-1] for row in rows.values())


def positions_of(rows: Mapping[int, Instruction]) -> int:
    """Positions whose sums one of the instructions adds to."""
    return max(len(row.meaning.params) - 2 for row in rows.values())
