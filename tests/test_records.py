"""Data classes that compile their methods late are as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from weft.records import dataclass

FLAGS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True},
    {"repr": False},
    {"slots": True, "unsafe_hash": True},
]
WAYS = {"standard": dataclasses.dataclass, "weft": dataclass}


def family(make: Any, flags: dict[str, bool]) -> type[Any]:
    """A class with fields of every kind, and one that is made of it."""

    @make(**flags)
    class Base:
        """What all have."""

        name: str
        sizes: tuple[int, ...] = ()
        shared: ClassVar[list[int]] = []

    @make(**flags)
    class Point(Base):
        """One with more."""

        tags: list[str] = field(default_factory=list)
        count: int = field(default=3, compare=False)
        secret: int = field(default=0, repr=False)
        made: dict[str, int] = field(default_factory=dict, init=False, hash=False)
        fixed: int = field(default=7, init=False)
        last: str = field(default="", kw_only=True)
        put: int = 0

        def __post_init__(self) -> None:
            self.made["seen"] = len(self.name)

    return Point


def told(action: Any) -> Any:
    """What an action gives, or which error."""
    try:
        return action()
    except (TypeError, AttributeError) as error:
        return type(error).__name__


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: "-".join(flags) or "plain")
def test_classes_behave_as_those_of_the_standard_library(flags: dict[str, bool]) -> None:
    seen: dict[str, list[Any]] = {}
    for way, make in WAYS.items():
        kind = family(make, flags)
        one = kind(name="a", sizes=(1, 2), tags=("t",), last="z")
        same = kind(name="a", sizes=(1, 2), tags=("t",), last="z", count=9)
        other = dataclasses.replace(one, name="b")

        def assign(one: Any = one) -> None:
            one.name = "c"

        def add(one: Any = one) -> None:
            one.unknown = 1

        def delete(one: Any = one) -> None:
            del one.secret

        seen[way] = [
            flags.get("repr", True) and (repr(one), repr(other)),
            (one == same, one == other, one == kind(name="a"), one == 1),
            told(lambda one=one, same=same: hash(one) == hash(same)),
            [each.name for each in dataclasses.fields(kind)],
            {key: str(each) for key, each in inspect.signature(kind).parameters.items()}.keys(),
            told(lambda kind=kind: kind().name),
            told(lambda kind=kind: kind("a", ()).name),
            told(lambda kind=kind: kind(name="a", fixed=3).name),
            (one.fixed, one.made, other.made, kind(name="").tags),
            dataclasses.asdict(one),
            copy.deepcopy(one).sizes,
            kind.__match_args__,
            kind.__doc__,
            told(assign),
            isinstance(told(add), str),
            told(delete),
            one.name,
        ]
    assert seen["weft"] == seen["standard"]


@dataclass(frozen=True, slots=True)
class Stored:
    """Can be found by its name, as pickled classes must."""

    name: str
    parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Same:
    """Compares by its own rule."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same)

    def __repr__(self) -> str:
        return "own"


@dataclass
class Knot:
    """May hold itself."""

    inside: list[Any]


class Extended(Stored):
    """Has attributes besides the fields."""


def test_objects_with_slots_are_pickled() -> None:
    stored = Stored("a", (1,))
    assert pickle.loads(pickle.dumps(stored)) == stored


def test_methods_of_a_class_stay() -> None:
    assert Same("a") == Same("b")
    assert repr(Same("a")) == "own"
    assert hash(Same("a")) == hash(("a",))


def test_what_holds_itself_is_shown() -> None:
    knot = Knot([])
    knot.inside.append(knot)
    assert repr(knot) == "Knot(inside=[...])"


def test_only_fields_of_an_extended_class_are_kept() -> None:
    extended = Extended("a")
    extended.more = 3
    assert extended.more == 3
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        extended.name = "b"


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("ways", [("weft", "standard"), ("standard", "weft")])
def test_both_kinds_inherit_each_other(ways: tuple[str, str], frozen: bool) -> None:
    first, second = (WAYS[way](frozen=frozen) for way in ways)

    @first
    class Base:
        """One."""

        name: str

    @second
    class Derived(Base):
        """Another one."""

        size: int = 3

    one = Derived("a")
    assert (one.name, one.size) == ("a", 3)
    assert one == Derived("a", 3)
    assert repr(one).endswith("Derived(name='a', size=3)")
    with pytest.raises(TypeError, match="frozen"):

        @WAYS[ways[1]](frozen=not frozen)
        class Other(Base):  # pyright: ignore[reportUnusedClass]
            """One that changes what may be changed."""

    if frozen:
        for kind in (Base, Derived):
            with pytest.raises(FrozenInstanceError):
                kind("a").name = "b"


def test_methods_are_compiled_once_and_have_names() -> None:
    @dataclass(frozen=True)
    class Fresh:
        """Of which there is no object yet."""

        size: int

    assert not inspect.isfunction(vars(Fresh)["__init__"])
    assert Fresh(3).size == 3
    made = vars(Fresh)["__init__"]
    assert inspect.isfunction(made)
    assert made.__qualname__.endswith("Fresh.__init__")
    assert Fresh(4).size == 4
    assert vars(Fresh)["__init__"] is made
    assert str(inspect.signature(Fresh)) == "(size: 'int') -> None"
