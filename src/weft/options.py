"""The options of planning, building and writing networks, in one record.

The methods of ``Net`` take an ``Options`` record, keywords, or both: a keyword goes first::

    ours = weft.Options(threads=2, exact=True)
    net.compile(options=ours)
    net.export("toolkit", "cortex-m4", options=ours, weights="blob")

``Options`` documents every option.  The ``TypedDict`` classes say which of them a method takes;
a method ignores the others of a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import numpy as np

from weft.codegen.flavours import Dialect, flavour_named
from weft.deferred import later
from weft.errors import UserError, above_zero, nearest
from weft.plan.choice import MAX_ROUNDING
from weft.records import dataclass
from weft.runtime.compiler import Compiler
from weft.runtime.threads import thread_count
from weft.targets.find import SIMD
from weft.targets.find import target as find_target
from weft.targets.target import Target

if TYPE_CHECKING:
    from weft.kernels.encodings.known import checked_encoding
    from weft.kernels.generators import checked_libraries
    from weft.plan.lowering import check_name, identifier
    from weft.plan.plan import Plan
    from weft.plan.text import Constraints, PlanText
else:
    # What only plans need is imported when one is given; the hints of the records say ``Any``.
    Plan = PlanText = Any
    checked_encoding = later("weft.kernels.encodings.known").checked_encoding
    checked_libraries = later("weft.kernels.generators").checked_libraries
    Constraints = later("weft.plan.text").Constraints
    check_name = later("weft.plan.lowering").check_name
    identifier = later("weft.plan.lowering").identifier

PRECISIONS = ("float32", "bfloat16", "float16")
"""What values may be stored in."""
SHORT_PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
GOALS = ("size", "balanced", "speed")
"""What kernels may be chosen for."""
TUNE_SECONDS = 15.0
"""For how long networks run while they are tuned, if nobody says else."""
PlanSource: TypeAlias = Plan | PlanText | str | Path
"""A plan, its text (a string of several lines), or the file of one."""
Inputs: TypeAlias = Sequence[np.ndarray] | Mapping[str, np.ndarray]
"""Arrays for the inputs of a network, in order or by name."""
Tune: TypeAlias = bool | Literal["cached"]
Parameters: TypeAlias = str | Sequence[str]
"""``runtime`` for all weights, or names of constants; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a network is planned, built and written.

    Attributes:
        target: the machine; this one (``host``) if not given, and for toolkits ``generic``.
        threads: most threads that one run can use.  Where nothing is given, compiling and tuning
            take ``WEFT_THREADS``, else one for each core that the process may use, and all else
            takes one.  Results do not depend on it unless ``tune`` is given, whose choices may
            sum in another order.  The pool of threads is part of a toolkit.
        exact: without kernels that round otherwise than the definitions do, such as Winograd
            convolution; sums may still be in another order.
        plain: plain loops, which sum in the order of the definitions, and only rules that are
            bit-exact; slow.  Compiled so that products and sums round on their own: the bits
            of a value then depend neither on kernels nor on the partition of a layer.
        libraries: generators of plugins that call a library, whose kernels are alternatives to
            Weft's own.  Only ``choices`` and ``tune`` choose them.
        encoding: how the constant weights of products of a matrix and one vector are stored:
            ``int8``, ``int4`` or ``palette``, which round them, or ``float28`` or ``quantized``
            (for already quantized weights), which do not.
            By default they are single precision, or what is lossless and takes less time.
        precision: of stored values and weights: ``float32``, or ``bfloat16`` or ``float16``, which
            layers read as float32 and round what they store to (the recipes of these names);
            ``fp32``, ``bf16`` and ``fp16`` are taken, too.  By default ``float32``.
        keep_float32: layers that stay in float32 with another precision: the name of a node, or
            several.
        max_rounding: the largest error that a faster algorithm may add to a layer by rounding, at
            the root mean square over the standard deviation of what the layer gives, as it is
            expected for random data.  It decides which tiles Winograd convolution has where
            transforms are stored in half precision, and whether weights of attention are rounded.
        optimize: what kernels are chosen for: ``speed``; ``balanced``, integer weights in as many
            bits as they have, and loops that layers share; ``size``, the least code.  By default
            ``balanced`` for targets with a memory of kind ``rom`` (chips), else ``speed``.
        choices: alternatives by layer, as ``tune`` finds them, in place of those that the
            estimates prefer.  A layer that they name is a step of its own.
        tune: ``True`` measures the best few alternatives of every layer that the user's database
            of choices does not know yet, adds them to it, and uses it; ``"cached"``, and where
            nothing is built, uses it and measures nothing.  By default the database plays no
            part, so that builds do not depend on what was once measured.
        tune_seconds: for how long networks run while tuning; building them comes on top.
        plan: the plan to build in place of a new one; see ``Net.plan_from``.  Target, threads,
            ``exact``, ``plain``, libraries, ``encoding`` and ``optimize`` are the plan's.
        parameters: weights that are given at run time: ``runtime`` for all of them, or their names.
            What is built depends on the architecture only, so that further checkpoints need no
            compiler; ``CompiledNet.load`` replaces them.
        in_place: whether large ones of these stay in the arrays that were given, where kernels
            read them as they lie: dense layers of one row do, and look-ups in embeddings.  Such
            arrays are kept, and must not change while the network runs; it sees changes between
            runs.
        flavour: dialect of C: ``c89``, ``c99`` or ``gnu``; the target's if not given.
        regions: bytes of each memory that the arena may use, by name, the nearest first: ``dtcm``,
            ``sram``, ...  Buffers with much traffic for their size go to the nearest; the C takes
            a pointer for each, or as ever one if there is one.  By default the target's regions,
            which few have; ``{}`` for one arena of any size.
        ram: limit in bytes for arena, stack, state, inputs and outputs.
        flash: limit in bytes for code and constants.
        batch: size of an open leading dimension.
        simd: ``sse2``, ``avx2``, ``avx512`` or ``neon`` for no other vector instructions, ``none``
            for plain C; by default the widest that this machine has.  For plans, C and toolkits
            it names any machine that has them, in place of ``target``.
        compiler: compiler of the C; by default the one that is found.  A text is a command with
            its flags.  A toolkit is built with it, and it measures stack and flash, which are
            estimates without one for targets other than ``host``.
        name: prefix of everything public in the C; the graph's name if not given.
        weights: ``arrays`` in the C, a ``blob`` that the caller passes, or ``inline``: numbers in
            the code where it reads one weight at a constant place, and arrays for the rest.
        unroll: loops that are written out: ``auto`` for those of register tiles, a number for
            loops of up to so many iterations, too, ``full`` for all.
        parts: number of C sources; 0 is one for each function.
        inputs: arrays for the self-test; seeded random ones if not given.
        model: what was compiled, for people; the graph's name if not given.
        also: names of exports, whose files are written, too: ``cmsis``, ``zephyr`` and ``arduino``
            for these build systems, and those of plugins.
        templates: a folder of templates in place of Weft's own of the same file names.
        count: whether the report has the instructions of each layer, counted by QEMU.

    Raises:
        UserError: an option has no possible value.
    """

    target: str | Target = ""
    threads: int | None = None
    exact: bool = False
    plain: bool = False
    libraries: Sequence[str] = ()
    encoding: str = ""
    precision: str = ""
    keep_float32: str | Sequence[str] = ()
    max_rounding: float = MAX_ROUNDING
    optimize: str = ""
    choices: Mapping[str, str] | None = None
    tune: Tune = False
    tune_seconds: float = TUNE_SECONDS
    plan: PlanSource | None = None
    parameters: Parameters = ()
    in_place: bool = False
    flavour: str = ""
    regions: Mapping[str, int] | None = None
    ram: int | None = None
    flash: int | None = None
    batch: int = 1
    simd: str = ""
    compiler: Compiler | str | None = None
    name: str = ""
    weights: str = "arrays"
    unroll: str = "auto"
    parts: int = 1
    inputs: Inputs | None = field(default=None, compare=False)
    model: str = ""
    also: Sequence[str] = ()
    templates: str | Path = ""
    count: bool = False

    def __post_init__(self) -> None:
        if self.threads is not None:
            thread_count(self.threads)
        if self.libraries:
            object.__setattr__(self, "libraries", checked_libraries(self.libraries))
        if self.tune not in (True, False, "cached"):
            raise UserError('tune must be True, False or "cached"', got=repr(self.tune))
        above_zero("tune_seconds", self.tune_seconds)
        if self.flavour:
            flavour_named(self.flavour)
        self._check_weights()
        self._check_precision()
        if self.simd and self.simd not in SIMD:
            raise UserError(f"simd must be one of {', '.join(SIMD)}", got=repr(self.simd))
        if self.optimize not in ("", *GOALS):
            raise UserError(f"optimize must be {', '.join(GOALS)}", got=repr(self.optimize))
        if self.unroll not in ("auto", "full") and not (
            self.unroll.isdecimal() and self.unroll.isascii()
        ):
            raise UserError("unroll must be auto, full or a number", got=repr(self.unroll))
        _check_regions(self.regions or {})
        self._check_counts()
        if self.name:
            check_name(self.name)

    def _check_counts(self) -> None:
        """The batch and the number of files."""
        if not isinstance(self.batch, int | np.integer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError("batch must be a whole number", got=repr(self.batch))
        if self.parts < 0:
            rule = "parts must not be negative; 0 means one file for each function"
            raise UserError(rule, got=str(self.parts))

    def _check_weights(self) -> None:
        """How weights are stored, and whether they are known."""
        if self.encoding:
            checked_encoding(self.encoding)
        if self.encoding and (self.exact or self.plain):
            fix = "Leave one of them out: lossless encodings need not be asked for."
            raise UserError("encoding is not for exact or plain kernels", got="both", fix=fix)
        if self.weights not in ("arrays", "blob", "inline"):
            raise UserError("weights must be arrays, blob or inline", got=repr(self.weights))
        names = self.parameters
        names = tuple(names) if not isinstance(names, str) else (names,) if names else ()
        object.__setattr__(self, "parameters", names)
        if self.encoding and self.parameters == ("runtime",):
            rule = "encoded weights must be known when the code is generated"
            raise UserError(rule, got="encoding beside parameters", fix="Leave one of them out.")
        if self.weights == "blob" and self.parameters:
            fix = "Leave weights out: what is constant besides is written as arrays."
            raise UserError("a blob holds weights that are known", got="parameters, too", fix=fix)

    def _check_precision(self) -> None:
        """The name of the precision; the default has none."""
        name = SHORT_PRECISIONS.get(self.precision, self.precision)
        if name not in ("", *PRECISIONS):
            rule = f"precision must be one of {', '.join(PRECISIONS)}"
            raise UserError(rule, got=repr(self.precision), fix=nearest(str(name), PRECISIONS))
        name = "" if name == "float32" else name
        rounding = self.max_rounding
        number = isinstance(rounding, int | float | np.number)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not number or not 0 <= rounding < inf:
            rule = "max_rounding must be a number of at least 0, such as 0.012"
            raise UserError(rule, got=repr(rounding))
        kept = self.keep_float32
        names = (kept,) if isinstance(kept, str) else tuple(kept or ())
        if not all(isinstance(each, str) for each in names):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError("keep_float32 must be names of layers", got=repr(kept))
        object.__setattr__(self, "precision", name)
        object.__setattr__(self, "keep_float32", names)
        if self.encoding and name:
            rule = "encoding and precision exclude each other: each says how weights are stored"
            raise UserError(rule, got=f"{self.encoding} and {name}")
        if self.keep_float32 and not name:
            rule = "keep_float32 names layers that another precision leaves in float32"
            raise UserError(rule, got="no precision", fix='Give precision="bfloat16", too.')

    def machine(self, default: str = "host") -> Target:
        """The target, or another one where none is given."""
        if self.simd and self.target:
            got = self.target if isinstance(self.target, str) else self.target.name
            rule = "target and simd exclude each other: each names the instructions"
            raise UserError(rule, got=f"{got} and {self.simd}")
        found = SIMD[self.simd] if self.simd else self.target or default
        return find_target(found) if isinstance(found, str) else found

    def goal(self, machine: Target) -> str:
        """What kernels are chosen for: what is asked for, or what suits a machine."""
        small = any(each.kind == "rom" for each in machine.memories)
        return self.optimize or ("balanced" if small else "speed")

    def dialect(self, own: str) -> Dialect:
        """The dialect of C, ``own`` where none is given; with ``simd="none"`` it has no vectors."""
        found = flavour_named(self.flavour or own)
        return found.without_vectors if self.simd == "none" else found

    def constraints(self, tuned: bool) -> Constraints:
        """What a plan notes of the options, and whether it has measured choices."""
        return Constraints(
            self.exact,
            self.plain,
            tuple(self.libraries),
            tuned,
            self.flavour,
            self.ram,
            self.flash,
            tuple(self.parameters),
            encoding=self.encoding,
            optimize=self.optimize,
            precision=self.precision,
            keep_float32=tuple(self.keep_float32),
            max_rounding=self.max_rounding,
        )

    def of_plan(self, plan: PlanText, *names: str) -> Options:
        """These options with a plan's in place of those that decide plans.

        Args:
            plan: the plan.
            names: options that must be the plan's, too, where they are given: of ``flavour``,
                ``ram`` and ``flash``.

        Raises:
            UserError: an option contradicts the plan.
        """
        made = plan.constraints
        names = ("exact", "plain", "libraries", "parameters", "encoding", "optimize", *names)
        names = ("precision", "keep_float32", "max_rounding", *names)
        own: dict[str, Any] = {name: getattr(made, name) for name in names}
        own |= {"target": plan.target, "threads": plan.threads, "regions": sizes(made.regions)}
        tune = self.tune if made.tuned else False
        for name, planned in {**own, "tune": tune, "choices": None}.items():
            value = getattr(self, name)
            given = value.name if isinstance(value, Target) else value
            if name == "parameters" and planned and given == ("runtime",):
                own[name] = value  # Which those are is known where the network is.
                continue
            if value != getattr(_NOTHING, name) and given != planned:
                raise UserError(
                    f"{name} is fixed by the given plan",
                    got=f"{given} beside a plan with {planned}",
                    fix="Leave it out, or plan again with it.",
                )
        own |= {
            "target": self.target if isinstance(self.target, Target) else plan.target,
            "plan": plan,
            "flavour": self.flavour or made.flavour,
            "ram": made.ram if self.ram is None else self.ram,
            "flash": made.flash if self.flash is None else self.flash,
        }
        return replace(self, **own)


def sizes(regions: Sequence[str]) -> dict[str, int]:
    """Bytes by name, of regions as the constraints of plans have them."""
    pairs = (each.rpartition("=") for each in regions)
    try:
        return {name: int(size) for name, _, size in pairs}
    except ValueError:
        rule = "plan: a region is given as NAME=BYTES"
        raise UserError(rule, got=", ".join(regions)) from None


def _check_regions(regions: Mapping[str, int]) -> None:
    """Refuses regions that there cannot be."""
    names = [name.upper() for name in regions]
    if not all(name == identifier(name) for name in regions) or len({*names}) < len(names):
        rule = "regions must have different names, each a C identifier"
        raise UserError(rule, got=", ".join(regions))
    for name, size in regions.items():
        if size <= 0:
            raise UserError(f"the region {name} must have some bytes", got=str(size))


_NOTHING = Options()


class TuneKeywords(TypedDict, total=False):
    """Options of tuning."""

    threads: int | None
    exact: bool
    libraries: Sequence[str]
    encoding: str
    precision: str
    keep_float32: str | Sequence[str]
    max_rounding: float
    optimize: str
    flavour: str
    batch: int
    simd: str
    compiler: Compiler | str | None


class CompileKeywords(TuneKeywords, total=False):
    """Options of building for this machine."""

    plain: bool
    tune: Tune
    tune_seconds: float
    plan: PlanSource | None
    parameters: Parameters
    in_place: bool
    regions: Mapping[str, int] | None


class CompareKeywords(TypedDict, total=False):
    """Options of comparing networks."""

    batch: int
    threads: int | None
    exact: bool


class PlanKeywords(TypedDict, total=False):
    """Options of planning."""

    threads: int | None
    exact: bool
    plain: bool
    libraries: Sequence[str]
    encoding: str
    precision: str
    keep_float32: str | Sequence[str]
    max_rounding: float
    optimize: str
    choices: Mapping[str, str] | None
    tune: Tune
    plan: PlanSource | None
    parameters: Parameters
    flavour: str
    regions: Mapping[str, int] | None
    ram: int | None
    flash: int | None
    simd: str


class SourceKeywords(PlanKeywords, total=False):
    """Options of C."""

    name: str
    weights: str
    unroll: str
    parts: int


class SingleKeywords(PlanKeywords, total=False):
    """Options of C files."""

    name: str
    weights: str
    unroll: str
    model: str
    compiler: Compiler | str | None


class ToolkitKeywords(SourceKeywords, total=False):
    """Options of toolkits."""

    inputs: Inputs | None
    model: str
    also: Sequence[str]
    templates: str | Path
    count: bool
    compiler: Compiler | str | None


class DeployKeywords(PlanKeywords, total=False):
    """Options of C libraries."""

    name: str
    inputs: Inputs | None
    model: str
    batch: int
    compiler: Compiler | str | None


def chosen(
    kind: type[Any], options: Options | None, keywords: Mapping[str, Any], **given: Any
) -> Options:
    """The options of a call: its keywords, before those of a record.

    Args:
        kind: the ``TypedDict`` of the options that the method takes.
        options: the record.
        keywords: of the call.
        given: options that are parameters of the method; empty ones are not given.

    Raises:
        TypeError: the method takes no such keyword.
        UserError: an option has no possible value.
    """
    names = {*kind.__optional_keys__, *given}
    for name in keywords:
        if name not in names:
            meant = nearest(name, names, 1)
            raise TypeError(f"unexpected keyword argument {name!r}. {meant}".rstrip(". "))
    base = {} if options is None else {name: getattr(options, name) for name in names}
    return Options(**{**base, **keywords, **{name: each for name, each in given.items() if each}})
