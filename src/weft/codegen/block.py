"""A C block while it is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

BARRIER = '__asm__ volatile("" ::: "memory");'
LANES = "WEFT_LANES"
"""What stands before a short loop over lanes that compilers are to make vectors of."""
SUMS = "WEFT_SUMS"
"""What stands before a long loop over lanes that adds to sums in memory."""
APART = "WEFT_APART"
"""What stands before a function that compilers are to keep apart from those that call it."""
_ELEMENT = re.compile(r"\w+\[")
_TEMPORARY = re.compile(r"\s*const \w+ (t(?:_\d+)?) = ")


@dataclass
class Block:
    """A C block being written.

    Attributes:
        depth: how far it is indented.
        lines: its text so far.
        pending: declarations not written yet, by name; a first store initialises.
        head: whether only declarations were written so far.
        names: to be released at its end.
        inner: names that the blocks inside it declare.
    """

    depth: int
    lines: list[str] = field(default_factory=list[str])
    pending: dict[str, str] = field(default_factory=dict[str, str])
    head: bool = True
    names: list[str] = field(default_factory=list[str])
    inner: set[str] = field(default_factory=set[str])

    @property
    def indent(self) -> str:
        """What its lines begin with."""
        return "    " * self.depth

    def add(self, text: str) -> None:
        """One line."""
        self.lines.append(self.indent + text)

    def statement(self, text: str) -> None:
        """A line that is no declaration."""
        self.flush()
        self.head = False
        self.add(text)

    def flush(self) -> None:
        """Write the declarations that wait for an initialiser."""
        by_type: dict[str, list[str]] = {}
        for name, kind in self.pending.items():
            by_type.setdefault(kind, []).append(name)
        for kind, names in by_type.items():
            for first in range(0, len(names), 8):
                self.add(f"{kind} {', '.join(names[first : first + 8])};")
        self.pending.clear()

    def drop_unused(self) -> None:
        """Remove temporaries that nothing after them mentions."""
        for place in reversed(range(len(self.lines))):
            found = _TEMPORARY.match(self.lines[place])
            if found is None:
                continue
            mention = re.compile(rf"\b{found[1]}\b")
            if not any(mention.search(line) for line in self.lines[place + 1 :]):
                del self.lines[place]


def boundary(line: str) -> bool:
    """Whether memory may change here, or other statements begin or end."""
    text = line.lstrip()
    stores = text.startswith(("\x02", "*", "for ", "if ", "{", "}", LANES, SUMS))
    return bool(stores or _ELEMENT.match(text)) or text.endswith(BARRIER)
