"""How a toolkit is built, and what a compiler that is named makes of it."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from weft.errors import UserError
from weft.export.toolkit import Toolkit, ToolkitBuild
from weft.runtime.compiler import Compiler, archiver_of, find_compiler
from weft.runtime.measure import compiler_named, measure

MOST_WEIGHTS = 8 << 20
"""Bytes of weights up to which C is compiled only to know its figures: a second or two."""


def built(toolkit: Toolkit, compiler: Compiler | str | None = None) -> Toolkit:
    """A toolkit with the figures of a compiler for the stack, and for code and constants.

    Args:
        toolkit: with estimates.
        compiler: the compiler and its flags, which the Makefile then names; if none is given,
            code for this machine is measured with the compiler that is found here.
    """
    if compiler:
        found, flags = (
            (compiler, ()) if isinstance(compiler, Compiler) else compiler_named(compiler)
        )
        flags = flags if any(flag.startswith("-O") for flag in flags) else ("-O2", *flags)
        flags = (*flags, *(each for each in toolkit.flags if not _chosen(flags)))
        build = ToolkitBuild(shlex.join(found.command), shlex.join(archiver_of(found)), flags)
        return _measured(replace(toolkit, build=build), found, flags)
    if toolkit.target != "host" or toolkit.report.weight_bytes > MOST_WEIGHTS:
        return toolkit
    try:
        found = find_compiler()
    except UserError:
        return toolkit
    return _measured(toolkit, found, ("-O2", *toolkit.flags))


def _chosen(flags: tuple[str, ...]) -> bool:
    return any(re.match(r"-m(arch|cpu|tune)=", flag) for flag in flags)


def _measured(toolkit: Toolkit, compiler: Compiler, flags: tuple[str, ...]) -> Toolkit:
    made = measure(toolkit.files, compiler, flags)
    files = toolkit.files if made.stack is None else toolkit.files.with_stack(made.stack)
    build = replace(toolkit.build, flash=made.flash, measured=made.compiler)
    return replace(toolkit, files=files, build=build)
