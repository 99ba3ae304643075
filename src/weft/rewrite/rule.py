"""What a rewrite rule is: two graphs and a condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from weft.match.compile import compile_rule
from weft.match.program import Program
from weft.match.view import Match
from weft.ops.build import GraphBuilder


class Exactness(Enum):
    """What a rule may do to the outputs.

    The ops' references say what equal means; NaNs may differ in their bits and zeros in
    their sign under every label.
    """

    BIT_EXACT = "bit-exact"
    """The same numbers."""
    REASSOCIATING = "reassociating"
    """Equal over the real numbers; rounding differs."""
    APPROXIMATE = "approximate"
    """Not equal over the real numbers either."""

    def __le__(self, other: Exactness) -> bool:
        order = list(Exactness)
        return order.index(self) <= order.index(other)


Where: TypeAlias = Callable[[Match], str | None]
After: TypeAlias = Callable[[Match, GraphBuilder], str | tuple[str, ...]]


def always(_: Match) -> None:
    """The condition of a rule that its pattern says all about."""
    return


@dataclass(frozen=True)
class Rule:
    """One way to change a graph without changing what it computes.

    The node that the pattern's root fits is replaced; the others that take part go when
    nothing else reads them.

    Attributes:
        name: as it is said in logs and generated code (``fold-batch-norm-into-conv``).
        before: text of the pattern (see ``docs/query.md``).
        where: a sentence that says why not, for a match that must not be rewritten; an empty
            one where nobody would have expected it to be.
        after: adds nodes to a builder that knows the graph's values, and returns the
            values that stand for the root's outputs; values of the graph are allowed.
        exactness: what it does to the outputs.
        doc: what and why, one or two sentences for the reference pages.
    """

    name: str
    before: str
    after: After
    exactness: Exactness
    doc: str
    where: Where = always

    @cached_property
    def pattern(self) -> Program:
        """The pattern, ready to be matched; it is read when it is first needed."""
        return compile_rule(self.before)

    @property
    def ops(self) -> tuple[str, ...]:
        """Ops at which it is tried; ``*`` stands for any."""
        return self.pattern.ops


@dataclass(frozen=True)
class StageRules:
    """Rules of a plugin, and the stage of the pipeline in which they are applied.

    There they are tried before the rules that Weft has itself, those that clean up apart.

    Attributes:
        stage: its name: ``form``, before anything changes the patterns in which exporters
            write composite ops; ``fold``; ``cheapen``; or ``clean``, for every stage.
        rules: in the order in which they are tried.
    """

    stage: str
    rules: tuple[Rule, ...]
