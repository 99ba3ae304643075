"""What users mean by rules, and what is told of those that were applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

from weft.errors import UserError, nearest_or_all
from weft.rewrite.engine import Log
from weft.rewrite.recipe import Recipe
from weft.rewrite.recipes import all_rules
from weft.rewrite.rule import Rule, StageRules

RuleLike: TypeAlias = Rule | StageRules | str
"""A rule, those of a stage, or the name of one of the pipeline's."""


def rules_of(given: RuleLike | Iterable[RuleLike]) -> tuple[Rule, ...]:
    """The rules that a user means.

    Raises:
        UserError: something is no rule, or there is none of that name.
    """
    if isinstance(given, Rule):
        return (given,)
    if isinstance(given, StageRules):
        return given.rules
    if isinstance(given, str):
        known = {rule.name: rule for rule in all_rules()}
        if given not in known:
            fix = nearest_or_all(given, known)
            raise UserError("unknown rule", got=given, fix=fix)
        return (known[given],)
    several = cast(object, given)
    if isinstance(several, Iterable):
        found = [rule for each in cast(Iterable[RuleLike], several) for rule in rules_of(each)]
        _check_names(found)
        return tuple(found)
    raise UserError(
        "rules must be Rules or names",
        got=type(several).__name__,
        fix="Net.apply applies recipes." if isinstance(several, Recipe) else "",
    )


def _check_names(rules: Sequence[Rule]) -> None:
    seen: dict[str, Rule] = {}
    for rule in rules:
        if seen.setdefault(rule.name, rule) != rule:
            raise UserError("rules must have unique names", got=f"two {rule.name}")


def told_of(rules: Sequence[Rule], log: Log) -> str:
    """One line for the history: what every rule did."""
    counts = log.counts()
    refused = {each.rule: each for each in reversed(log.refused)}
    told: list[str] = []
    looser = {each.rule: each for each in log.skipped}
    for name in dict.fromkeys(rule.name for rule in rules):
        if name in counts:
            told.append(f"{name} ({counts[name]})")
        elif name in looser:
            told.append(looser[name].told)
        elif name in refused:
            told.append(f"{name} (refused at {refused[name].node}: {refused[name].reason})")
        else:
            told.append(f"{name} (0)")
    return ", ".join(told) or "no rules"
