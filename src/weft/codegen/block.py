"""A C block while it is written."""

from __future__ import annotations

from dataclasses import field

from weft.codegen import tree as c
from weft.records import dataclass


@dataclass
class BlockWriter:
    """A C block being written.

    Attributes:
        statements: so far.
        pending: variables not declared yet, by name; a first store initialises.
        head: whether only declarations were written so far.
        names: to be released at its end.
        inner: names that the blocks inside it declare.
    """

    statements: list[c.Statement] = field(default_factory=list["c.Statement"])
    pending: dict[str, c.Variable] = field(default_factory=dict[str, c.Variable])
    head: bool = True
    names: list[str] = field(default_factory=list[str])
    inner: set[str] = field(default_factory=set[str])

    def declare(self, statement: c.Statement) -> None:
        """A declaration."""
        self.statements.append(statement)

    def add(self, statement: c.Statement) -> None:
        """A statement that is no declaration."""
        self.flush()
        self.head = False
        self.statements.append(statement)

    def flush(self) -> None:
        """Write the declarations that wait for an initialiser."""
        by_type: dict[str, list[c.Variable]] = {}
        for each in self.pending.values():
            by_type.setdefault(each.type, []).append(each)
        for kind, variables in by_type.items():
            for first in range(0, len(variables), 8):
                self.statements.append(c.Variables(kind, variables[first : first + 8]))
        self.pending.clear()

    def drop_unused(self, temporaries: set[str]) -> None:
        """Remove temporaries that nothing after them mentions."""
        used: set[str] = set()
        kept: list[c.Statement] = []
        for statement in reversed(self.statements):
            if isinstance(statement, c.Declare) and statement.name in temporaries - used:
                continue
            c.mentions(statement, used)
            kept.append(statement)
        self.statements = kept[::-1]


def boundary(statement: c.Statement) -> bool:
    """Whether memory may change here, or other statements begin or end."""
    match statement:
        case c.Assign(target):
            return isinstance(target, c.CMemory | c.Index)
        case c.CFor() | c.CIf() | c.Braced() | c.Barrier() | c.Evaluate():
            return True
        case _:
            return False
