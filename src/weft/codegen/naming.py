"""C identifiers: made from any text, never a keyword, never the same twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.python_arithmetic import HALVES
from weft.ops.ctext import C_TYPES

_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while asm typeof "
    # C++, because the header may be included there.
    "alignas alignof and and_eq bitand bitor bool catch char8_t char16_t char32_t class compl "
    "concept consteval constexpr constinit const_cast co_await co_return co_yield decltype "
    "delete dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq "
    "nullptr operator or or_eq private protected public register reinterpret_cast requires "
    "static_assert static_cast template this thread_local throw true try typeid typename using "
    "virtual wchar_t xor xor_eq "
    # Macros and functions of the headers that generated code includes, and of old systems.
    "NULL EOF linux unix errno main y0 y1 yn j0 j1 jn gamma lgamma index rindex abs labs div ldiv "
    "time signal near far malloc calloc realloc free abort exit atexit system getenv rand srand "
    "bsearch qsort atof atoi atol strtod strtol memchr memcmp memcpy memmove memset bcmp bcopy "
    "bzero strcat strchr strcmp strcoll strcpy strcspn strerror strlen strncat strncmp strncpy "
    "strpbrk strrchr strspn strstr strtok strxfrm remove rename printf scanf puts gets".split()
)
# Of <math.h>, each with its f and l; compilers know them even where it is not included.
MATH = frozenset(
    f"{name}{kind}"
    for kind in ("", "f", "l")
    for name in (
        "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp "
        "exp10 exp2 expm1 fabs fdim finite floor fma fmax fmin fmod frexp hypot ilogb isinf isnan "
        "ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint "
        "nextafter pow pow10 remainder remquo rint round roundeven scalb scalbln scalbn "
        "significand sin sincos sinh sqrt tan tanh tgamma trunc"
    ).split()
)
# Macros that generated code, or a program before it includes a header, may have defined.
_MACROS = tuple(
    (
        "NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL M_* FP_NAN FP_INFINITE FP_ZERO FP_SUBNORMAL "
        "FP_NORMAL FLT_* DBL_* LDBL_* INT*_MIN INT*_MAX INT*_C INT*_WIDTH UINT*_MAX UINT*_C "
        "UINT*_WIDTH SIZE_MAX PTRDIFF_M?? WCHAR_M?? WINT_M?? SIG_ATOMIC_M?? CHAR_BIT CHAR_M?? "
        "SCHAR_M?? UCHAR_MAX SHRT_M?? USHRT_MAX LONG_M?? ULONG_MAX LLONG_M?? ULLONG_MAX RAND_MAX "
        "TMP_MAX EXIT_SUCCESS EXIT_FAILURE SEEK_SET SEEK_CUR SEEK_END FOPEN_MAX FILENAME_MAX "
        "BUFSIZ EDOM ERANGE EILSEQ I"
    ).split()
)
_SMALL_MACROS = frozenset(
    "stdin stdout stderr assert offsetof setjmp complex imaginary i386 mips sparc".split()
)
STORAGE: dict[DType, str] = {**C_TYPES, **dict.fromkeys(HALVES, "uint16_t")}
"""The C type of an element in memory; bool is 0 or 1 in a byte, f16 and bf16 are their bits."""


@lru_cache(maxsize=1 << 12)
def identifier(text: str) -> str:
    """A C identifier that resembles the text."""
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in text).split()
    name = "_".join(words) or "value"
    if name[0].isdigit():
        name = f"v{name}"
    known = name in _KEYWORDS or name in MATH or name.endswith("_t") or _is_macro(name)
    return f"{name}_" if known else name


def _is_macro(name: str) -> bool:
    if name in _SMALL_MACROS or name.startswith("WEFT_"):
        return True
    return name.isupper() and any(fnmatchcase(name, each) for each in _MACROS)


class CNames:
    """Hands out identifiers, each once.

    Args:
        taken: identifiers that must not be handed out.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def fresh(self, wish: str, avoid: Collection[str] = ()) -> str:
        """An identifier like ``wish`` that nobody has, and none of those to avoid."""
        base = identifier(wish)
        name, count = base, 1
        while name in self._taken or name in avoid:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def take(self, name: str) -> None:
        """Hand out exactly this identifier, which must be one that nobody has."""
        if name in self._taken:
            raise InternalError(f"the identifier {name} has two meanings")
        self._taken.add(name)

    def has(self, name: str) -> bool:
        """Whether an identifier was handed out, or must not be."""
        return name in self._taken

    @property
    def taken(self) -> frozenset[str]:
        """All identifiers that were handed out, or must not be."""
        return frozenset(self._taken)

    def release(self, name: str) -> None:
        """Make an identifier free again, at the end of its scope."""
        self._taken.discard(name)


def comment_text(text: str) -> str:
    """Text that may stand in a C comment: printable, one line, without ``*/`` or trigraphs."""
    if not text.isprintable():  # few are not
        text = "".join(char if char.isprintable() else " " for char in text)
    line = text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
    return line.rstrip("\\")
