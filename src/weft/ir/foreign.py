"""Sources and libraries that Weft did not write, which generated C calls."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePath

from weft.records import dataclass

C, CXX = (".c",), (".cc", ".cpp", ".cxx")
OBJECTS = (".o", ".a")


@dataclass(frozen=True, slots=True)
class Foreign:
    """What a C body calls that Weft did not write: it is compiled and linked with it.

    Attributes:
        files: names and contents: sources in C (``.c``) and C++ (``.cc``, ``.cpp``, ``.cxx``),
            headers, objects and static libraries (``.o``, ``.a``).
        flags: for compiling the sources.
        link: flags for linking.
    """

    files: tuple[tuple[str, bytes], ...] = ()
    flags: tuple[str, ...] = ()
    link: tuple[str, ...] = ()


NOTHING_FOREIGN = Foreign()


def with_suffix(foreign: Foreign, suffixes: Collection[str]) -> list[str]:
    """Names of the files that end so."""
    return [name for name, _ in foreign.files if PurePath(name).suffix in suffixes]
