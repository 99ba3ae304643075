"""What a network becomes as a toolkit, or as one C file."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack, cast

import numpy as np

from weft import export as toolkits
from weft.api.encoded import with_encoded
from weft.api.given import text_of
from weft.api.network import Network, arranged_inputs, bound, free_inputs, reference
from weft.api.planned import lowered, made_plan, plan_source
from weft.api.remedy import best_streamed, board_that_fits, remedy, within_ram
from weft.api.stepped import figures, golden_steps, port_scales, provenance, with_counts
from weft.errors import UserError
from weft.export.build import MOST_WEIGHTS as MOST_MEASURED
from weft.export.golden import Golden, golden_runs, sample_inputs
from weft.export.golden import golden as golden_run
from weft.export.limits import said
from weft.garbage import rare_collection
from weft.ops.inexact import inexact_values
from weft.ops.table import OPS
from weft.options import Options, SingleKeywords, ToolkitKeywords, chosen
from weft.plan.lowering import program_name
from weft.plan.plan import Plan
from weft.plan.program import Program
from weft.plan.report import Report, report, spans
from weft.records import dataclass
from weft.runtime.compiler import Compiler, find_compiler
from weft.targets.system import architecture
from weft.targets.target import Target

RUNS = 4
"""Of a self-test of a net with state: what runs hand on shows in the later ones."""


def toolkit(
    net: Network,
    target: str | Target = "",
    *,
    options: Options | None = None,
    **keywords: Unpack[ToolkitKeywords],
) -> toolkits.Toolkit:
    """The net as C with its build file, self-test, memory map and report.

    Args:
        target: the machine; portable C (``generic``) if not given.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.
    """
    return made_toolkit(net, chosen(ToolkitKeywords, options, keywords, target=target))


@rare_collection()
def made_toolkit(net: Network, options: Options, *, tests: bool = True) -> toolkits.Toolkit:
    """The toolkit that the options give.

    Args:
        net: what it is of.
        options: as for ``toolkit``.
        tests: whether to make golden data; without, it is for its figures only.
    """
    toolkits.chosen_templates(options.templates, options.also)  # before anything takes time
    net = bound(net)
    plan = made_plan(net, options, "generic")
    machine = cast(Target, plan.target)
    program = lowered(plan, options.name or net.graph.name)
    first = program.preparation
    files, rows = plan_source(plan, program, options, stepped=True), report(plan)
    data = Golden((), ())
    if tests:
        encoded, inputs = with_encoded(net, plan), arranged_inputs(net, options.inputs)
        data = golden(encoded, program, inputs, options.precision, _inexact(net, plan))
    made = toolkits.Toolkit(
        files=files,
        report=rows,
        spans=spans(plan),
        golden=data,
        model=options.model or net.graph.name,
        target=machine.name,
        flags=machine.flags,
        also=tuple(options.also),
        parameters=tuple(
            net.graph.constants[each.name] for each in (first.parameters if first else ())
        ),
        steps=golden_steps(plan, data.first_inputs, options.precision)
        if tests and toolkits.tested(files)
        else (),
        figures=figures(plan, rows.rows),
        machine=machine,
        origin=provenance(net, plan.graph),
        scales=port_scales(net.graph),
        templates=toolkits.chosen_templates(options.templates, options.also),
    )
    return toolkits.built(with_counts(made) if tests and options.count else made, options.compiler)


def single_file(
    net: Network,
    path: str | Path = "",
    target: str | Target = "",
    *,
    header: bool = False,
    options: Options | None = None,
    **keywords: Unpack[SingleKeywords],
) -> toolkits.SingleFile:
    """The net as one C file: weights, code, and, with ``-DWEFT_TEST``, a program to try it.

    Args:
        path: where to write it, ending with ``.c``; nothing is written if not given.
        target: the machine; portable C (``generic``) if not given.
        header: whether to write a header beside it.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.

    Raises:
        UserError: an option needs other files, or it does not fit into ``ram`` or ``flash``.
    """
    asked = chosen(SingleKeywords, options, keywords, target=target)
    if path:
        toolkits.check_single(Path(path))  # before anything takes time
    if asked.weights == "blob":
        raise UserError("a single file has its weights in it", got="weights blob")
    net = bound(net)
    made, told = within_ram(net, _bare(net, asked), asked, made_plan, _bare)
    toolkits.check_room(made, asked.ram, asked.flash, lambda: told)
    found = toolkits.single_file(made)
    if path:
        found.write(Path(path), header)
    return found


def _bare(net: Network, options: Options) -> toolkits.Toolkit:
    """A toolkit with nothing to check it with."""
    plan = made_plan(net, options, "generic")
    machine = cast(Target, plan.target)
    files = plan_source(plan, lowered(plan, options.name or net.graph.name), options)
    model, nothing = options.model or net.graph.name, Golden((), ())
    made = toolkits.Toolkit(
        *(files, report(plan), (), nothing, model, machine.name, machine.flags), machine=machine
    )
    return toolkits.built(made, options.compiler or _own_compiler(machine, made.report))


@dataclass(frozen=True)
class PlanInRam:
    """A plan, its rows streamed where it does not fit into RAM otherwise.

    Attributes:
        plan: the plan.
        lines: what was done, with figures, to be read; nothing without a limit.
    """

    plan: Plan
    lines: tuple[str, ...] = ()


def plan_in_ram(net: Network, options: Options) -> PlanInRam:
    """The plan that an export with the same options has.

    Args:
        net: the network.
        options: ``ram`` is what must suffice; a plan that is given stays as it is.
    """
    made = made_plan(net, options)
    if options.ram is None or options.plan is not None or options.parameters:
        return PlanInRam(made)
    asked = replace(options, target=made.target or options.target)
    kit = _bare(bound(net), asked)
    needed, ram = toolkits.ram_needed(kit)[0], options.ram
    if needed <= ram:
        return PlanInRam(made, (_in_ram(kit, ram),))
    best, found = best_streamed(bound(net), kit, asked, ram, made_plan, _bare)
    if toolkits.ram_needed(found)[0] > ram or not best.chains:
        return PlanInRam(made, (_in_ram(kit, ram), remedy(best, kit, found, ram)))
    chains = tuple(part for each in best.chains for part in (*each.ends, str(each.strips)))
    constraints = replace(made.constraints, streamed=chains)
    plan = replace(best.plan, constraints=constraints)
    told = (f"streamed, to fit into RAM: {each}" for each in best.chains)
    return PlanInRam(plan, (*told, f"{_in_ram(found, ram)}; without, {_in_ram(kit, ram)}"))


def _in_ram(kit: toolkits.Toolkit, ram: int) -> str:
    needed, ports = toolkits.ram_needed(kit)
    return (
        f"RAM {needed:,} of {ram:,} bytes: arena {kit.report.arena_bytes:,}, stack "
        f"{kit.files.stack_bytes:,} ({said(kit.files.stack.compiler)}), inputs and "
        f"outputs {ports:,}"
    )


def _own_compiler(machine: Target, figures: Report) -> Compiler | None:
    """A compiler here that can say what code for a machine takes."""
    if machine.architecture not in ("", architecture()) or figures.weight_bytes > MOST_MEASURED:
        return None
    try:
        return find_compiler()
    except UserError:
        return None


def _inexact(net: Network, plan: Plan) -> frozenset[str]:
    """Outputs of a network that depend on how its plan adds floats."""
    found = inexact_values(plan.graph.nodes, plan.types, OPS)
    pairs = zip(net.graph.outputs, plan.graph.outputs, strict=True)
    return frozenset(name for name, planned in pairs if planned in found)


def golden(
    net: Network,
    program: Program,
    inputs: Sequence[np.ndarray] | None,
    precision: str = "",
    inexact: Container[str] = (),
) -> Golden:
    """What a self-test compares with: one run, or several where runs hand on state.

    Args:
        program: what is tested.
        inputs: of every run, without states; seeded random ones if not given.
        precision: of the program's values between layers, which decides how far it may be off.
        inexact: outputs that depend on how floats are added.
    """
    states = {output for _, output in net.states}
    shown = [name for name in net.graph.outputs if name not in states]
    places = [place for place, name in enumerate(shown) if name in inexact]
    held = {
        name: np.zeros(net.graph.types[name].dims, net.graph.types[name].dtype.numpy)
        for name, _ in net.states
    }
    given: list[Sequence[np.ndarray]] = []
    made: list[list[np.ndarray]] = []
    for run in range(RUNS if net.states else 1):
        ports = [(port.dtype, port.shape) for port in program.inputs]
        given.append(sample_inputs(ports, run) if inputs is None else inputs)
        found = reference(net, {**held, **dict(zip(free_inputs(net), given[-1], strict=True))})
        named = dict(zip(net.graph.outputs, found, strict=True))
        held = {name: named.pop(output) for name, output in net.states}
        made.append(list(named.values()) if net.states else list(found))
    if net.states:
        return golden_runs(given, made, precision, places)
    return golden_run(given[0], made[0], precision, places)


def export(
    net: Network,
    folder: str | Path,
    target: str | Target = "",
    *,
    options: Options | None = None,
    **keywords: Unpack[ToolkitKeywords],
) -> toolkits.Toolkit:
    """Writes a Software Toolkit; see ``toolkit``.

    Args:
        folder: absent, empty, or an earlier toolkit, which is replaced.
        target: the machine; portable C (``generic``) if not given.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.

    Raises:
        UserError: it does not fit into ``ram`` or ``flash``; nothing is written then.
    """
    asked = chosen(ToolkitKeywords, options, keywords, target=target)
    asked = replace(asked, name=asked.name or program_name(net.graph.name))
    if asked.plan is not None:
        asked = asked.of_plan(text_of(asked.plan))
    toolkits.check_folder(Path(folder))  # before anything takes time
    made = made_toolkit(net, asked)
    larger = partial(
        board_that_fits,
        made,
        lambda name: made_toolkit(
            net,
            replace(asked, plan=None, target=name, ram=None, flash=None, regions=None),
            tests=False,
        ),
    )
    made, told = within_ram(net, made, asked, made_plan, made_toolkit, larger)
    toolkits.check_room(made, asked.ram, asked.flash, lambda: told, larger)
    toolkits.write(made, Path(folder))
    return made
