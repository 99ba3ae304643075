"""What analyses find of an object, kept with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Self, TypeVar

from weft.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Analyzed:
    """An object whose analyses run once."""

    _facts: dict[Callable[[Any], Any], Any] = field(
        default_factory=dict[Any, Any], init=False, compare=False, repr=False
    )

    def fact(self, analysis: Callable[[Self], T]) -> T:
        """What an analysis finds of it; it runs once."""
        if analysis not in self._facts:
            self._facts[analysis] = analysis(self)
        return self._facts[analysis]

    def forget(self) -> None:
        """Drops what analyses have found, most of which refers to the object.

        Such cycles would hold the weights of a network until Python looks for them.
        """
        facts = list(self._facts.values())
        self._facts.clear()
        for fact in facts:
            if isinstance(fact, Analyzed):
                fact.forget()
