"""The state of a generated library: where it lies, and the function that clears it."""

from __future__ import annotations

from weft.codegen.layout import comment
from weft.codegen.naming import CNames, comment_text, identifier
from weft.plan.program import Program


def offset_names(program: Program) -> tuple[str, ...]:
    """Names of the constants that say where each state lies."""
    prefix = program.name.upper()
    names = CNames([f"{prefix}_STATE_BYTES"])
    return tuple(
        names.fresh(f"{prefix}_STATE_{identifier(each.port.name).upper()}")
        for each in program.states
    )


def state_constants(program: Program) -> list[tuple[str, int, str]]:
    """Names, values and explanations of the constants of the state."""
    if not program.states:
        return []
    rows = [(f"{program.name.upper()}_STATE_BYTES", program.state_bytes, "size of the state")]
    for name, each in zip(offset_names(program), program.states, strict=True):
        shape = ",".join(map(str, each.port.shape))
        what = f"where {comment_text(each.port.name)} lies in it, {each.port.dtype.value}[{shape}]"
        rows.append((name, each.offset, what))
    return rows


def reset_declaration(reset: str, prefix: str) -> list[str]:
    """The declaration of the function that clears the state."""
    return [
        *comment(
            [
                "Clears a state: all zeros, as before the first run. Other initial values are",
                "copied to where the constants above say. Each stream of inputs has a state of its",
                f"own. Returns 0 or {prefix}_NULL_POINTER.",
            ]
        ),
        f"int {reset}(void *state);",
        "",
    ]


def reset_function(reset: str, prefix: str) -> list[str]:
    """The definition of the function that clears the state, if there is one."""
    if not reset:
        return []
    return [
        f"int {reset}(void *state)",
        "{",
        "    unsigned char *const bytes = (unsigned char *)state;",
        "    size_t i;",
        "    if (state == NULL) {",
        f"        return {prefix}_NULL_POINTER;",
        "    }",
        f"    for (i = 0u; i < (size_t){prefix}_STATE_BYTES; ++i) {{",
        "        bytes[i] = 0u;",
        "    }",
        "    return 0;",
        "}",
        "",
    ]
