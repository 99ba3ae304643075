"""What ``weft verify`` found, and how it says so."""

from __future__ import annotations

from dataclasses import asdict, field

from weft.api.repeated import Repeated, Sanitized
from weft.api.rounded import Rounded, in_steps
from weft.cli.output import CommandState, say, table, write_json
from weft.ir.short_names import short_names
from weft.records import dataclass
from weft.runtime.compare import Difference

ACCUMULATED, OWN = "accumulated", "own"
FAR = 10
"""Rounding of one implementation is at most so many times that of another."""


@dataclass(frozen=True)
class Allowed:
    """The largest allowed differences.

    Attributes:
        relative: to a value's range.
        steps: of integers that stand for numbers, where operators are compared one by one.
    """

    relative: float
    steps: int | None = None

    def __call__(self, difference: Difference) -> bool:
        """Whether a difference is allowed."""
        # Comparisons with NaN are false, so this is not written with `>`.
        if self.steps is not None and in_steps(difference):
            return difference.largest <= self.steps
        return difference.relative <= self.relative

    def __str__(self) -> str:
        return f"{self.relative:g}"


@dataclass
class Compared:
    """A network compared with a framework or the reference.

    Attributes:
        against: the name of what it is compared with.
        allowed: differences.
        error: which ones must be allowed: ``accumulated`` or ``own``.
        layers: what has accumulated in the values that both have.
        own: of every step; none where operators are compared one by one.
        double: where nothing but rounding accumulates, how far the framework, and the network, are
            from double precision.
        rounded: of networks that round values to integers, compared operator by operator.
        again: whether further runs gave the same bits.
        sanitized: what sanitizers found; ``None`` if they did not run.
    """

    against: str
    allowed: Allowed
    error: str = ACCUMULATED
    layers: list[Difference] = field(default_factory=list[Difference])
    own: list[Difference] = field(default_factory=list[Difference])
    double: tuple[list[Difference], list[Difference]] | None = None
    rounded: Rounded | None = None
    again: Repeated | None = None
    sanitized: Sanitized | None = None

    @property
    def held(self) -> list[Difference]:
        """The differences that must be allowed."""
        return self.own if self.error == OWN else self.layers

    @property
    def agrees(self) -> bool:
        """Whether these differences are allowed."""
        return all(map(self.allowed, self.held))

    @property
    def only_accumulates(self) -> bool:
        """Whether too much has accumulated of errors that are allowed, each by itself."""
        return (
            bool(self.own)
            and all(map(self.allowed, self.own))
            and not all(map(self.allowed, self.layers))
        )

    @property
    def passed(self) -> bool:
        """Whether everything is as it should be."""
        code = self.rounded.code if self.rounded is not None else []
        right = self.agrees and all(map(self.allowed, code))
        clean = self.sanitized is None or self.sanitized.clean
        return right and clean and not (self.again and self.again.differing)

    @property
    def worst(self) -> float:
        """The largest accumulated difference over the range."""
        return _largest(self.layers)

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        own = {each.value: each.relative for each in self.own}
        more: dict[str, object] = {}
        if self.again is not None:
            more["repeated"] = asdict(self.again)
        if self.double is not None:
            framework, weft = map(_largest, self.double)
            more["double"] = {"against": framework, "weft": weft}
        if self.rounded is not None:
            more["steps"] = self.allowed.steps
            more["outputs"] = [each.record() for each in self.rounded.outputs]
            more["code"] = [each.record() for each in self.rounded.code]
        else:
            more["error"] = self.error
            more["own"] = [each.record() for each in self.own]
        if self.sanitized is not None:
            more |= self.sanitized.record()
        return {
            "against": self.against,
            "tolerance": self.allowed.relative,
            "passed": self.passed,
            "worst": self.worst,
            "layers": [{**each.record(), "own": own.get(each.value)} for each in self.layers],
            **more,
        }


