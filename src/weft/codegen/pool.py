"""Addresses of a block that differ by constants: one pointer, vectors loaded once.

A pass over the statements of a block when it is done: where several accesses share the part
of the address that varies, a pointer is declared at the head of the block; where a run of
statements loads the same vector more than once, it is loaded into a variable first.
"""

from __future__ import annotations

from collections import Counter

from weft.codegen import tree as c
from weft.codegen.block import BlockWriter, boundary
from weft.codegen.element import Element
from weft.codegen.linear import LinearAddress, moved
from weft.codegen.naming import CNames

# From this many accesses on, a pointer makes the text shorter and the compiler faster.
_WORTH_A_POINTER = 3
# Vectors of AVX2, whose 16 registers hold accumulators, weights and scalars.  On processors with
# more registers the macro that keeps vectors in them is empty.
_FEW_REGISTERS = ("v8f32",)
_Accesses = list[Element]


def share(block: BlockWriter, names: CNames) -> list[c.Statement]:
    """The statements of a block with their accesses shared; blocks inside it are done already.

    Args:
        block: the block.
        names: the function's names.
    """
    found: list[_Accesses] = []
    for statement in block.statements:
        accesses: _Accesses = []
        for root in c.roots(statement):
            _collect(root, accesses)
        found.append(accesses)
    if not any(found):
        return block.statements
    pointers = _point([access for accesses in found for access in accesses], block, names)
    done: list[c.Statement] = []
    run: list[tuple[c.Statement, _Accesses]] = []
    for statement, accesses in zip(block.statements, found, strict=True):
        if boundary(statement):
            tile = isinstance(statement, c.Barrier)
            done += _loaded_once(run, block, names, tile)
            done.append(statement)
            run = []
        else:
            run.append((statement, accesses))
    return [*pointers, *done, *_loaded_once(run, block, names)]


def _collect(node: c.Node, found: _Accesses) -> None:
    if isinstance(node, Element) and node.pooled:
        found.append(node)
    elif not isinstance(node, c.Name):
        for each in c.parts(node):
            _collect(each, found)


def _point(accesses: _Accesses, block: BlockWriter, names: CNames) -> list[c.Statement]:
    """Has accesses use pointers where that is worth it; returns their declarations."""
    groups: dict[object, _Accesses] = {}
    for access in accesses:
        groups.setdefault(access.base, []).append(access)
    declared: list[c.Statement] = []
    for members in groups.values():
        terms = members[0].varying
        varies = len(terms) > 1 or any(term.factor != 1 for term in terms.values())
        if len(members) < _WORTH_A_POINTER or not varies:
            continue
        name, slot = members[0].name, members[0].slot
        pointer = _fresh(names, f"{name}_at", block)
        first = min(access.offset.const for access in members)
        const = slot.constant and all(access.load for access in members)
        declared.append(
            c.Pointer(slot.ctype, const, pointer, moved(c.Name(name), LinearAddress(first, terms)))
        )
        for access in members:
            access.pointer, access.first = pointer, first
    return declared


def _loaded_once(
    run: list[tuple[c.Statement, _Accesses]], block: BlockWriter, names: CNames, tile: bool = False
) -> list[c.Statement]:
    """A run of statements, vectors that it loads repeatedly loaded where it first does.

    In the steps of a register tile they are kept in registers, too, where these are few.
    """
    counts = Counter(
        access.key for _, accesses in run for access in accesses if access.vector and access.load
    )
    held: dict[object, str] = {}
    done: list[c.Statement] = []
    for statement, accesses in run:
        for access in accesses:
            if not access.vector or not access.load or counts[access.key] < 2:
                continue
            name = held.get(access.key)
            if name is None:
                name = _fresh(names, f"{access.name}_{len(held)}", block)
                keeps = tile and access.vector in _FEW_REGISTERS
                done.append(c.Declare(access.vector, name, access.copy(), const=not keeps))
                if keeps:
                    keep = c.Helper(f"weft_keep_{access.vector}", (c.Name(name),))
                    done.append(c.Evaluate(keep))
                held[access.key] = name
            access.held = name
        done.append(statement)
    return done


def _fresh(names: CNames, wish: str, block: BlockWriter) -> str:
    """A name for a block that nothing around or inside it has."""
    name = names.fresh(wish, block.inner)
    block.names.append(name)
    return name
