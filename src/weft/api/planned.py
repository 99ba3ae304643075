"""What a network becomes for a machine: a plan, a program, C and a toolkit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from weft import export as toolkits
from weft.api.network import Network
from weft.api.remedy import tiles_that_fit
from weft.codegen.emit import Files, emit
from weft.errors import UserError, nearest
from weft.export.golden import golden, sample_inputs
from weft.kernels.chains import fuser
from weft.kernels.nest import Everywhere
from weft.kernels.offers import Layer, layers_of
from weft.kernels.table import implementer
from weft.ops.table import OPS
from weft.plan.lower import identifier, lower
from weft.plan.plan import Plan, make
from weft.plan.program import Program
from weft.plan.report import report, spans
from weft.reporting import announce
from weft.runtime.threads import thread_count
from weft.targets.table import target as find_target
from weft.targets.target import Target


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
    ) -> Plan:
        """Groups, layouts, order and memory for a target.

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
        """
        machine = find_target(target) if isinstance(target, str) else target
        threads = thread_count(threads)
        choices = Everywhere() if plain else choices
        implement = implementer(
            machine, threads=threads, exact=exact, choices=choices, libraries=libraries
        )
        fuse = None if plain else fuser(machine, threads=threads, exact=exact)
        announce("simplifying")
        graph = self.expanded(machine, exact=exact, plain=plain).graph
        announce("planning")
        made = make(graph, OPS, implement, threads, spread=bool(machine.caches), fuse=fuse)
        return replace(made, costs=machine.costs)

    def implementations(
        self,
        target: str | Target = "host",
        *,
        node: str = "",
        threads: int = 1,
        exact: bool = False,
        libraries: Sequence[str] = (),
    ) -> list[Layer]:
        """Who could compute each layer, who refuses and why, and what the plan chose.

        Args:
            target: the machine.
            node: only the layers that this node, of the simplified graph or of the model, is in.
            threads: that one run can use at the most.
            exact: see ``plan``.
            libraries: whose functions are alternatives, too.
        """
        machine = find_target(target) if isinstance(target, str) else target
        graph = self.expanded(machine, exact=exact).graph
        plan = self.plan(machine, threads=threads, exact=exact)
        found = layers_of(
            graph,
            OPS,
            machine,
            plan,
            threads=threads,
            exact=exact,
            node=node,
            libraries=libraries,
        )
        if node and not found:
            names = {name for each in graph.nodes for name in (each.name, *each.origin.sources)}
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
    ) -> Program:
        """The plan as calls of functions at addresses; arguments as for ``plan``."""
        plan = self.plan(
            target,
            threads=threads,
            exact=exact,
            plain=plain,
            choices=choices,
            libraries=libraries,
        )
        return lower(plan, _prefix(name) or self.graph.name)

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
        """
        machine = find_target(target) if isinstance(target, str) else target
        for each in also:
            toolkits.export_named(each)
        prefix = _prefix(name)
        _check_weights(weights, parts)
        net = self.bound()
        plan = net.plan(machine, threads=thread_count(threads), exact=exact, plain=plain)
        program = lower(plan, prefix or net.graph.name)
        given = self._arranged(inputs)
        if given is None:
            given = sample_inputs([(port.dtype, port.shape) for port in program.inputs])
        made = toolkits.Toolkit(
            files=emit(program, flavour or _dialect(machine, plain), weights, parts),
            report=report(plan),
            spans=spans(plan),
            golden=golden(given, net.reference(*given)),
            model=model or net.graph.name,
            target=machine.name,
            flags=machine.flags,
            also=tuple(also),
        )
        return toolkits.built(made, compiler)

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
        """

        def planned(net: Planned) -> Plan:
            count = thread_count(threads)
            return net.bound().plan(target, threads=count, exact=exact, plain=plain)

        def make(net: Planned) -> toolkits.Toolkit:
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
            )

        made = make(self)
        toolkits.check_room(
            made, ram, flash, lambda room: tiles_that_fit(self, made, room, planned, make)
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
