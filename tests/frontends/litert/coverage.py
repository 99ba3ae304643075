"""Writes ``docs/litert-coverage.md``: ``python -m tests.frontends.litert.coverage``."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.frontends.litert.builder import schema
from tests.frontends.litert.cases import CASES
from weft.frontends.litert.rows import names

PAGE = Path(__file__).resolve().parents[3] / "docs" / "litert-coverage.md"
ELSEWHERE = {
    "COMPLEX_ABS": "test_spectra.py",
    "IMAG": "test_spectra.py",
    "REAL": "test_spectra.py",
    "RFFT2D": "test_spectra.py",
    "ASSIGN_VARIABLE": "test_states.py",
    "CALL": "test_states.py",
    "CALL_ONCE": "test_states.py",
    "IF": "test_states.py",
    "READ_VARIABLE": "test_states.py",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "test_recurrent.py",
    "BIDIRECTIONAL_SEQUENCE_RNN": "test_recurrent.py",
    "LSTM": "test_recurrent.py",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "test_states.py, test_recurrent.py",
    "VAR_HANDLE": "test_states.py",
    "WHILE": "test_states.py",
}
WHY = {
    "DELEGATE": "no operator of files",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "no operator of files",
    "CUSTOM": "custom operators are refused by name",
    "WHERE": "the shape of its result depends on values",
    "UNIQUE": "the shape of its result depends on values",
    "NON_MAX_SUPPRESSION_V4": "the shape of its result depends on values",
    "NON_MAX_SUPPRESSION_V5": "the shape of its result depends on values",
    "HASHTABLE": "hash tables are not supported",
    "HASHTABLE_FIND": "hash tables are not supported",
    "HASHTABLE_IMPORT": "hash tables are not supported",
    "HASHTABLE_SIZE": "hash tables are not supported",
    "HASHTABLE_LOOKUP": "hash tables are not supported",
    "LSH_PROJECTION": "hash tables are not supported",
    "SKIP_GRAM": "strings are not supported",
    "RANDOM_UNIFORM": "random numbers are not supported",
    "RANDOM_STANDARD_NORMAL": "random numbers are not supported",
    "MULTINOMIAL": "random numbers are not supported",
    "DENSIFY": "sparse weights are not supported",
}


def page() -> str:
    """The page's text."""
    counts: dict[str, int] = defaultdict(int)
    types: dict[str, dict[str, None]] = defaultdict(dict)
    for case in CASES:
        counts[case.name] += 1
        types[case.name][case.types] = None
    known = sorted(names())
    every = {name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
    missing = sorted(each for each in every - set(known) if not each.startswith("STABLEHLO"))
    rows = [f"| `{name}` | {_types(types[name])} | {_cases(name, counts)} |" for name in known]
    refused = [f"| `{name}` | {WHY.get(name, 'not yet')} |" for name in missing]
    far = ("RESIZE_BILINEAR", "SOFTMAX", "LOG", "RSQRT")
    steps = max(case.steps for case in CASES if case.name not in far)
    return "\n".join(
        [
            "# LiteRT coverage",
            "",
            "<!-- Written by `python -m tests.frontends.litert.coverage`; do not edit. -->",
            "",
            f"{len(known)} builtin operators are imported. {len(CASES)} generated models of",
            "one operator each agree with LiteRT's interpreter (its reference kernels where",
            "there are any): floats within 1e-5 of the range, integers exactly.",
            "",
            "Quantized operators of 8 and 16 bits have the bits of LiteRT's reference kernels, but",
            "for:",
            "",
            "- `RESIZE_BILINEAR` of uint8, `SUM` and `L2_NORMALIZATION`, which are left in float:",
            "  at most 1 step of the output's scale. Left in float and with the same bits in all",
            "  cases are `LOG_SOFTMAX` and `RSQRT` of int8; `SQUARED_DIFFERENCE` is 1 step off",
            "  where LiteRT's fixed point rounds otherwise.",
            "- `QUANTIZE` of floats: halves go to the even number, as in the vectors of LiteRT's",
            "  usual kernels; its reference kernels round them away from zero.",
            "- `DIV`: where a quotient is less than about half a step, LiteRT's kernel may give",
            "  the largest or least number; Weft gives the quotient.",
            "- `FULLY_CONNECTED`: LiteRT 2 scales its sums in double precision, TensorFlow Lite",
            "  and Weft in fixed point: 1 step.",
            "",
            "With `--rounding float` operators of bytes differ by at most 1 step, those of 16 bits",
            f"by at most {steps}, by up to 128 in `RESIZE_BILINEAR`, 24 in `SOFTMAX` and, next",
            "to 0, 40 in `RSQRT` and 2,200 in `LOG`, where LiteRT interpolates in tables. Layers",
            "in float whose weights are integers (`int8 weights`) quantize their inputs in each",
            "run, as LiteRT's kernels do: see [litert.md](litert.md).",
            "",
            "| operator | types | cases |",
            "|---|---|---:|",
            *rows,
            "",
            "Refused, together and by name:",
            "",
            "| operator | reason |",
            "|---|---|",
            *refused,
            "| `STABLEHLO_*` | not yet |",
            "| custom, `Flex*` | not LiteRT's: refused with their names |",
            "",
        ]
    )


def _types(found: dict[str, None]) -> str:
    return ", ".join(sorted(found))


def _cases(name: str, counts: dict[str, int]) -> str:
    return str(counts[name]) if counts[name] else ELSEWHERE[name]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
