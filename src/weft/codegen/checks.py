"""What generated functions check of their arguments before they run."""

from __future__ import annotations

from math import prod

from weft.codegen.blob import Blob
from weft.codegen.interface import Interface
from weft.codegen.layout import wrap_all
from weft.codegen.naming import STORAGE
from weft.plan.program import Preparation, Program


def run_checks(interface: Interface, blob: Blob | None) -> list[str]:
    """The checks of the arguments of a run."""
    pointers = [each.name for each in interface.ports if prod(each.port.shape)]
    aligned: list[tuple[str, str]] = [
        (each.name, f"sizeof({STORAGE[each.port.dtype]})")
        for each in interface.ports
        if each.port.dtype.bytes > 1
    ]
    alignment = f"(size_t){interface.prefix}_ARENA_ALIGNMENT"
    needed = [each.name for each in interface.arenas if each.arena.bytes]
    pointers += needed
    aligned += [(name, alignment) for name in needed]
    unused = [each.name for each in interface.arenas if not each.arena.bytes]
    if interface.state:
        pointers.append(interface.state)
        aligned.append((interface.state, alignment))
    if interface.prepared:
        pointers.append(interface.prepared)
        aligned.append((interface.prepared, alignment))
    if interface.weights:
        if blob is not None and blob.size:
            pointers.append(interface.weights)
            aligned.append((interface.weights, alignment))
        else:
            unused.append(interface.weights)
    lines = [f"    (void){name};" for name in unused]
    lines += [f"    (void){e.name};" for e in interface.ports if e.name not in pointers]
    if pointers:
        test = " || ".join(f"{each} == NULL" for each in pointers)
        lines += guard(test, f"{interface.prefix}_NULL_POINTER")
    if aligned:
        test = " || ".join(f"(size_t){name} % {unit} != 0u" for name, unit in aligned)
        lines += guard(test, f"{interface.prefix}_MISALIGNED")
    return lines


CHECKED = ("sizes", "i")
"""Variables of `prepare_checks`."""


def prepare_checks(
    program: Program, first: Preparation, interface: Interface, blob: Blob | None
) -> list[str]:
    """The checks of the arguments of a preparation, after the declarations that they need."""
    prefix, given = interface.prefix, interface.parameters
    pointers = [given, interface.prepared]
    aligned = [interface.prepared]
    if first.arena_bytes:
        pointers.append(interface.arena)
        aligned.append(interface.arena)
    if interface.weights and blob is not None and blob.size:
        pointers.append(interface.weights)
        aligned.append(interface.weights)
    unused = [each for each in (interface.arena, interface.weights) if each not in ("", *pointers)]
    test = " || ".join(f"{each} == NULL" for each in pointers)
    alignment = f"(size_t){prefix}_ARENA_ALIGNMENT"
    wrong = " || ".join(f"(size_t){each} % {alignment} != 0u" for each in aligned)
    sizes = ", ".join(str(port.dtype.bytes) for port in first.parameters)
    return [
        *wrap_all([f"    static const unsigned char sizes[] = {{{sizes}}};"]),
        "    size_t i;",
        *(f"    (void){each};" for each in unused),
        *guard(test, f"{prefix}_NULL_POINTER"),
        *guard(wrong, f"{prefix}_MISALIGNED"),
        f"    for (i = 0u; i < (size_t){prefix}_PARAMETERS; ++i) {{",
        *(f"    {line}" for line in guard(f"{given}[i] == NULL", f"{prefix}_NULL_POINTER")),
        *(
            f"    {line}"
            for line in guard(f"(size_t){given}[i] % sizes[i] != 0u", f"{prefix}_MISALIGNED")
        ),
        "    }",
    ]


def guard(test: str, code: str) -> list[str]:
    """Returns a code where a test holds."""
    return [*wrap_all([f"    if ({test}) {{"]), f"        return {code};", "    }"]