def report(state: CommandState, compared: Compared) -> None:
    """Says what was found."""
    if state.json:
        write_json(compared.record())
        return
    _tabulate(compared)
    verdict = "agrees with" if all(map(compared.allowed, compared.layers)) else "differs from"
    if compared.rounded is None:
        say(
            f"\n{verdict} {compared.against}: {len(compared.layers)} values, largest difference "
            f"over range {compared.worst:.3g}, allowed {compared.allowed}"
        )
        _say_own(compared)
    else:
        _say_rounded(compared, compared.rounded, verdict)
    again = compared.again
    if again is not None:
        bits = f"{again.differing:,} differ" if again.differing else "the bits of the first in all"
        say(f"{again.runs:,} more runs, half of them from {again.callers} threads at once: {bits}")
    if compared.sanitized is not None:
        say(str(compared.sanitized))


def _tabulate(compared: Compared) -> None:
    """A row for each value that was compared, and for each step that is wrong by itself."""
    own = {each.value: each for each in compared.own}
    layers = {each.value: each for each in compared.layers}
    wrong = [each.value for each in compared.own if not compared.allowed(each)]
    held = own if compared.error == OWN else layers
    names = list(dict.fromkeys([*layers, *wrong]))
    short = short_names(names)
    headings = ["", "value", "type", "largest", OWN, ACCUMULATED, "elements"]
    rows: list[list[str]] = []
    for name in names:
        each, alone = layers.get(name), own.get(name)
        known = each or own[name]
        fails = name in held and not compared.allowed(held[name])
        rows.append(
            [
                "DIFFERS" if fails else "ok" if name in held else "",
                short[name],
                known.type,
                f"{each.largest:.3g}" if each else "-",
                f"{alone.relative:.3g}" if alone else "-",
                f"{each.relative:.3g}" if each else "-",
                f"{each.elements:,} of {each.size:,}" if each else "-",
            ]
        )
    if not own:
        headings.pop(4)
        for row in rows:
            row.pop(4)
    numbers = range(3, len(headings))
    table(headings, rows, tuple(numbers), ("elements", "type"))


def _say_own(compared: Compared) -> None:
    """What steps do by themselves, and what that says of the whole."""
    if not compared.own:
        return
    worst = max(compared.own, key=lambda each: each.relative)
    wrong = sum(not compared.allowed(each) for each in compared.own)
    count = f"{len(compared.own)} step{'' if len(compared.own) == 1 else 's'}"
    most = f"at most {worst.relative:.3g}, of {short_names([worst.value])[worst.value]}"
    found = f"{wrong} wrong by themselves" if wrong else "none wrong by itself"
    say(f"{count}, {found}: own error over range {most}")
    if compared.double is None:
        return
    against, weft = map(_largest, compared.double)
    say(
        "no step introduces an error; from the reference in double precision: "
        f"{compared.against} {against:.3g}, Weft {weft:.3g}"
    )
    if against > FAR * weft:
        say(f"so {compared.against} computes something else: was the model read as it means?")
    else:
        say("so the difference is rounding that accumulates from step to step")


def _say_rounded(compared: Compared, rounded: Rounded, verdict: str) -> None:
    against, allowed = compared.against, compared.allowed
    say(f"\n{verdict} {against} operator by operator, each given {against}'s values:")
    most = f"{_steps(allowed.steps)}, {allowed} of the range"
    say(f"  {_worst(compared.layers)} (allowed: {most})")
    say(f"the whole network, where steps add up, from {against}: {_worst(rounded.outputs)}")
    say(f"the whole network from the reference: {_worst(rounded.code)} (allowed: the same)")


def _largest(found: list[Difference]) -> float:
    return max((each.relative for each in found), default=0.0)


def _steps(count: float | None) -> str:
    count = count or 0
    return f"{count:g} step{'' if count == 1 else 's'}"


def _worst(found: list[Difference]) -> str:
    """The largest differences of integers and of the rest."""
    steps = [each.largest for each in found if in_steps(each)]
    others = [each.relative for each in found if not in_steps(each)]
    texts = [f"{len(steps)} in integers by at most {_steps(max(steps))}"] if steps else []
    texts += [f"{len(others)} in float by at most {max(others):.3g} of the range"] if others else []
    return ", ".join(texts) or "no values"
