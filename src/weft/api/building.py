"""How a network is built and tuned on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.api.given import PlanSource, agreed, machine_of, text_of
from weft.api.planned import Planned
from weft.codegen.flavours import Dialect, flavour_named
from weft.errors import UserError
from weft.export.golden import sample_inputs
from weft.ir.graph import Graph
from weft.kernels.libraries import checked
from weft.ops.table import OPS
from weft.plan.text import PlanText
from weft.runtime.choices import Choices, context_of, digest_of
from weft.runtime.compiler import Compiler, find_compiler, machine_flags, unfused_flags
from weft.runtime.identity import build_key
from weft.runtime.library import Library, build
from weft.runtime.threads import thread_count
from weft.runtime.tune import Setup, Tuning
from weft.runtime.tune import tune as measure
from weft.targets.table import host, runs_here
from weft.targets.target import Target


@dataclass(frozen=True)
class Build:
    """How networks are built.

    Attributes:
        machine: this one, perhaps with less vector instructions than it has.
        batch: size of an open leading dimension.
        threads: that one run can use at the most.
        exact: see ``Net.plan``, as for ``plain``.
        plain: compiled so that products and sums round on their own.
        compiler: that compiles the C.
        flavour: of the C.
        libraries: whose functions choices may name.
        plan: that is built, if one was given.
    """

    machine: Target
    batch: int
    threads: int
    exact: bool
    plain: bool
    compiler: Compiler
    flavour: Dialect
    libraries: tuple[str, ...] = ()
    plan: PlanText | None = None

    @cached_property
    def flags(self) -> list[str]:
        """Flags for the compiler."""
        flags = machine_flags(self.compiler, self.flavour, self.machine)
        return [*flags, *unfused_flags(self.compiler)] if self.plain else flags

    @cached_property
    def context(self) -> str:
        """What the choices in the database depend on."""
        return context_of(self.compiler, self.flags)

    def told(self, tuned: bool) -> str:
        """The options in a line, for people."""
        parts = [self.flavour.name]
        if self.flavour.vectors:
            parts.append(f"vectors of {self.machine.vector_bytes} bytes")
        parts.append("1 thread" if self.threads == 1 else f"{self.threads} threads")
        if self.batch != 1:
            parts.append(f"batch {self.batch}")
        given = self.plan is not None
        asked = (("exact", self.exact), ("plain", self.plain), ("tuned", tuned), ("planned", given))
        return ", ".join([*parts, *(word for word, wanted in asked if wanted), *self.libraries])

    def key(self, identity: str, tune: object, choices: Mapping[str, str]) -> str:
        """What the cache knows the built network by.

        Args:
            identity: of the network.
            tune: whether choices were asked for.
            choices: alternatives by layer.
        """
        options = (self.machine, self.threads, self.exact, self.plain, tune, digest_of(choices))
        options += (self.libraries,) if self.libraries else ()
        options += (str(self.plan),) if self.plan else ()
        return build_key(self.compiler, self.flavour, self.flags, identity, self.batch, *options)

    def library(self, net: Planned, choices: Mapping[str, str]) -> Library:
        """A network, built."""
        program = net.bound(self.batch).program(
            self.machine,
            threads=self.threads,
            exact=self.exact,
            plain=self.plain,
            choices=choices,
            libraries=self.libraries,
            plan=self.plan,
        )
        return build(program, self.flavour, compiler=self.compiler, flags=self.flags)

    def tune(
        self,
        graph: Graph,
        known: Mapping[str, str],
        seconds: float,
        inputs: Sequence[np.ndarray] | None = None,
        report: Callable[[float, str], None] | None = None,
    ) -> Tuning:
        """Measures alternatives of a graph's layers and keeps the best in the database.

        Args:
            graph: the network's.
            known: alternatives by layer that are not measured again.
            seconds: for how long networks run in all.
            inputs: to run on; seeded random ones if not given.
            report: is told what happens.
        """
        planned = Planned(graph).bound(self.batch).expanded(self.machine, exact=self.exact).graph
        setup = Setup(
            planned,
            OPS,
            self.machine,
            self.threads,
            self.exact,
            self.compiler,
            self.flavour,
            self.flags,
            self.libraries,
        )
        if inputs is None:
            inputs = sample_inputs([(each.dtype, each.dims) for each in setup.inputs])
        found = measure(setup, inputs, known, seconds=seconds, report=report)
        Choices().keep(self.context, found.entries(self.compiler))
        return found


def build_here(
    *,
    batch: int,
    flavour: str,
    simd: str,
    threads: int | None,
    exact: bool,
    compiler: Compiler | None,
    plain: bool = False,
    libraries: Sequence[str] = (),
    plan: PlanSource | None = None,
) -> Build:
    """How networks are built for this machine; arguments as for ``Net.compile``."""
    text = None if plan is None else text_of(plan)
    machine = host(simd)
    if text is not None:
        asked = {"threads": (threads, None), "libraries": (tuple(libraries), ())}
        agreed(text, {**asked, "exact": (exact, False), "plain": (plain, False)})
        machine, threads, asked = machine_of(text), text.threads, text.constraints
        exact, plain, libraries = asked.exact, asked.plain, asked.libraries
        flavour = flavour or asked.flavour
        if not runs_here(machine):
            raise UserError("a plan that is compiled must be for this machine", got=machine.name)
    return Build(
        machine,
        batch,
        thread_count(threads),
        exact,
        plain,
        compiler or find_compiler(),
        flavour_named(flavour or machine.flavour),
        checked(libraries),
        text,
    )
