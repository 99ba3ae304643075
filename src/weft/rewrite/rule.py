"""What a rewrite rule is: two graphs and a condition."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias, cast

from weft.cached import cached_property
from weft.errors import InternalError, UserError, WeftError, fault, is_weft, nearest
from weft.match.compile import compile_rule
from weft.match.program import QueryProgram
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.records import dataclass


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


def exactness_of(given: object) -> Exactness:
    """A label from itself or its text."""
    if isinstance(given, Exactness):
        return given
    known = {each.value: each for each in Exactness}
    if isinstance(given, str) and given in known:
        return known[given]
    fix = nearest(given, known) if isinstance(given, str) else ""
    raise UserError(f"an exactness must be one of {', '.join(known)}", got=repr(given), fix=fix)


def _place(match: Match) -> str:
    """Where a rule was being applied."""
    names = {name: node.name for name, node in match.named.items()}
    names |= {name: value or "nothing" for name, value in match.values.items()}
    told = ", ".join(f"{name}: {value}" for name, value in sorted(names.items()))
    return f"at node {match.root.name}" + (f" with {told}" if told else "")


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

    def __post_init__(self) -> None:
        texts = cast(tuple[object, ...], (self.name, self.before))
        if not all(isinstance(each, str) and each for each in texts):
            raise UserError("rule: `name` and `before` must be text", got=repr(texts))
        if not callable(self.after) or not callable(self.where):
            wrong = self.where if callable(self.after) else self.after
            word = "where" if callable(self.after) else "after"
            raise UserError(f"rule {self.name}: `{word}` must be a function", got=repr(wrong))
        object.__setattr__(self, "exactness", exactness_of(self.exactness))

    def fault(self, part: str, error: Exception, match: Match) -> WeftError:
        """The error that a function of the rule failed: the user's fault, or Weft's."""
        function: object = getattr(self, part)
        if not is_weft(function):
            return fault(f"rule {self.name}: `{part}`", function, error, where=_place(match))
        return InternalError(f"rule {self.name} at {match.root.name}: {error}")

    @cached_property
    def pattern(self) -> QueryProgram:
        """The pattern, ready to be matched; it is read when it is first needed."""
        try:
            return compile_rule(self.before)
        except UserError as error:
            rule = f"rule {self.name}: {error.rule}"
            raise UserError(rule, got=error.got, fix=error.fix, where=error.where) from None

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
