"""Networks as C libraries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol, Self, Unpack

import numpy as np

from weft.api.network import Network, arranged_inputs, bound
from weft.api.planned import lowered, made_plan
from weft.codegen.emit import emit
from weft.codegen.flavours import Dialect
from weft.codegen.naming import identifier
from weft.errors import UserError
from weft.export.golden import sample_inputs
from weft.export.package import MARKER, CLibrary, WeightsPlace, write_library
from weft.export.toolkit import check_folder
from weft.ir.graph import Graph
from weft.options import DeployKeywords, Options, chosen
from weft.plan.lowering import program_name
from weft.plan.program import Program
from weft.records import dataclass
from weft.runtime.compiler import Compiler, find_compiler, machine_flags, unfused_flags
from weft.runtime.library import Library
from weft.runtime.measure import compiler_named
from weft.targets.target import Target


class _Compiled(Protocol):
    @property
    def library(self) -> Library: ...


class Compilable(Network, Protocol):
    """A network that can be built for this machine."""

    def with_graph(self, graph: Graph) -> Self:
        """The same of another graph."""
        ...

    def compile(self, *, options: Options | None = None) -> _Compiled:
        """Builds it."""
        ...


def deploy(
    net: Compilable,
    folder: str | Path,
    target: str | Target = "",
    *,
    weights: WeightsPlace = "file",
    version: str = "1.0.0",
    options: Options | None = None,
    **keywords: Unpack[DeployKeywords],
) -> CLibrary:
    """Writes a C library: sources, header, CMake package, weights and examples.

    For this machine it is built, too, and has the very bits of ``net.compile``: the folder's
    ``lib`` has a shared and a static library.

    Args:
        folder: absent, empty, or an earlier library, which is replaced as a whole.
        target: the machine; this one if not given.
        weights: ``file`` for a file that the library reads, ``inside`` for a part of it.
        version: ``MAJOR.MINOR.PATCH``; the first number is that of the ABI: raise it with
            inputs and outputs that programs cannot use as before.
        options: see ``weft.Options``, as for the keywords.
        keywords: options; one thread if ``threads`` is not given.

    Raises:
        UserError: an option has no possible value, or the folder has other files.
    """
    asked = chosen(DeployKeywords, options, keywords, target=target)
    if weights not in ("file", "inside"):
        raise UserError("weights must be file or inside", got=repr(weights))
    check_folder(Path(folder), MARKER, "C library")  # before anything takes time
    made = made_library(net, asked, inside=weights == "inside", version=version)
    write_library(made, Path(folder))
    return made


def made_library(net: Compilable, options: Options, *, inside: bool, version: str) -> CLibrary:
    """The library that the options give."""
    name = options.name or program_name(identifier(net.graph.name).lower())
    net = bound(net, options.batch)
    net = net.with_graph(replace(net.graph, name=name))
    options = replace(options, name=name, threads=options.threads or 1)
    machine = options.machine()
    here = machine.name == "host"
    compiler = _compiler(options, here)
    made = _here(net, options, compiler) if here and compiler else _Made(_program(net, options))
    dialect = _dialect(options, machine)
    return CLibrary(
        files=emit(made.program, dialect, "blob", 1),
        model=options.model or net.graph.name,
        target=machine.name,
        flags=_flags(dialect, machine, options.plain),
        prepared=made.prepared,
        inside=inside,
        version=version,
        inputs=made.inputs,
        outputs=made.outputs,
        compiler=compiler,
    )


@dataclass(frozen=True)
class _Made:
    """A program, and what is known of it where it runs."""

    program: Program
    prepared: bytes = b""
    inputs: tuple[np.ndarray, ...] = ()
    outputs: tuple[np.ndarray, ...] = ()


def _program(net: Compilable, options: Options) -> Program:
    return lowered(made_plan(net, options), options.name)


def _here(net: Compilable, options: Options, compiler: Compiler) -> _Made:
    """Built and run on this machine; weights given at run time are prepared."""
    compiled = net.compile(options=replace(options, compiler=options.compiler or compiler))
    inputs = arranged_inputs(net, options.inputs)
    if inputs is None:
        inputs = sample_inputs([(port.dtype, port.shape) for port in compiled.library.inputs])
    given = [np.asarray(each, order="C") for each in inputs]  # scalars stay scalars
    found = compiled.library(*given)
    prepared = compiled.library.prepared
    return _Made(compiled.library.program, bytes(prepared), tuple(given), tuple(found))


def _compiler(options: Options, here: bool) -> Compiler | None:
    """The compiler that builds the library, if one does."""
    given = options.compiler
    if isinstance(given, str):
        return compiler_named(given)[0]
    if given is not None or not here:
        return given
    try:
        return find_compiler()
    except UserError:
        return None


def _dialect(options: Options, machine: Target) -> Dialect:
    own = "c99" if options.plain and machine.flavour == "gnu" else machine.flavour
    return options.dialect(own)


def _flags(dialect: Dialect, machine: Target, plain: bool) -> dict[str, list[str]]:
    """Compiler flags by kind of compiler."""
    found: dict[str, list[str]] = {}
    for kind in ("gcc", "clang", "zig", "other"):
        compiler = Compiler((kind,), kind, "")
        found[kind] = machine_flags(compiler, dialect, machine)
        found[kind] += unfused_flags(compiler) if plain else []
    return found
