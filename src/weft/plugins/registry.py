"""Tables of parts: what Weft has built in and what plugins bring, through one door."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

from weft.errors import InternalError, UserError, WeftError, named
from weft.plugins.discover import Kind, Plugin, doubled, generation, of_kind
from weft.records import dataclass

T = TypeVar("T")
R = TypeVar("R")


class Unusable(WeftError):
    """Why an object cannot be what its entry point says that it is."""


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """A plugin that can be used."""

    plugin: Plugin
    part: T


@dataclass(frozen=True)
class Failed:
    """A plugin that cannot be used, and why."""

    plugin: Plugin
    reason: str

    def __str__(self) -> str:
        return f"the {self.plugin} cannot be used: {self.reason}"


def called(plugin: Plugin, function: Callable[..., R], *arguments: Any) -> R:
    """What a function of a plugin returns.

    Raises:
        UserError: it failed; says which plugin it was.  Errors of Weft's pass as they are.
    """
    try:
        return function(*arguments)
    except WeftError:
        raise
    except Exception as error:
        raise UserError(
            f"the {plugin} must not fail",
            got=_told(error),
            fix="Fix or uninstall it, or disable all plugins with WEFT_PLUGINS=off.",
        ) from error


Accept: TypeAlias = Callable[[str, object], T]
"""``accept(name, object)``: the part that an object is, or ``Unusable`` is raised."""


class Lazy(Mapping[str, T]):
    """Built-in parts that are made when somebody asks for them.

    Args:
        names: of the parts.
        make: the part of a name; it must remember it.
    """

    def __init__(self, names: Sequence[str], make: Callable[[str], T]) -> None:
        self._names = names
        self._make = make

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Stack(threading.local):
    """The plugins that a thread is loading."""

    def __init__(self) -> None:
        self.plugins: list[Plugin] = []


class Table(Mapping[str, T]):
    """Parts of one kind by name: those that are built in, then those of plugins.

    A plugin is loaded when somebody asks for its name, or for all there are.  One that
    cannot be loaded is as if it were not there; ``failed`` says why.

    Args:
        kind: of the parts.
        builtin: what Weft has itself; where it is ``Lazy``, what makes it checks it.
        accept: says what is wrong with an object; built-in ones go through it, too.
        reserved: names that no plugin may take though no built-in part has them.
    """

    def __init__(
        self,
        kind: Kind,
        builtin: Mapping[str, T],
        accept: Accept[T],
        reserved: frozenset[str] = frozenset(),
    ) -> None:
        self.kind = kind
        self._accept = accept
        self._reserved = reserved
        self._results: dict[str, Loaded[T] | Failed] = {}
        self._generation = generation()
        self._stack = _Stack()
        self.builtin: Mapping[str, T] = MappingProxyType(
            builtin if isinstance(builtin, Lazy) else dict(builtin)
        )
        if isinstance(builtin, Lazy):
            return
        for name, part in builtin.items():
            try:
                accept(name, part)
            except Unusable as error:
                raise InternalError(f"built-in {kind.word} {name}: {error}") from error

    def __getitem__(self, name: str) -> T:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """The part of a name."""
        found = self.builtin.get(name)
        if found is not None:
            return found
        for plugin in of_kind(self.kind):
            if plugin.name == name:
                result = self._result(plugin)
                return result.part if isinstance(result, Loaded) else default
        return default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        yield from self.builtin
        yield from (each.plugin.name for each in self.loaded)

    def __len__(self) -> int:
        return len(self.builtin) + len(self.loaded)

    @property
    def loaded(self) -> tuple[Loaded[T], ...]:
        """The plugins that can be used."""
        return tuple(each for each in self.results if isinstance(each, Loaded))

    @property
    def failed(self) -> tuple[Failed, ...]:
        """The plugins that cannot be used."""
        return tuple(each for each in self.results if isinstance(each, Failed))

    @property
    def results(self) -> tuple[Loaded[T] | Failed, ...]:
        """Every plugin of the kind, loaded now if it was not."""
        found = (self._result(plugin) for plugin in of_kind(self.kind))
        return tuple(each for each in found if each is not None)

    def why_missing(self, *names: str) -> str:
        """A sentence about plugins that would have had these names but failed; or nothing.

        Without names, all that failed are told of.
        """
        plugins = [each for each in of_kind(self.kind) if not names or each.name in names]
        told = [each for each in map(self._result, plugins) if isinstance(each, Failed)]
        return " ".join(f"{str(each)[0].upper()}{str(each)[1:]}." for each in told)

    # --- loading ------------------------------------------------------------------------------

    def _result(self, plugin: Plugin) -> Loaded[T] | Failed | None:
        """What came of a plugin; nothing yet where it is being loaded further up."""
        if self._generation != generation():
            self._results.clear()
            self._generation = generation()
        key = f"{plugin.distribution} {plugin.name}"
        known = self._results.get(key)
        if known is not None:
            return known
        if plugin in self._stack.plugins:
            return self._half_loaded(plugin)
        self._stack.plugins.append(plugin)
        try:
            result = self._load(plugin)
        finally:
            self._stack.plugins.pop()
        return self._results.setdefault(key, result)

    def _load(self, plugin: Plugin) -> Loaded[T] | Failed:
        name = plugin.name
        if name in self.builtin or name in self._reserved:
            return Failed(plugin, f"Weft itself has this {self.kind.word}")
        if name in doubled(self.kind):
            others = [each for each in of_kind(self.kind) if each.name == name and each != plugin]
            who = ", ".join(f"{each.distribution} {each.version}" for each in others)
            return Failed(plugin, f"{who} has one of the same name")
        try:
            return Loaded(plugin, self._accept(name, plugin.entry.load()))
        except Unusable as error:
            return Failed(plugin, str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 (it is not our code)
            return Failed(plugin, _told(error))

    def _half_loaded(self, plugin: Plugin) -> Loaded[T] | None:
        """A part that its module has defined although the module is not finished.

        So a module may define an op and, below it, a rule that speaks of the op.
        """
        found: Any = sys.modules.get(plugin.entry.module)
        for attribute in filter(None, plugin.entry.attr.split(".")):
            found = getattr(found, attribute, None)
        try:
            return None if found is None else Loaded(plugin, self._accept(plugin.name, found))
        except Unusable:
            return None


def _told(error: BaseException) -> str:
    """An exception of somebody's code, and where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    text = named(error)
    inner = [each for each in frames if not each.filename.startswith("<frozen")]
    last = inner[-1] if inner else None
    if last is None or Path(last.filename).parent.name == "metadata":
        return text
    return f"{text} ({Path(last.filename).name}, line {last.lineno})"
