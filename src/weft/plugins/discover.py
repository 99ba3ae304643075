"""What installed distributions say that they bring; nothing of it is imported here."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path

from weft.records import dataclass

SWITCH = "WEFT_PLUGINS"
"""The environment variable that turns plugins ``off``."""
_OFF = frozenset({"off", "0", "no", "false", "none"})
_PREFIX = "weft."
_WORDS = {"datasets": "data set", "keras_layers": "Keras layer"}


class Kind(Enum):
    """What a plugin brings; the entry points' group is ``weft.`` and the value."""

    OPS = "ops"
    RULES = "rules"
    RECIPES = "recipes"
    TARGETS = "targets"
    KERNELS = "kernels"
    GENERATORS = "generators"
    FRONTENDS = "frontends"
    EXPORTS = "exports"
    DATASETS = "datasets"
    KERAS_LAYERS = "keras_layers"

    @property
    def group(self) -> str:
        """The group of entry points."""
        return f"{_PREFIX}{self.value}"

    @property
    def word(self) -> str:
        """What one of the kind is called in messages."""
        return _WORDS.get(self.value) or self.value.removesuffix("s")


@dataclass(frozen=True)
class Plugin:
    """An entry point of a distribution.

    Attributes:
        kind: what it brings.
        name: the entry point's.
        distribution: that it comes from.
        version: of the distribution.
        entry: which object it is.
    """

    kind: Kind
    name: str
    distribution: str
    version: str
    entry: EntryPoint = field(repr=False)

    def __str__(self) -> str:
        return f"{self.kind.word} {self.name} of {self.distribution} {self.version}"


@dataclass
class _Generation:
    """Counts how often somebody looked: tables forget what they loaded before."""

    number: int = 0


_generation = _Generation()


def refresh() -> None:
    """Looks for plugins anew, where one was installed or removed since the process began.

    What was loaded from modules that are imported already stays as it is.
    """
    _generation.number += 1


def generation() -> int:
    """Changes when ``refresh`` is called."""
    return _generation.number


def found() -> tuple[Plugin, ...]:
    """Every plugin that is installed, in the order of kinds, names and distributions."""
    if os.environ.get(SWITCH, "").strip().lower() in _OFF:
        return ()
    return _scan(generation())


@lru_cache(maxsize=1)
def _scan(_: int) -> tuple[Plugin, ...]:
    kinds = {kind.group: kind for kind in Kind}
    seen: set[str] = set()
    plugins: list[Plugin] = []
    for distribution in distributions():
        # Most distributions have no entry points of ours, and parsing theirs takes time.
        text = distribution.read_text("entry_points.txt")
        if not text or f"[{_PREFIX}" not in text:
            continue
        name = _name(distribution)
        if name in seen:  # an older copy further down the path
            continue
        seen.add(name)
        for entry in distribution.entry_points:
            kind = kinds.get(entry.group)
            if kind is not None:
                plugins.append(Plugin(kind, entry.name, name, distribution.version, entry))
    order = list(Kind)
    plugins.sort(key=lambda each: (order.index(each.kind), each.name, each.distribution))
    return tuple(plugins)


def _name(distribution: Distribution) -> str:
    return distribution.metadata["Name"]


def of_kind(kind: Kind) -> tuple[Plugin, ...]:
    """The plugins of a kind."""
    return tuple(plugin for plugin in found() if plugin.kind is kind)


def doubled(kind: Kind) -> frozenset[str]:
    """Names that more than one distribution gives to a plugin of a kind."""
    counts = Counter(plugin.name for plugin in of_kind(kind))
    return frozenset(name for name, count in counts.items() if count > 1)


def identity(*kinds: Kind) -> list[str | bytes]:
    """All of plugins that can change what is built: versions, entry points and files.

    Args:
        kinds: of the plugins; all kinds if none is given.
    """
    parts: list[str | bytes] = []
    roots: set[str] = set()
    for plugin in found():
        if kinds and plugin.kind not in kinds:
            continue
        entry = plugin.entry
        parts.append(f"{plugin.distribution} {plugin.version} {entry.group} {entry.name}")
        parts.append(entry.value)
        roots.add(entry.module.partition(".")[0])
    for root in sorted(roots):
        for name, path in _files(root):
            parts += name, path.read_bytes()
    return parts


def _files(package: str) -> Iterator[tuple[str, Path]]:
    """The files of a package or module, by their names below it, without importing it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    for place in sorted(spec.submodule_search_locations or ()):
        folder = Path(place)
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                yield f"{package}/{path.relative_to(folder)}", path
    if spec.submodule_search_locations is None and spec.origin and Path(spec.origin).is_file():
        yield package, Path(spec.origin)
