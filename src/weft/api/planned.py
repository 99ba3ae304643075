"""What a network becomes for a machine: a plan, a program, C and a toolkit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from weft import export as toolkits
from weft.api.given import PlanSource, agreed, machine_of, text_of
from weft.api.network import Network
from weft.api.remedy import tiles_that_fit
from weft.codegen.emit import Files, emit
from weft.errors import UserError, nearest
from weft.export.golden import Golden, golden, golden_runs, sample_inputs
from weft.kernels.chains import fuser, named_fuser
from weft.kernels.libraries import checked
from weft.kernels.nest import Everywhere
from weft.kernels.offers import Layer, layers_of
from weft.kernels.table import implementer, named_implementer
from weft.ops.table import OPS
from weft.plan.choice import Measured
from weft.plan.given import Given, fits
from weft.plan.lower import identifier, lower
from weft.plan.make import make, planned
from weft.plan.plan import Plan
from weft.plan.program import Program
from weft.plan.report import report, spans
from weft.plan.text import Constraints
from weft.reporting import announce
from weft.runtime.threads import thread_count
from weft.targets.table import target as find_target
from weft.targets.target import Target

RUNS = 4
"""Of a self-test of a net with state: what runs hand on shows in the later ones."""


@dataclass(frozen=True, repr=False)
class Planned(Network):
    """A network that can be planned and written for a machine."""

    def plan(
        self,
        target: str | Target = "host",
        *,
        threads: int = 1,
        exact: bool = False,
        plain: bool = False,
        choices: Mapping[str, str] | None = None,
        libraries: Sequence[str] = (),
        flavour: str = "",
        ram: int | None = None,
        flash: int | None = None,
    ) -> Plan:
        """Groups, kernels, layouts, order and memory for a target; ``str`` of it parses back.

        Args:
            target: the machine.
            threads: that one run can use at the most.
            exact: leave out kernels that round otherwise than the definitions do, such as
                Winograd convolution; sums may still be in another order.
            plain: plain loops, which add up in the order of the definitions, and only rules
                that are bit-exact; slow.
            choices: alternatives by layer, as ``tune`` finds them, in place of those that
                the estimates prefer.
            libraries: whose functions choices may name: ``onednn``, where it is installed.
            flavour: of the C, for what exports the plan, as the next two (see ``export``).
            ram: limit in bytes.
            flash: likewise.
        """
        machine = find_target(target) if isinstance(target, str) else target
        threads = thread_count(threads)
        tuned = isinstance(choices, Measured) and bool(choices) and not plain
        constraints = Constraints(exact, plain, checked(libraries), tuned, flavour, ram, flash)
        choices = Everywhere() if plain else choices
        implement = implementer(
            machine, threads=threads, exact=exact, choices=choices, libraries=libraries
        )
        fuse = None if plain else fuser(machine, threads=threads, exact=exact)
        announce("simplifying")
        graph = self.expanded(machine, exact=exact, plain=plain).graph
        announce("planning")
        made = make(
            graph,
            OPS,
            implement,
            threads,
            spread=bool(machine.caches),
            fuse=fuse,
            states=self._places,
        )
        return replace(made, target=machine, constraints=constraints)

    def plan_from(self, source: PlanSource, target: Target | None = None) -> Plan:
        """The plan that a text or a file says, every decision checked.

        Args:
            source: a plan, also of the same network with other weights, its text (a string of
                several lines), or the file of one.
            target: the machine, where it is none that its name finds.

        Raises:
            UserError: the plan is of another network or machine, or breaks a rule.
        """
        text = text_of(source)
        machine, threads, asked = machine_of(text, target), text.threads, text.constraints
        announce("simplifying")
        graph = self.expanded(machine, exact=asked.exact, plain=asked.plain).graph
        fits(text, graph)
        decisions = Given(
            text.body,
            named_implementer(
                machine, threads=threads, exact=asked.exact, libraries=asked.libraries
            ),
            named_fuser(machine, threads=threads, exact=asked.exact),
        )
        announce("planning")
        spread = bool(machine.caches)
        made = planned(graph, OPS, decisions, threads, spread=spread, states=self._places)
        return replace(made, target=machine, constraints=asked)

    @property
    def _places(self) -> dict[str, int]:
        """By input that is a state, the place of its next value among the outputs."""
        return {value: self.graph.outputs.index(output) for value, output in self.states}

    def implementations(
        self,
        target: str | Target = "host",
        *,
        node: str = "",
        threads: int = 1,
        exact: bool = False,
        libraries: Sequence[str] = (),
    ) -> list[Layer]:
        """The alternatives for each layer, the refusals with reasons, and what the plan chose.

        Args:
            target: the machine.
            node: only the layers that this node, of the simplified graph or of the model, is in.
            threads: that one run can use at the most.
            exact: see ``plan``.
            libraries: whose functions are alternatives, too.
        """
        plan = self.plan(target, threads=threads, exact=exact, libraries=libraries)
        found = layers_of(plan, node)
        if node and not found:
            nodes = plan.graph.nodes
            names = {name for each in nodes for name in (each.name, *each.origin.sources)}
            raise UserError(
                "a layer is asked for by a node of it",
                got=node,
                fix=nearest(node, names, 1),
            )
        return found

    def program(
        self,
        target: str | Target = "host",
        name: str = "",
        threads: int = 1,
        *,
        exact: bool = False,
        plain: bool = False,
        choices: Mapping[str, str] | None = None,
        libraries: Sequence[str] = (),
        plan: PlanSource | None = None,
    ) -> Program:
        """The plan, or one that is given, as calls of functions at addresses.

        Arguments as for ``plan`` and ``plan_from``.
        """
        if plan is not None:
            made = self.plan_from(plan)
        else:
            made = self.plan(
                target,
                threads=threads,
                exact=exact,
                plain=plain,
                choices=choices,
                libraries=libraries,
            )
        return lower(made, _prefix(name) or self.graph.name)

    def source(
        self,
        target: str | Target = "host",
        *,
        name: str = "",
        flavour: str = "",
        weights: str = "arrays",
        parts: int = 1,
        threads: int = 1,
        exact: bool = False,
        plain: bool = False,
    ) -> Files:
        """The net as C.

        Args:
            target: the machine.
            name: prefix of everything public.
            flavour: ``c89``, ``c99`` or ``gnu``; the target's own if not given.
            weights: ``arrays`` or ``blob``.
            parts: number of sources.
            threads: that one run can use at the most; the caller brings them.
            exact: see ``plan``.
            plain: loops to read and audit; see ``plan``.
        """
        machine = find_target(target) if isinstance(target, str) else target
        _check_weights(weights, parts)
        program = self.program(machine, name, thread_count(threads), exact=exact, plain=plain)
        return emit(program, flavour or _dialect(machine, plain), weights, parts)

    def toolkit(
        self,
        target: str | Target = "generic",
        *,
        name: str = "",
        flavour: str = "",
        weights: str = "arrays",
        parts: int = 1,
        threads: int = 1,
        exact: bool = False,
        plain: bool = False,
        inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray] | None = None,
        model: str = "",
        also: Sequence[str] = (),
        compiler: str = "",
        plan: PlanSource | None = None,
    ) -> toolkits.Toolkit:
        """The net as C with its build file, self-test, memory map and report.

        Args:
            target: the machine.
            name: prefix of everything public.
            flavour: ``c89``, ``c99`` or ``gnu``; the target's own if not given.
            weights: ``arrays`` or ``blob``.
            parts: number of sources; 0 is one for each function.
            threads: that one run can use at the most; with more than one, a pool of threads
                is part of the toolkit.
            exact: see ``plan``.
            plain: loops to read and audit; see ``plan``.
            inputs: for the self-test, in order or by name; seeded random ones if not given.
            model: what was compiled, for people; the graph's name if not given.
            also: names of exports of plugins, whose files are written, too.
            compiler: the compiler and its flags, as one would type them: the toolkit is built with
                them, and they say what it takes of stack and flash. Without, both are estimates,
                for a target other than ``host``.
            plan: what is written, as for ``plan_from``, which then has the target, the number
                of threads and the like.
        """
        for each in also:
            toolkits.export_named(each)
        prefix = _prefix(name)
        _check_weights(weights, parts)
        net = self.bound()
        if plan is None:
            chosen = net.plan(target, threads=thread_count(threads), exact=exact, plain=plain)
        else:
            text = text_of(plan)
            asked = {"target": (target, "generic"), "threads": (threads, 1)}
            agreed(text, {**asked, "exact": (exact, False), "plain": (plain, False)})
            chosen = net.plan_from(text, target if isinstance(target, Target) else None)
        machine, constraints = cast(Target, chosen.target), chosen.constraints
        flavour = flavour or constraints.flavour or _dialect(machine, constraints.plain)
        program = lower(chosen, prefix or net.graph.name)
        given = self._arranged(inputs)
        made = toolkits.Toolkit(
            files=emit(program, flavour, weights, parts),
            report=report(chosen),
            spans=spans(chosen),
            golden=net.golden(program, given),
            model=model or net.graph.name,
            target=machine.name,
            flags=machine.flags,
            also=tuple(also),
        )
        return toolkits.built(made, compiler)

    def golden(self, program: Program, inputs: Sequence[np.ndarray] | None) -> Golden:
        """What a self-test compares with: one run, or several where runs hand on state.

        Args:
            program: what is tested.
            inputs: of every run, without states; seeded random ones if not given.
        """
        held = {
            name: np.zeros(self.inputs[name].dims, self.inputs[name].dtype.numpy)
            for name, _ in self.states
        }
        given: list[Sequence[np.ndarray]] = []
        made: list[list[np.ndarray]] = []
        for run in range(RUNS if self.states else 1):
            ports = [(port.dtype, port.shape) for port in program.inputs]
            given.append(sample_inputs(ports, run) if inputs is None else inputs)
            found = self.reference({**held, **dict(zip(self.free_inputs, given[-1], strict=True))})
            named = dict(zip(self.graph.outputs, found, strict=True))
            held = {name: named.pop(output) for name, output in self.states}
            made.append(list(named.values()) if self.states else list(found))
        return golden_runs(given, made) if self.states else golden(given[0], made[0])

    def export(
        self,
        folder: str | Path,
        target: str | Target = "generic",
        *,
        ram: int | None = None,
        flash: int | None = None,
        name: str = "",
        flavour: str = "",
        weights: str = "arrays",
        parts: int = 1,
        threads: int = 1,
        exact: bool = False,
        plain: bool = False,
        inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray] | None = None,
        model: str = "",
        also: Sequence[str] = (),
        compiler: str = "",
        plan: PlanSource | None = None,
    ) -> toolkits.Toolkit:
        """Writes a Software Toolkit; see ``toolkit``.

        Args:
            folder: absent, empty, or an earlier toolkit, which is replaced.
            target: the machine.
            ram: bytes that arena, stack, inputs and outputs must fit into.
            flash: bytes that code and constants must fit into.
            name: prefix of everything public.
            flavour: dialect of C.
            weights: ``arrays`` or ``blob``.
            parts: number of sources.
            threads: that one run can use at the most.
            exact: see ``plan``.
            plain: loops to read and audit; see ``plan``.
            inputs: for the self-test.
            model: what was compiled, for people.
            also: names of exports of plugins.
            compiler: the compiler and its flags; see ``toolkit``.
            plan: what is written; see ``toolkit``.  Its limits of RAM and flash hold where
                none are given.
        """
        text = text_of(plan) if plan is not None else None
        asked = text.constraints if text else Constraints(exact=exact, plain=plain)
        ram = asked.ram if ram is None else ram
        flash = asked.flash if flash is None else flash

        def plan_of(net: Planned) -> Plan:
            machine, count = (text.target, text.threads) if text else (target, threads)
            count = thread_count(count)
            return net.bound().plan(machine, threads=count, exact=asked.exact, plain=asked.plain)

        toolkits.check_folder(Path(folder))  # before anything takes time

        def make(net: Planned) -> toolkits.Toolkit:
            # Other networks, which might fit where this one does not, have plans of their own.
            given = plan_of(net) if text and net is not self else text
            return net.toolkit(
                target,
                name=name or self.graph.name,
                flavour=flavour,
                weights=weights,
                parts=parts,
                threads=threads,
                exact=exact,
                plain=plain,
                inputs=inputs,
                model=model,
                also=also,
                compiler=compiler,
                plan=given,
            )

        made = make(self)
        toolkits.check_room(
            made, ram, flash, lambda room: tiles_that_fit(self, made, room, plan_of, make)
        )
        toolkits.write(made, Path(folder))
        return made


def _prefix(name: str) -> str:
    """A prefix of everything public that the caller chose."""
    safe = identifier(name)
    if name and name != safe:
        raise UserError(
            "name must be a C identifier: letters, digits and single underscores between them, "
            "a letter first",
            got=repr(name),
            fix=f"For example: {safe}",
        )
    return name


def _check_weights(weights: str, parts: int) -> None:
    if weights not in ("arrays", "blob"):
        raise UserError("weights are written as arrays or blob", got=repr(weights))
    if parts < 0:
        raise UserError("parts must not be negative; 0 is one for each function", got=str(parts))


def _dialect(machine: Target, plain: bool) -> str:
    """The dialect of C where none is asked for: plain loops need no extensions of compilers."""
    return "c99" if plain and machine.flavour == "gnu" else machine.flavour
