"""The pipeline that every model goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from typing import cast

from weft.ir.edit import prune
from weft.ir.graph import Graph, Node
from weft.ir.verify import bodies
from weft.plugins import Kind, Table, Unusable
from weft.records import dataclass
from weft.rewrite import (
    activations,
    batchnorm,
    composites,
    constants,
    factors,
    flattened,
    identities,
    padding,
    pooling,
    row_order,
    slices,
    transposed,
    transposes,
    views,
)
from weft.rewrite.engine import Log, rewrite
from weft.rewrite.loop_bodies import with_constants
from weft.rewrite.rule import Exactness, Rule, StageRules

CLEAN: tuple[Rule, ...] = (*identities.RULES, *constants.RULES)
"""What every stage goes on with: it undoes what other rules leave behind."""


@dataclass(frozen=True)
class PipelineStage:
    """Rules that are applied together until none applies.

    Attributes:
        name: for the reader.
        rules: tried in this order at every node.
        before: a change of the whole graph that comes first.
    """

    name: str
    rules: tuple[Rule, ...]
    before: Callable[[Graph], Graph] | None = None


PIPELINE: tuple[PipelineStage, ...] = (
    PipelineStage("clean", CLEAN, before=constants.share_constants),
    # Before anything changes the patterns in which exporters write composite ops.
    PipelineStage("form", (*CLEAN, *composites.RULES)),
    PipelineStage(
        "fold",
        (
            *CLEAN,
            *padding.RULES,
            *batchnorm.FOLD,
            *views.RULES,
            *transposes.RULES,
            *row_order.RULES,
            *slices.RULES,
            *activations.RULES,
            *pooling.RULES,
            *factors.FOLD,
            # Last: what only fits now that others have changed what stood in the way.
            *composites.RULES,
        ),
    ),
    # What no layer took is made as cheap as it can be, which may make it fit one after all.
    PipelineStage(
        "cheapen",
        (
            *CLEAN,
            *batchnorm.FOLD,
            *batchnorm.SPLIT,
            *activations.RULES,
            *pooling.RULES,
            *padding.RULES,
            *factors.FOLD,
            *transposed.RULES,
            *factors.CHEAPEN,
            *flattened.RULES,
        ),
    ),
    # Weights that were folded alike are alike.
    PipelineStage("share", (), before=constants.share_constants),
)

RULES: tuple[Rule, ...] = tuple(dict.fromkeys(rule for stage in PIPELINE for rule in stage.rules))
"""Every rule of the pipeline once, for the reference pages."""


def _are_rules(part: object) -> bool:
    if not isinstance(part, tuple):
        return False
    return all(isinstance(each, Rule) for each in cast(tuple[object, ...], part))


def _accept(_: str, part: object) -> StageRules:
    if not isinstance(part, StageRules):
        name = type(part).__name__
        raise Unusable(f"it must be a StageRules of weft.rewrite.rule, but is {name}")
    stages = [stage.name for stage in PIPELINE if stage.rules]
    if part.stage not in stages:
        raise Unusable(f"its stage must be {', '.join(stages)}, but is {part.stage!r}")
    if not _are_rules(part.rules):
        raise Unusable("its rules must be a tuple of Rules of weft.rewrite.rule")
    known = {rule.name for rule in RULES}
    for rule in part.rules:
        if rule.name in known:
            raise Unusable(f"there is another rule {rule.name}")
        known.add(rule.name)
    return part


PLUGINS: Table[StageRules] = Table(Kind.RULES, {}, _accept)
"""Rules that are not Weft's own."""


def pipeline() -> tuple[PipelineStage, ...]:
    """``PIPELINE`` with the rules of plugins in their stages."""
    added = [each.part for each in PLUGINS.loaded]
    return tuple(_extended(stage, added) for stage in PIPELINE) if added else PIPELINE


def all_rules() -> tuple[Rule, ...]:
    """Every rule of the pipeline once, those of plugins too."""
    return tuple(dict.fromkeys(rule for stage in pipeline() for rule in stage.rules))


def _extended(stage: PipelineStage, added: Sequence[StageRules]) -> PipelineStage:
    mine = [
        rule
        for each in added
        for rule in each.rules
        if stage.rules and each.stage in (stage.name, PIPELINE[0].name)
    ]
    rest = [rule for rule in stage.rules if rule not in CLEAN]
    return changed(stage, rules=(*CLEAN, *mine, *rest)) if mine else stage


def simplify(graph: Graph, *, allow: Exactness = Exactness.REASSOCIATING) -> tuple[Graph, Log]:
    """Apply the pipeline, to the bodies of control flow too.

    Args:
        graph: any graph whose ops are in the table.
        allow: rules of a looser label are left out.

    Returns:
        The simplified graph, and what was done and refused.
    """
    graph, log = _simplify_bodies(prune(graph), allow)
    for stage in pipeline():
        if stage.before is not None:
            graph = stage.before(graph)
        graph, done = rewrite(graph, stage.rules, allow=allow)
        log = log + done
    return graph, log


def tidy(graph: Graph) -> Graph:
    """Undo what an expansion leaves behind; composite ops are not formed again."""
    graph = rewrite(constants.share_constants(prune(graph)), CLEAN)[0]
    return _with_bodies(with_constants(graph), tidy)


def _simplify_bodies(graph: Graph, allow: Exactness) -> tuple[Graph, Log]:
    log = Log()

    def change(body: Graph) -> Graph:
        nonlocal log
        done, inner = simplify(body, allow=allow)
        log = log + inner
        return done

    return _with_bodies(graph, change), log


def _with_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with the bodies of control flow changed; itself if nothing changes."""
    nodes: list[Node] = []
    for node in graph.nodes:
        for name, body in bodies(node):
            done = change(body)
            if done is not body:
                node = changed(node, attributes=changed(node.attributes, **{name: done}))
        nodes.append(node)
    same = all(new is old for new, old in zip(nodes, graph.nodes, strict=True))
    return graph if same else changed(graph, nodes=tuple(nodes))
