"""What users call: load a network, look at it, compile it, export it.

::

    net = weft.load("model.onnx")
    fast = net.compile()
    scores = fast(image)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from weft.codegen.emit import Files, emit
from weft.codegen.flavours import flavour_named
from weft.errors import UserError
from weft.export.exports import export_named
from weft.export.golden import golden, sample_inputs
from weft.export.limits import check_room
from weft.export.toolkit import Toolkit
from weft.export.toolkit import write as write_toolkit
from weft.frontends.onnx import save as save_onnx
from weft.frontends.source import NATIVE, Source, note_built, open_file
from weft.ir.buffers import ArrayLike
from weft.ir.compose import bind_symbols
from weft.ir.graph import Graph
from weft.ir.native import save as save_native
from weft.ir.types import Symbol, TensorType, parse_type
from weft.kernels.chains import fuser
from weft.kernels.nest import Everywhere
from weft.kernels.offers import Layer, layers_of
from weft.kernels.table import implementer
from weft.match.conditions import Predicate
from weft.match.query import SECONDS, Matches, Overlaps, Weight
from weft.match.query import query as ask
from weft.ops.evaluate import evaluate
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.ops.trace import call_graph, graph_of
from weft.ops.trace import trace as trace_graph
from weft.ops.values import Value, input_value
from weft.plan.lower import lower
from weft.plan.plan import Plan, make
from weft.plan.program import Program
from weft.plan.report import report, spans
from weft.plan.stats import GraphStats, stats
from weft.plan.tap import tap
from weft.rewrite.engine import Log
from weft.rewrite.natives import use_natives
from weft.rewrite.recipes import simplify, tidy
from weft.rewrite.rule import Exactness
from weft.runtime.cache import Cache, digest
from weft.runtime.choices import Choices, context_of, digest_of
from weft.runtime.compare import Difference, compare_all
from weft.runtime.compiler import Compiler, find_compiler, machine_flags, unfused_flags
from weft.runtime.identity import build_key, digest_graph
from weft.runtime.library import Library, build, recalled
from weft.runtime.record import remember
from weft.runtime.threads import thread_count
from weft.runtime.tune import TUNE_SECONDS, Setup, Tuning
from weft.runtime.tune import tune as measure
from weft.surgery.editable import Editable
from weft.targets.table import host
from weft.targets.table import target as find_target
from weft.targets.target import Target

if TYPE_CHECKING:
    from weft.pictures.picture import Format

Oracle: TypeAlias = Callable[[Mapping[str, np.ndarray], Collection[str]], Mapping[str, np.ndarray]]
"""``oracle(inputs, values)``: what those of the values that it knows should be."""

MOST_SHOWN = 300
"""A notebook shows the picture of a net of at most so many nodes by itself."""


def load(
    path: str | Path,
    inputs: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Net:
    """Reads a network from an ONNX file, or from one that ``Net.save`` wrote.

    Args:
        path: the file; external data must lie in its folder.
        inputs: shapes of graph inputs, for dimensions that the file leaves open.
        constants: values of graph inputs that never change; these are then no inputs.

    Raises:
        UserError: the file is broken, or has nodes that Weft cannot import: all of them
            are listed with the reasons.
    """
    path = Path(path)
    if path.suffix == NATIVE and (inputs or constants):
        raise UserError("shapes and constants can be given for ONNX files", got=f"{path.name}")
    return Net(*open_file(path, inputs, constants))


def input(name: str, type: str | TensorType) -> Value:
    """A value that a network in the making is given: ``weft.input("x", "f32[1,3,32,32]")``."""
    return input_value(name, parse_type(type) if isinstance(type, str) else type)


def net(
    inputs: Sequence[Value], outputs: Sequence[Value], *, name: str = "net", seed: int = 0
) -> Net:
    """The network between values.

    Args:
        inputs: values of ``weft.input``, in order.
        outputs: what the network gives, in order.
        name: of the network.
        seed: of the weights of layers that were given none; the same seed gives a weight of
            the same name the same elements.
    """
    return Net(graph_of(inputs, outputs, name, seed))


def trace(
    function: Callable[..., Any], *types: str | TensorType, name: str = "net", seed: int = 0
) -> Net:
    """The network that a function of values computes: of a layer, of layers in sequence.

    Args:
        function: takes a value for each type, gives one or several.
        types: of the inputs, such as ``f32[1,3,32,32]``; a leading size may be a name.
        name: of the network.
        seed: see ``net``.
    """
    found = [parse_type(each) if isinstance(each, str) else each for each in types]
    return Net(trace_graph(function, found, name, seed))


@dataclass(frozen=True)
class Net(Editable):
    """A network: a graph, and what can be done with it.

    Nets are values: ``simplified``, ``bound`` and the edits of ``Editable`` give new ones.

    Attributes:
        origin: the graph, or where it comes from: a network that was built from its file
            before reads the file only when it must.
        loaded: the graph, if it was read already.
    """

    origin: Graph | Source
    loaded: Graph | None = field(default=None, repr=False, compare=False)

    @cached_property
    def graph(self) -> Graph:
        """What is computed."""
        if isinstance(self.origin, Graph):
            return self.origin
        return self.loaded or self.origin.read()

    def with_graph(self, graph: Graph) -> Net:
        """A net of another graph."""
        return Net(graph)

    def __call__(self, *values: Value, name: str = "") -> Value | tuple[Value, ...]:
        """The outputs for values of a network in the making, which this net becomes part of.

        Args:
            values: one for each input.
            name: in front of the names of the nodes; the graph's if not given.
        """
        made = call_graph(self.graph, *values, name=name)
        return made[0] if len(made) == 1 else made

    @cached_property
    def identity(self) -> str:
        """A hash of all that decides what is computed."""
        return digest_graph(self.origin) if isinstance(self.origin, Graph) else self.origin.identity

    def bound(self, batch: int = 1) -> Net:
        """The net with its open leading dimension, if it has one, made ``batch``."""
        names = {
            dim.name
            for type in self.graph.types.values()
            for dim in type.shape
            if isinstance(dim, Symbol)
        }
        if not names:
            return self
        return Net(bind_symbols(self.graph, dict.fromkeys(sorted(names), batch)))

    @cached_property
    def simplification(self) -> tuple[Graph, Log]:
        """The graph after the recipes that every model goes through, and what they did."""
        return simplify(self.graph)

    def simplified(self, *, exact: bool = False) -> Net:
        """The net after the recipes that every model goes through.

        Args:
            exact: leave out what is not bit-exact.
        """
        if exact:
            return Net(simplify(self.graph, allow=Exactness.BIT_EXACT)[0])
        return Net(self.simplification[0])

    def apply(self, recipe: str, **parameters: object) -> Net:
        """The net after a recipe (``weft recipes`` lists them).

        Args:
            recipe: its name, as in ``net.apply("tile-conv", axis=2, parts=4)``.
            parameters: of the recipe.

        Raises:
            UserError: there is no such recipe or parameter, or its precondition does not hold.
        """
        # Recipes take 0.1 s to import, which nobody else should pay; pictures likewise.
        from weft.recipes import apply  # noqa: PLC0415

        done = apply(self.graph, recipe, parameters)
        return self if done is self.graph else Net(done)

    def expanded(
        self, target: str | Target = "host", *, exact: bool = False, plain: bool = False
    ) -> Net:
        """The simplified net without composite ops, as it is planned.

        Args:
            target: the machine: kernels that users bring may be for some only.
            exact: leave out those of them that round otherwise than the definitions do.
            plain: leave out all of them, and rules that are not bit-exact.
        """
        graph = self.bound().simplified(exact=plain).graph
        if not plain:
            name = target if isinstance(target, str) else target.name
            graph = use_natives(graph, name, exact=exact)
        return Net(tidy(expand(graph, OPS)))

    def plan(
        self,
        target: str | Target = "host",
        *,
        threads: int = 1,
        exact: bool = False,
        plain: bool = False,
        choices: Mapping[str, str] | None = None,
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
        """
        machine = find_target(target) if isinstance(target, str) else target
        choices = Everywhere() if plain else choices
        implement = implementer(machine, threads=threads, exact=exact, choices=choices)
        fuse = None if plain else fuser(machine, threads=threads, exact=exact)
        graph = self.expanded(machine, exact=exact, plain=plain).graph
        return make(graph, OPS, implement, threads, spread=bool(machine.caches), fuse=fuse)

    def implementations(
        self,
        target: str | Target = "host",
        *,
        node: str = "",
        threads: int = 1,
        exact: bool = False,
    ) -> list[Layer]:
        """Who could compute each layer, who refuses and why, and what the plan chose.

        Args:
            target: the machine.
            node: only the layers that this node, of the simplified graph or of the model, is in.
            threads: that one run can use at the most.
            exact: see ``plan``.
        """
        machine = find_target(target) if isinstance(target, str) else target
        graph = self.expanded(machine, exact=exact).graph
        plan = self.plan(machine, threads=threads, exact=exact)
        found = layers_of(graph, OPS, machine, plan, threads=threads, exact=exact, node=node)
        if node and not found:
            names = {name for each in graph.nodes for name in (each.name, *each.origin.sources)}
            near = get_close_matches(node, sorted(names), 1)
            raise UserError(
                "a layer is asked for by a node of it",
                got=node,
                fix=f"Did you mean {near[0]}?" if near else "",
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
    ) -> Program:
        """The plan as calls of functions at addresses; arguments as for ``plan``."""
        plan = self.plan(target, threads=threads, exact=exact, plain=plain, choices=choices)
        return lower(plan, name or self.graph.name)

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
        """
        machine = find_target(target) if isinstance(target, str) else target
        program = self.program(machine, name, thread_count(threads), exact=exact)
        return emit(program, flavour or machine.flavour, weights, parts)

    def toolkit(
        self,
        target: str | Target = "host",
        *,
        name: str = "",
        flavour: str = "",
        weights: str = "arrays",
        parts: int = 1,
        threads: int = 1,
        exact: bool = False,
        inputs: Sequence[np.ndarray] | None = None,
        model: str = "",
        also: Sequence[str] = (),
    ) -> Toolkit:
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
            inputs: for the self-test; seeded random ones if not given.
            model: what was compiled, for people; the graph's name if not given.
            also: names of exports of plugins, whose files are written, too.
        """
        machine = find_target(target) if isinstance(target, str) else target
        for each in also:
            export_named(each)
        net = self.bound()
        plan = net.plan(machine, threads=thread_count(threads), exact=exact)
        program = lower(plan, name or net.graph.name)
        if inputs is None:
            inputs = sample_inputs([(port.dtype, port.shape) for port in program.inputs])
        return Toolkit(
            files=emit(program, flavour or machine.flavour, weights, parts),
            report=report(plan),
            spans=spans(plan),
            golden=golden(inputs, net.reference(*inputs)),
            model=model or net.graph.name,
            target=machine.name,
            flags=machine.flags,
            also=tuple(also),
        )

    def export(
        self,
        folder: str | Path,
        target: str | Target = "host",
        *,
        ram: int | None = None,
        flash: int | None = None,
        name: str = "",
        flavour: str = "",
        weights: str = "arrays",
        parts: int = 1,
        threads: int = 1,
        exact: bool = False,
        inputs: Sequence[np.ndarray] | None = None,
        model: str = "",
        also: Sequence[str] = (),
    ) -> Toolkit:
        """Writes a Software Toolkit; see ``toolkit``.

        Args:
            folder: absent, empty, or an earlier toolkit, which is replaced.
            target: the machine.
            ram: bytes that arena, stack, inputs and outputs must fit into.
            flash: bytes that the weights must fit into.
            name: prefix of everything public.
            flavour: dialect of C.
            weights: ``arrays`` or ``blob``.
            parts: number of sources.
            threads: that one run can use at the most.
            exact: see ``plan``.
            inputs: for the self-test.
            model: what was compiled, for people.
            also: names of exports of plugins.
        """
        made = self.toolkit(
            target,
            name=name,
            flavour=flavour,
            weights=weights,
            parts=parts,
            threads=threads,
            exact=exact,
            inputs=inputs,
            model=model,
            also=also,
        )
        check_room(made, ram, flash)
        write_toolkit(made, Path(folder))
        return made

    def compile(
        self,
        *,
        batch: int = 1,
        flavour: str = "",
        simd: str = "",
        threads: int | None = None,
        exact: bool = False,
        plain: bool = False,
        tune: bool | Literal["cached"] = False,
        tune_seconds: float = TUNE_SECONDS,
        compiler: Compiler | None = None,
    ) -> CompiledNet:
        """Builds the net for this machine.

        Args:
            batch: size of an open leading dimension.
            flavour: of the C that is generated.
            simd: ``sse2``, ``avx2``, ``avx512`` or ``neon`` for no other vector instructions;
                by default the widest that this machine has.
            threads: to run on; by default ``WEFT_THREADS``, else one for each core that the
                process may use.  The results do not depend on it unless ``tune`` is given, whose
                choices may add up in another order.
            exact: see ``plan``.
            plain: see ``plan``; compiled so that products and sums round on their own.  The
                bits of a value then depend neither on kernels nor on the parts that a layer is
                cut into.
            tune: ``True`` measures the best few alternatives of every layer that the user's
                database of choices does not know yet, adds them to it, and uses it;
                ``"cached"`` uses it and measures nothing.  By default it plays no part, so
                that builds do not depend on what was once measured.
            tune_seconds: for how long networks run while tuning; building them comes on top.
            compiler: by default the one that is found.

        Returns:
            A callable on NumPy arrays.
        """
        machine, count = host(simd), thread_count(threads)
        compiler = compiler or find_compiler()
        dialect = flavour_named(flavour or machine.flavour)
        flags = machine_flags(compiler, dialect, machine)
        if plain:
            flags = [*flags, *unfused_flags(compiler)]
        database, context = Choices(), context_of(compiler, flags)
        choices = database.known(context) if tune else {}
        key = partial(
            build_key, compiler, dialect, flags, self.identity, batch, machine, count, exact, tune
        )
        if plain:
            key = partial(key, "plain")

        def make(net: Net) -> Library:
            # What planning remembers goes with the copy of the net.
            program = partial(Net(net.graph).bound(batch).program, machine, threads=count)
            program = program(exact=exact, plain=plain, choices=choices)
            return build(program, dialect, compiler=compiler, flags=flags)

        later = Net(self.origin)
        library = recalled(Cache(), key(digest_of(choices)), lambda: make(later))
        if library is None:
            if tune is True:
                setup = Net(self.graph)._setup(batch, machine, count, exact, compiler, flavour)
                inputs = sample_inputs([(each.dtype, each.dims) for each in setup.inputs])
                found = measure(setup, inputs, choices, seconds=tune_seconds)
                database.keep(context, found.entries(compiler))
                choices = database.known(context)
            library = make(self)
            remember(Cache(), key(digest_of(choices)), library.built)
            if isinstance(self.origin, Source):
                note_built(self.origin, self.graph.name)
        return CompiledNet(later._bound_later(batch), library)

    def tune(
        self,
        *,
        batch: int = 1,
        flavour: str = "",
        simd: str = "",
        threads: int | None = None,
        exact: bool = False,
        again: bool = False,
        seconds: float = TUNE_SECONDS,
        compiler: Compiler | None = None,
        inputs: Sequence[np.ndarray] | None = None,
        report: Callable[[float, str], None] | None = None,
    ) -> Tuning:
        """Measures alternatives of the net's layers and keeps the best in the database.

        ``compile`` with ``tune`` uses what was found.

        Args:
            batch: see ``compile``, as for the next four.
            flavour: of the C that is generated.
            simd: vector instructions.
            threads: to run on.
            exact: see ``plan``.
            again: measure layers too that the database knows.
            seconds: for how long networks run in all; building them comes on top.
            compiler: by default the one that is found.
            inputs: to run on; seeded random ones if not given.
            report: is told how much is done, from 0 to 1, and what is done next.
        """
        machine, count = host(simd), thread_count(threads)
        compiler = compiler or find_compiler()
        setup = self._setup(batch, machine, count, exact, compiler, flavour)
        database, context = Choices(), context_of(compiler, setup.flags)
        known = {} if again else database.known(context)
        if inputs is None:
            inputs = sample_inputs([(each.dtype, each.dims) for each in setup.inputs])
        found = measure(setup, inputs, known, seconds=seconds, report=report)
        database.keep(context, found.entries(compiler))
        return found

    def _setup(
        self,
        batch: int,
        machine: Target,
        threads: int,
        exact: bool,
        compiler: Compiler,
        flavour: str,
    ) -> Setup:
        """What is tuned."""
        dialect = flavour_named(flavour or machine.flavour)
        flags = machine_flags(compiler, dialect, machine)
        graph = self.bound(batch).expanded(machine, exact=exact).graph
        return Setup(graph, OPS, machine, threads, exact, compiler, dialect, flags)

    def _bound_later(self, batch: int) -> Net:
        """``bound``, but without reading the graph now."""
        if isinstance(self.origin, Graph):
            return self.bound(batch)
        identity = digest([self.origin.identity, str(batch)])
        return Net(Source(identity, lambda: self.bound(batch).graph))

    def reference(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        """The outputs by the ops' NumPy references: slow, and what the rest is held to."""
        named = dict(zip(self.graph.inputs, inputs, strict=True))
        found = evaluate(self.graph, named, OPS)
        return tuple(found[name] for name in self.graph.outputs)

    def save(self, path: str | Path) -> None:
        """Writes the graph and its weights to a ``.weft`` or an ``.onnx`` file."""
        if Path(path).suffix == ".onnx":
            save_onnx(self.graph, path)
        else:
            save_native(self.graph, path)

    def query(
        self,
        text: str,
        *,
        overlaps: Overlaps = "all",
        predicates: Mapping[str, Predicate] | None = None,
        seconds: float = SECONDS,
        weight: Weight | None = None,
    ) -> Matches:
        """Where the graph is as a query says.

        Args:
            text: the query, in the language of ``docs/query.md``.
            overlaps: ``all``, ``every``, ``greedy`` or ``best``: which matches are wanted where
                they overlap.
            predicates: conditions in Python, ``predicate(subject, *arguments)``, by the names
                that the query calls them.
            seconds: for how long ``best`` looks for the best set.
            weight: of a match for ``best``; by default the number of its nodes.

        Returns:
            The matches, in the order of the graph.
        """
        return ask(
            self.graph,
            text,
            overlaps=overlaps,
            predicates=predicates,
            seconds=seconds,
            weight=weight,
        )

    def draw(
        self,
        *,
        highlight: Mapping[str, Collection[str]] | None = None,
        format: Format = "svg",
        title: str = "",
    ) -> str:
        """A picture of the graph.

        Args:
            highlight: names of nodes to mark, by caption.
            format: ``svg``, ``dot`` for Graphviz, or ``html`` for a page that zooms, folds,
                searches and shows all details.
            title: stands above; the graph's name if not given.
        """
        from weft.pictures.picture import draw  # noqa: PLC0415

        return draw(self.graph, highlight=highlight, format=format, title=title)

    def _repr_svg_(self) -> str | None:
        """What a notebook shows, unless there is too much of it."""
        return self.draw() if len(self.graph.nodes) <= MOST_SHOWN else None

    def stats(self) -> GraphStats:
        """What every node computes, reads, writes and keeps live."""
        return stats(self.bound().graph, OPS)

    def verify(
        self, *inputs: np.ndarray, oracle: Oracle | None = None, flavour: str = ""
    ) -> list[Difference]:
        """Runs the net on this machine and compares what every step makes.

        The steps are those of ``compile``, with copies of their results in between.

        Args:
            inputs: as for the compiled net.
            oracle: what to compare with; by default the ops' references.
            flavour: of the C that is generated.

        Returns:
            The outputs, then what steps make in order of execution, as far as the
            oracle knows it.
        """
        machine = find_target("host")
        net = self.bound()
        plan = net.plan(machine)
        made = dict.fromkeys(value for step in plan.steps for value in step.writes)
        named = dict(zip(net.graph.inputs, inputs, strict=True))
        expected = (oracle or net._values)(named, [*net.graph.outputs, *made])
        program = tap(plan, lower(plan, net.graph.name), expected.keys())
        library = build(program, flavour or machine.flavour)
        names = [port.name for port in program.outputs]
        return compare_all(dict(zip(names, library(*inputs), strict=True)), expected)

    def _values(
        self, inputs: Mapping[str, np.ndarray], values: Collection[str]
    ) -> Mapping[str, np.ndarray]:
        found = evaluate(self.graph, inputs, OPS, keep=True)
        return {name: found[name] for name in values if name in found}

    @property
    def inputs(self) -> dict[str, TensorType]:
        """Types of the inputs by name."""
        return {name: self.graph.types[name] for name in self.graph.inputs}

    @property
    def outputs(self) -> dict[str, TensorType]:
        """Types of the outputs by name."""
        return {name: self.graph.types[name] for name in self.graph.outputs}


@dataclass(frozen=True)
class CompiledNet:
    """A net that was built for this machine.

    Any number of threads may call it at once; one of these calls at a time has the threads
    that the networks of a process share, the others run on their own.

    Attributes:
        net: what was built.
        library: the loaded code.
    """

    net: Net
    library: Library

    def __call__(
        self, *inputs: ArrayLike, out: ArrayLike | Sequence[ArrayLike] | None = None
    ) -> np.ndarray | tuple[np.ndarray, ...]:
        """Runs the net; one array if it has one output, else a tuple.

        Args:
            inputs: of the inputs' types, in order, packed in row-major order; not copied.
                Arrays, tensors that DLPack can give (PyTorch's, say), or buffers.
            out: what to write the outputs into, likewise; new arrays if not given.
        """
        if out is not None and not isinstance(out, list | tuple):
            out = (cast(ArrayLike, out),)
        outputs = self.library(*inputs, out=out)
        return outputs[0] if len(outputs) == 1 else outputs
