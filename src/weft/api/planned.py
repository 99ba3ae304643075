"""What a network becomes for a machine: a plan, a program, and C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack, cast

from weft.api.encoded import encoded_operands
from weft.api.given import machine_of, text_of
from weft.api.network import (
    Network,
    expanded,
)
from weft.api.parameters import agree_with_plan, parameter_names, without_values
from weft.api.remedy import with_chains
from weft.codegen.emit import Files, emit
from weft.deferred import later
from weft.errors import UserError, nearest
from weft.garbage import rare_collection
from weft.ir.graph import Graph
from weft.kernels.depth_first.fusion_depth import fuser, named_fuser
from weft.kernels.explain import ExplainedLayer, layers_of
from weft.kernels.generators import checked_libraries
from weft.kernels.nest import Everywhere
from weft.kernels.selection import implementer, named_implementer
from weft.kernels.task import Asked
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.options import (
    Options,
    PlanKeywords,
    PlanSource,
    SourceKeywords,
    chosen,
    sizes,
)
from weft.plan.choice import Measured
from weft.plan.given import GivenDecisions, fits
from weft.plan.image_loop import image_loop, loop_values
from weft.plan.instrument import step_ends
from weft.plan.make import make, planned
from weft.plan.plan import Plan
from weft.plan.program import Program
from weft.plan.straight import inlined, unrolled
from weft.plan.to_program import lower
from weft.reporting import announce
from weft.rewrite.recipes import tidy
from weft.runtime.compiler import find_compiler, machine_flags
from weft.targets.find import runs_here
from weft.targets.find import target as find_target
from weft.targets.target import Target

if TYPE_CHECKING:
    from weft.runtime.choices import Choices, context_of
else:
    # Its database is for tuned networks only.
    Choices, context_of = (
        later("weft.runtime.choices").Choices,
        later("weft.runtime.choices").context_of,
    )


def plan(
    net: Network,
    target: str | Target = "",
    *,
    options: Options | None = None,
    **keywords: Unpack[PlanKeywords],
) -> Plan:
    """Groups, kernels, layouts, order and memory for a target; ``str`` of it parses back.

    With ``plan``, what ``plan_from`` gives.

    Args:
        target: the machine; this one if not given.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.
    """
    return made_plan(net, chosen(PlanKeywords, options, keywords, target=target))


@rare_collection()
def made_plan(net: Network, options: Options, target: str = "host") -> Plan:
    """The plan that the options give, or a new one."""
    if options.plan is not None:
        text = text_of(options.plan)
        if options.simd:
            raise UserError(
                "simd is fixed by the given plan", got=options.simd, fix="Leave it out."
            )
        machine = options.target if isinstance(options.target, Target) else None
        options.of_plan(text)
        agree_with_plan(net.graph, options.parameters, text.constraints.parameters)
        return plan_from(net, text, machine)
    machine = options.machine(target).in_flavour(options.flavour)
    threads, exact, plain = options.threads or 1, options.exact, options.plain
    choices = choices_of(options, machine)
    tuned = isinstance(choices, Measured) and bool(choices) and not plain
    asked = Asked(
        threads=threads,
        exact=exact,
        libraries=checked_libraries(options.libraries),
        encoding=options.encoding,
        optimize=options.goal(machine),
        max_rounding=options.max_rounding,
    )
    implement = implementer(machine, choices=Everywhere() if plain else choices, **asked)
    # What was measured of a layer by itself does not say that it should stay by itself.
    fuse = None if plain else fuser(machine, choices=None if tuned else choices, **asked)
    regions = machine.regions(options.regions)
    announce("simplifying")
    without = without_values(net, options.parameters)
    graph = expanded(
        without,
        machine,
        exact=exact,
        plain=plain,
        precision=options.precision,
        keep_float32=options.keep_float32,
    ).graph
    images = () if plain or net.states else loop_values(graph, machine)
    graph = image_loop(graph, images)
    announce("planning")
    made = make(
        graph,
        OPS,
        implement,
        threads,
        spread=bool(machine.caches),
        fuse=fuse,
        states=places(net),
        regions=regions,
        stack_limit=machine.stack_limit,
    )
    if options.encoding and not any(True for _ in encoded_operands(made)):
        raise UserError(
            "an encoding is for constant weights of products of a matrix and one vector",
            got=f"{options.encoding} for a network where it applies to none",
            fix="`weft impls MODEL --encoding NAME` tells why.",
        )
    told = tuple(f"{each.name}={each.bytes}" for each in regions)
    constraints = replace(options.constraints(tuned), regions=told, images=images)
    if options.parameters:
        names = parameter_names(net.graph, options.parameters)
        constraints = replace(constraints, parameters=names)
    return replace(made, target=machine, constraints=constraints)


@rare_collection()
def plan_from(net: Network, source: PlanSource, target: Target | None = None) -> Plan:
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
    without = without_values(net, asked.parameters)
    inner = expanded(
        without,
        machine,
        exact=asked.exact,
        plain=asked.plain,
        precision=asked.precision,
        keep_float32=asked.keep_float32,
    )
    if asked.streamed:
        cut = with_chains(inner, asked.streamed)
        inner = expanded(cut, machine, exact=asked.exact, plain=asked.plain)
    graph = image_loop(inner.graph, asked.images)
    states = places(net)
    fits(text, graph, states)
    wanted = Asked(
        threads=threads,
        exact=asked.exact,
        libraries=checked_libraries(asked.libraries),
        encoding=asked.encoding,
        optimize=Options(optimize=asked.optimize).goal(machine),
        max_rounding=asked.max_rounding,
    )
    decisions = GivenDecisions(
        text.body,
        named_implementer(machine, **wanted),
        named_fuser(machine, **wanted),
        machine.regions(sizes(asked.regions)),
        machine.stack_limit,
    )
    announce("planning")
    spread = bool(machine.caches)
    made = planned(graph, OPS, decisions, threads, spread=spread, states=states)
    return replace(made, target=machine, constraints=asked)


def places(net: Network) -> dict[str, int]:
    """By input that is a state, the place of its next value among the outputs."""
    return {value: net.graph.outputs.index(output) for value, output in net.states}


def implementations(
    net: Network,
    target: str | Target = "",
    *,
    node: str = "",
    options: Options | None = None,
    **keywords: Unpack[PlanKeywords],
) -> list[ExplainedLayer]:
    """The alternatives for each layer, the refusals with reasons, and what the plan chose.

    Args:
        target: the machine; this one if not given.
        node: only the layers that this node, of the simplified graph or of the model, is in.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.
    """
    plan = made_plan(net, chosen(PlanKeywords, options, keywords, target=target))
    found = layers_of(plan, node)
    if node and not found:
        nodes = plan.graph.nodes
        names = {name for each in nodes for name in (each.name, *each.origin.sources)}
        raise UserError(
            "a layer is named by one of its nodes",
            got=node,
            fix=nearest(node, names, 1),
        )
    return found


def program(
    net: Network,
    target: str | Target = "",
    name: str = "",
    *,
    options: Options | None = None,
    **keywords: Unpack[PlanKeywords],
) -> Program:
    """The plan, or one that is given, as calls of functions at addresses.

    Args:
        target: the machine; this one if not given.
        name: prefix of everything public; the graph's name if not given.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.
    """
    made = chosen(PlanKeywords, options, keywords, target=target, name=name)
    return lowered(made_plan(net, made), made.name or net.graph.name)


def source(
    net: Network,
    target: str | Target = "",
    *,
    options: Options | None = None,
    **keywords: Unpack[SourceKeywords],
) -> Files:
    """The net as C; where it was made for threads, the caller brings them.

    Args:
        target: the machine; this one if not given.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.
    """
    made = chosen(SourceKeywords, options, keywords, target=target)
    plan = made_plan(net, made)
    return plan_source(plan, lowered(plan, made.name or net.graph.name), made)


def choices_of(options: Options, machine: Target) -> Mapping[str, str] | None:
    """Alternatives by layer: those that are given, else with ``tune`` those of the database."""
    if options.choices is not None or not options.tune or not runs_here(machine):
        return options.choices
    compiler = find_compiler()
    dialect = options.dialect(machine.flavour)
    return Choices().known(context_of(compiler, machine_flags(compiler, dialect, machine)))


@rare_collection()
def lowered(plan: Plan, name: str = "", *, in_place: bool = False) -> Program:
    """The program of a plan, with that of its parameters for the same machine and threads.

    Args:
        plan: what is lowered.
        name: of the program, if not the graph's.
        in_place: as for ``weft.Options``.
    """

    def planned_too(graph: Graph) -> Plan:
        announce("planning the preparation")
        target, threads = plan.target or find_target("generic"), plan.threads
        choices = Everywhere() if plan.constraints.plain else None
        implement = implementer(target, threads=threads, choices=choices)
        made = make(tidy(expand(graph, OPS)), OPS, implement, threads)
        return replace(made, target=plan.target)

    announce("lowering")
    return lower(plan, name, planned_too, in_place=in_place)


@rare_collection()
def plan_source(plan: Plan, program: Program, options: Options, *, stepped: bool = False) -> Files:
    """A plan's program as C.

    Args:
        plan: what is written.
        program: what it was lowered to.
        options: of the C.
        stepped: whether to write what tells steps apart, for tests.
    """
    own = cast(Target, plan.target).flavour
    # Plain loops need no extensions of compilers.
    own = "c99" if plan.constraints.plain and own == "gnu" else own
    dialect = options.dialect(plan.constraints.flavour or own)
    ends = step_ends(plan, program) if stepped else ()
    program = unrolled(program, options.unroll)
    if options.weights == "inline":
        return emit(inlined(program, dialect.vectors), dialect, "arrays", options.parts, ends)
    return emit(program, dialect, options.weights, options.parts, ends)
