"""How exported programs print integers that C89 has no format for."""

from __future__ import annotations

from collections.abc import Collection

from weft.codegen.naming import STORAGE
from weft.dtypes import DType

_SIGNED = """\
static void print_{type}({type} value)
{{
    if (value > 9 || value < -9) {{
        print_{type}(value / 10);
    }} else if (value < 0) {{
        putchar('-');
    }}
    putchar('0' + (int)(value < 0 ? -(value % 10) : value % 10));
}}
"""
_UNSIGNED = """\
static void print_{type}({type} value)
{{
    if (value > 9u) {{
        print_{type}(value / 10u);
    }}
    putchar('0' + (int)(value % 10u));
}}
"""


def wide_printers(dtypes: Collection[DType]) -> str:
    """C functions ``print_TYPE`` for those of the types that ``long`` may be too short for."""
    printers = {DType.I64: _SIGNED, DType.U64: _UNSIGNED}
    found = [text.format(type=STORAGE[each]) for each, text in printers.items() if each in dtypes]
    return "\n".join(found)
