"""Helper functions of generated C: what the language or a strict library lacks.

A helper is emitted only where it is used.  Its text is written once, for all flavours,
with ``T`` and friends filled in; ``needs`` names the helpers that it calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from weft.codegen.flavours import APART, LANES, SUMS, Dialect
from weft.codegen.fork import FORK_HELPERS
from weft.codegen.function import kernel_function
from weft.codegen.helpers_float import FLOAT_HELPERS, Text
from weft.codegen.helpers_integer import integer_helper
from weft.codegen.helpers_vector import vector_helper
from weft.codegen.instruct import PREFIX, guarded, instruction_names
from weft.codegen.library import library_helper
from weft.codegen.uses import Uses, together, words
from weft.errors import InternalError
from weft.loops.instruction import instruction

_FETCH = """\
/* Fetches memory that will be read soon. */
static void weft_fetch(const void *memory, int bytes)
{
    const unsigned char *const first = (const unsigned char *)memory;
    int at;
    for (at = 0; at < bytes; at += 64) {
        __builtin_prefetch(first + at, 0, 2);
    }
}
"""

# Four steps that are left are unrolled: 16 floats in vectors of 4, as every machine has them.
_LANES = """\
/* gcc unrolls loops of up to 16 steps before it looks for vectors, and then finds few.  This
   keeps a loop over lanes until they are vectors. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && !defined(__OPTIMIZE_SIZE__)
#define WEFT_LANES _Pragma("GCC unroll 4")
#else
#define WEFT_LANES
#endif
"""

# By gcc 12 -O2, a fifth fewer instructions of a keyword spotter on a Cortex-M4.
_SUMS = """\
/* Where no vectors shorten a loop over many sums, this unrolls it. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && !defined(__OPTIMIZE_SIZE__) \\
        && !defined(__SSE2__) && !defined(__ARM_NEON) && !defined(__ALTIVEC__)
#define WEFT_SUMS _Pragma("GCC unroll 8")
#else
#define WEFT_SUMS
#endif
"""

# clang would put functions that are called once into their callers, and their locals with them:
# 5.5 KB of stack for the run function of a quantized image classifier, 2.2 KB without.
_APART = """\
/* Keeps kernels out of the run function: the locals of all of them would add up there. */
#if defined(__GNUC__)
#define WEFT_APART __attribute__((noinline))
#else
#define WEFT_APART
#endif
"""

RUN_HELPERS: dict[str, Text] = {
    **FORK_HELPERS,
    "fetch": (_FETCH, ()),
    LANES: (_LANES, ()),
    SUMS: (_SUMS, ()),
    APART: (_APART, ()),
}


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

    def add(name: str) -> None:
        if name not in done:
            for need in helper(name, flavour)[1]:
                add(need)
            done[name] = None

    for name in sorted(used):
        add(name)
    return list(done)


def _instruction(bare: str, flavour: Dialect) -> Text | None:
    """The helper of an instruction: its row's text where the compiler has it, else its loops."""
    if bare not in instruction_names():
        return None
    name = bare.removeprefix(PREFIX)
    meaning = kernel_function(
        instruction(name).meaning, flavour.without_vectors, name=f"weft_{bare}"
    )
    text = guarded(name, meaning.signature, meaning.body)
    return text, tuple(sorted(meaning.uses.helpers))


def helper(name: str, flavour: Dialect) -> Text:
    """The text of a helper, and the names of those that it calls."""
    bare = name.removeprefix("weft_")
    found = _find(bare, flavour.c99_library) or _instruction(bare, flavour)
    if found is None:
        raise InternalError(f"there is no helper {name}")
    return found


@cache
def helper_uses(name: str, flavour: Dialect) -> Uses:
    """What the text of a helper uses, and the helpers that it calls."""
    text, needs = helper(name, flavour)
    return Uses(words(text), needs)


def is_helper(name: str) -> bool:
    """Whether C that was given calls a helper by this name."""
    return name.startswith("weft_") and _find(name.removeprefix("weft_"), c99=True) is not None


def _find(bare: str, c99: bool) -> Text | None:
    found = FLOAT_HELPERS.get(bare) or RUN_HELPERS.get(bare) or integer_helper(bare)
    return found or library_helper(bare, c99) or vector_helper(bare)
