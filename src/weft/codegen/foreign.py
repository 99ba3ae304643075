"""What programs call that Weft did not write, gathered from their functions."""

from __future__ import annotations

from collections.abc import Collection

from weft.codegen.calls import walk_calls
from weft.errors import UserError
from weft.ir.foreign import Foreign
from weft.plan.program import ExternFunction, Program


def foreign_of(program: Program, taken: Collection[str]) -> Foreign:
    """Everything that the functions of a program call, each file once.

    Args:
        program: the program.
        taken: names of files that are generated.
    """
    called = {call.function for call, _ in walk_calls(program.all_steps)}
    files: dict[str, bytes] = {}
    flags: dict[str, None] = {}
    link: dict[str, None] = {}
    for function in program.functions:
        if not isinstance(function, ExternFunction) or function.name not in called:
            continue
        for name, content in function.foreign.files:
            if name in taken or files.setdefault(name, content) != content:
                raise UserError(
                    "files of kernels must have unique names",
                    got=f"two files {name}",
                    fix="Rename the plugin's file, or the network.",
                )
        flags.update(dict.fromkeys(function.foreign.flags))
        link.update(dict.fromkeys(function.foreign.link))
    return Foreign(tuple(sorted(files.items())), tuple(flags), tuple(link))


def preparations(program: Program) -> tuple[str, ...]:
    """Functions of libraries that must have returned 0 before the program runs."""
    called = {call.function for call, _ in walk_calls(program.all_steps)}
    found = [
        function.prepare
        for function in program.functions
        if isinstance(function, ExternFunction) and function.name in called and function.prepare
    ]
    return tuple(dict.fromkeys(found))
