"""Helper functions of generated C: what the language or a strict library lacks.

A helper is emitted only where it is used, with those that it calls.  Its text, in ``c/*.c``, is
written once for all flavours and types.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

from weft.codegen.flavours import FLAVOURS, Dialect
from weft.codegen.fork import FORK_HELPERS
from weft.codegen.function import kernel_function
from weft.codegen.helper_text import AssemblyText, called, helper_text
from weft.codegen.helpers_bytes import add_helper, bytes_helper
from weft.codegen.helpers_dsp import dsp_c_helper, dsp_helper
from weft.codegen.helpers_float import float_helper
from weft.codegen.helpers_helium import helium_helper
from weft.codegen.helpers_integer import integer_helper
from weft.codegen.helpers_patch import patch_helper
from weft.codegen.helpers_planes import planes_helper
from weft.codegen.helpers_vector import vector_helper
from weft.codegen.helpers_winograd import winograd_helper
from weft.codegen.instruct import PREFIX, guarded, is_helper_of_instruction
from weft.codegen.library import library_helper
from weft.codegen.uses import Uses, together, words
from weft.errors import InternalError
from weft.loops.instruction import instruction

_UNIONS = "weft_bits"
Text: TypeAlias = tuple[str, tuple[str, ...]]
"""The C text of a helper and the names of the helpers that it calls."""


def helper_texts(used: Iterable[str], flavour: Dialect) -> list[str]:
    """Texts of the helpers used and of those that they need, in an order that compiles."""
    return [
        helper(name, flavour)[0].replace("static ", f"static {flavour.inline}", 1)
        for name in _closure(used, flavour)
    ]


def helpers_used(used: Iterable[str], flavour: Dialect) -> Uses:
    """What the helpers used and those that they need use themselves."""
    return together(helper_uses(name, flavour) for name in _closure(used, flavour))


def _closure(used: Iterable[str], flavour: Dialect) -> list[str]:
    done: dict[str, None] = {}
    for name in sorted(used):
        _add(name, flavour, done)
    return list(done)


def _add(name: str, flavour: Dialect, done: dict[str, None]) -> None:
    """Adds a helper behind those that it needs."""
    if name not in done:
        for need in helper(name, flavour)[1]:
            _add(need, flavour, done)
        done[name] = None


def _instruction(bare: str, flavour: Dialect) -> Text | None:
    """The helper of an instruction: its row's text where the compiler has it, else its loops."""
    if not is_helper_of_instruction(bare):
        return None
    row = instruction(bare.removeprefix(PREFIX))
    aliased = frozenset(each.name for each in row.meaning.params if row.in_place)
    meaning = kernel_function(
        row.meaning, flavour.without_vectors, name=f"weft_{bare}", aliased=aliased
    )
    called_too = called(f"weft_{bare}", f"{row.asks}; {row.c}")
    # What the loops alone call is named beside the instruction, too: no compiler then warns of it.
    functions = (each for each in meaning.uses.helpers if each.islower() and each != _UNIONS)
    idle = [each for each in functions if each not in called_too]
    text = guarded(row.name, meaning.signature, meaning.body, idle)
    return text, tuple(sorted({*meaning.uses.helpers, *called_too}))


def helper(name: str, flavour: Dialect) -> Text:
    """The text of a helper, and the names of those that it calls."""
    bare = name.removeprefix("weft_")
    text = _find(bare, flavour)
    found = (text, called(name, text)) if text else _instruction(bare, flavour)
    if found is None:
        raise InternalError(f"there is no helper {name}")
    return found


@cache
def helper_uses(name: str, flavour: Dialect) -> Uses:
    """What the text of a helper uses, and the helpers that it calls."""
    text, needs = helper(name, flavour)
    return Uses(words(text), needs)


def assembly_stack(name: str) -> int:
    """Bytes of the stack that a helper in assembly takes; 0 for helpers in C."""
    found = _assembly(name.removeprefix("weft_"))
    return found.stack_bytes if found else 0


def is_helper(name: str) -> bool:
    """Whether C that was given calls a helper by this name."""
    return (
        name.startswith("weft_") and _find(name.removeprefix("weft_"), FLAVOURS["c99"]) is not None
    )


def _find(bare: str, flavour: Dialect) -> str | None:
    found = FORK_HELPERS.get(bare) or helper_text("plain", bare) or float_helper(bare)
    found = found or integer_helper(bare) or library_helper(bare, flavour) or vector_helper(bare)
    found = found or dsp_c_helper(bare) or helper_text("tiles", bare)
    made = None if found else _assembly(bare)
    return made.text if made else found


@cache
def _assembly(bare: str) -> AssemblyText | None:
    found = dsp_helper(bare) or bytes_helper(bare) or add_helper(bare) or patch_helper(bare)
    return found or planes_helper(bare) or winograd_helper(bare) or helium_helper(bare)
