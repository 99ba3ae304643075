"""How a network is built and tuned on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from weft.cached import cached_property
from weft.codegen.flavours import Dialect
from weft.deferred import later
from weft.errors import UserError
from weft.garbage import rare_collection
from weft.options import Options
from weft.plan.choice import MAX_ROUNDING
from weft.records import dataclass
from weft.runtime.build import build
from weft.runtime.compiler import Compiler, find_compiler, machine_flags, unfused_flags
from weft.runtime.identity import build_key, digest_of
from weft.runtime.library import Library
from weft.runtime.threads import thread_count
from weft.screen import several
from weft.targets.find import host, runs_here
from weft.targets.target import Target

if TYPE_CHECKING:
    from weft.api.given import machine_of, text_of
    from weft.api.network import Network, bound
    from weft.api.planned import lowered, made_plan
    from weft.export.golden import sample_inputs
    from weft.plan.plan import Plan
    from weft.runtime.calls import prepared_calls
    from weft.runtime.choices import Choices, context_of
    from weft.runtime.measure import compiler_named
    from weft.runtime.tune import Setup, Tuning
    from weft.runtime.tune import tune as measure
else:
    # A start from the cache needs none of these.
    machine_of, text_of = later("weft.api.given").machine_of, later("weft.api.given").text_of
    bound = later("weft.api.network").bound
    lowered, made_plan = later("weft.api.planned").lowered, later("weft.api.planned").made_plan
    sample_inputs = later("weft.export.golden").sample_inputs
    prepared_calls = later("weft.runtime.calls").prepared_calls
    Choices, context_of = (
        later("weft.runtime.choices").Choices,
        later("weft.runtime.choices").context_of,
    )
    compiler_named = later("weft.runtime.measure").compiler_named
    Setup, measure = later("weft.runtime.tune").Setup, later("weft.runtime.tune").tune


@dataclass(frozen=True)
class Build:
    """How networks are built here.

    Attributes:
        options: with the threads, and of a given plan its text and what it decides.
        machine: this one, perhaps with less vector instructions than it has.
        compiler: that compiles the C; arguments: for it, that were given with it.
        dialect: of the C.
    """

    options: Options
    machine: Target
    compiler: Compiler
    arguments: tuple[str, ...]
    dialect: Dialect

    @cached_property
    def flags(self) -> list[str]:
        """Flags for the compiler."""
        flags = [*machine_flags(self.compiler, self.dialect, self.machine), *self.arguments]
        return [*flags, *unfused_flags(self.compiler)] if self.options.plain else flags

    @cached_property
    def context(self) -> str:
        """What the choices in the database depend on."""
        return context_of(self.compiler, self.flags)

    def told(self) -> str:
        """The options in a line, for people."""
        asked = self.options
        parts = [self.dialect.name]
        if self.dialect.vectors:
            parts.append(f"vectors of {self.machine.vector_bytes} bytes")
        parts.append(several(asked.threads or 1, "thread"))
        if asked.batch != 1:
            parts.append(f"batch {asked.batch}")
        words = {
            "exact": asked.exact,
            "plain": asked.plain,
            "tuned": asked.tune,
            "planned": asked.plan,
            "parameters at run time": asked.parameters,
            "read in place": asked.in_place,
            f"{asked.encoding} weights": asked.encoding,
            f"stored as {asked.precision}": asked.precision,
            f"rounding by at most {asked.max_rounding:g}": asked.max_rounding != MAX_ROUNDING,
            f"optimized for {asked.optimize}": asked.optimize,
        }
        return ", ".join([*parts, *(word for word, on in words.items() if on), *asked.libraries])

    def key(self, identity: str, choices: Mapping[str, str]) -> str:
        """What the cache knows the built network by.

        Args:
            identity: of the network.
            choices: alternatives by layer.
        """
        asked = self.options
        parts = (self.machine, asked.threads, asked.exact, asked.plain, asked.tune)
        parts += (digest_of(choices), asked.libraries, str(asked.plan or ""), asked.parameters)
        parts += tuple((asked.regions or {}).items())
        parts += (asked.encoding, asked.optimize, asked.precision, asked.keep_float32)
        parts += (asked.max_rounding, asked.in_place)
        return build_key(self.compiler, self.dialect, self.flags, identity, asked.batch, *parts)

    @rare_collection()
    def library(self, net: Network, choices: Mapping[str, str]) -> Library:
        """A network, built; it is released, and so is what was made of its weights, when packed."""
        options = replace(
            self.options, target=self.machine, simd="", choices=choices or None, tune=False
        )
        with prepared_calls():
            plan = made_plan(bound(net, options.batch), options)
            program = lowered(plan, in_place=options.in_place)
            net.release()
            return build(program, self.dialect, compiler=self.compiler, flags=self.flags)

    def tune(
        self,
        net: Network,
        known: Mapping[str, str],
        seconds: float,
        inputs: Sequence[np.ndarray] | None = None,
        report: Callable[[float, str], None] | None = None,
    ) -> Tuning:
        """Measures alternatives of a network's layers and keeps the best in the database.

        Args:
            net: the network, whose states are inputs and outputs like others.
            known: alternatives by layer that are not measured again.
            seconds: for how long networks run in all.
            inputs: to run on; seeded random ones if not given.
            report: is told what happens.
        """
        static = bound(net, self.options.batch)
        options = replace(
            self.options, target=self.machine, simd="", tune=False, plain=False, parameters=()
        )

        def plan(choices: Mapping[str, str]) -> Plan:
            return made_plan(static, replace(options, choices=choices))

        setup = Setup(plan, self.compiler, self.dialect, self.flags)
        if inputs is None:
            types = [static.graph.types[name] for name in static.graph.inputs]
            inputs = sample_inputs([(each.dtype, each.dims) for each in types])
        found = measure(setup, inputs, known, seconds=seconds, report=report)
        Choices().keep(self.context, found.entries(self.compiler))
        return found


def build_here(options: Options) -> Build:
    """How networks are built for this machine."""
    machine = host(options.simd)
    if options.plan is not None:
        if options.tune or options.simd:
            got = str(options.tune or options.simd)
            raise UserError("tune and simd cannot be combined with a plan", got=got)
        text = text_of(options.plan)
        options = options.of_plan(text)
        machine = machine_of(text)
        if not runs_here(machine):
            raise UserError("only a plan for this machine can be compiled", got=machine.name)
    compiler, arguments = options.compiler or find_compiler(), ()
    if isinstance(compiler, str):
        compiler, arguments = compiler_named(compiler)
    dialect = options.dialect(machine.flavour)
    options = replace(options, threads=thread_count(options.threads))
    return Build(options, machine, compiler, arguments, dialect)
