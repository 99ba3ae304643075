"""What a program shares: functions that are equal, weights, and what is prepared of parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.unknown import IN_PLACE_BYTES, Array, Unknown, digest, is_known, unshaped
from weft.loops.nodes import Buffer, Kernel
from weft.loops.simplify import simplify_kernel
from weft.plan.called import in_place, renamed
from weft.plan.comments import use_text
from weft.plan.implementation import Packed
from weft.plan.lazy_weights import LazyArray
from weft.plan.memory import aligned
from weft.plan.plan import ALIGNMENT
from weft.plan.program import ADDRESS_BYTES, Address, Function, Port, Region
from weft.plan.work import parts_of, shared_scratch
from weft.records import dataclass
from weft.targets.target import Costs

NO_NAMES: Mapping[str, str] = {}


def identifier(text: str) -> str:
    """The nearest C identifier."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_") or "net"
    return f"n{name}" if name[0].isdigit() else name


# Of a program's name: files are named after it, whose names systems limit to 255 characters.
_LONGEST_NAME = 100
# Programs that say where the network's header is would find that instead, and so would other
# headers; a toolkit has a main.c.
_FILES = frozenset(
    "main assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal "
    "stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn "
    "string tgmath threads time uchar wchar wctype "
    # Not of the C standard; some of these are read by those above.
    "alloca dirent dlfcn elf endian fcntl features fnmatch ftw getopt glob grp iconv langinfo "
    "libgen link malloc memory paths poll pthread pwd regex sched search semaphore spawn strings "
    "syscall syslog tar termios ulimit unistd utime values wait wordexp".split()
)


def program_name(text: str) -> str:
    """The nearest C identifier after which the files of a program can be named."""
    name = identifier(text)[:_LONGEST_NAME].rstrip("_")
    return f"{name}_net" if name.lower() in _FILES else name


def check_name(name: str) -> None:
    """Refuses a name that a program cannot have.

    Raises:
        UserError: it is no C identifier, too long, or what files cannot be named after.
    """
    nearest = program_name(name)
    if name == nearest:
        return
    rule = "be a C identifier: letters, digits and single underscores between them, a letter first"
    if name == identifier(name):
        rule = (
            f"have at most {_LONGEST_NAME} characters and be neither main nor the name of a C "
            "header, as files are named after it"
        )
    raise UserError(f"name must {rule}", got=repr(name), fix=f"For example: {nearest}")


@dataclass
class Lowering:
    """Collects functions and weights over a plan and the plans nested in it.

    Attributes:
        costs: of the machine; caches: bytes that a core has of every level, nearest first.
        reads_in_place: whether large parameters that kernels read as they are are not copied.
        held: these, and where the second program puts their addresses.
    """

    costs: Costs
    caches: tuple[int, ...] = ()
    functions: list[Function] = field(default_factory=list[Function])
    # By a function without its name, the one function that is equal to it.
    equal: dict[Function, list[Function]] = field(default_factory=dict[Function, list[Function]])
    # Layers share the loops of their kernels, which then need not be compared with all others.
    bodies: dict[tuple[int, tuple[Buffer, ...]], tuple[Function, Function]] = field(
        default_factory=dict[tuple[int, tuple[Buffer, ...]], tuple[Function, Function]]
    )
    names: set[str] = field(default_factory=set[str])
    comments: dict[str, dict[str, list[str]]] = field(
        default_factory=dict[str, dict[str, list[str]]]
    )
    merged: dict[tuple[int, tuple[Buffer, ...], str], tuple[Kernel, Kernel]] = field(
        default_factory=dict[tuple[int, tuple[Buffer, ...], str], tuple[Kernel, Kernel]]
    )
    weights: dict[str, LazyArray] = field(default_factory=dict[str, LazyArray])
    weight_names: dict[tuple[int, Packed | None], str] = field(
        default_factory=dict[tuple[int, Packed | None], str]
    )
    prepared: dict[str, Array] = field(default_factory=dict[str, Array])
    held: dict[Port, int] = field(default_factory=dict[Port, int])
    places: dict[str, Address] = field(default_factory=dict[str, Address])
    prepared_bytes: int = 0
    loops: int = 0
    cuts: dict[tuple[str, int], tuple[Kernel, tuple[int, ...]]] = field(
        default_factory=dict[tuple[str, int], tuple[Kernel, tuple[int, ...]]]
    )

    reads_in_place: bool = False
    rooms: dict[tuple[str, int], frozenset[str]] = field(
        default_factory=dict[tuple[str, int], frozenset[str]]
    )

    def cut(self, kernel: Kernel, name: str, threads: int) -> tuple[Kernel, tuple[int, ...]]:
        """A kernel simplified for so many threads, and the parts of its stages.

        Args:
            kernel: what is called.
            name: of its function; layers that share a function share the result.
            threads: that run it.
        """
        found = self.cuts.get((name, threads))
        if found is None:
            simple = simplify_kernel(kernel) if threads > 1 else kernel
            found = self.cuts[name, threads] = simple, parts_of(simple, threads, self.costs)
        return found

    def in_place(self, kernel: Kernel, parameter: str) -> Kernel:
        """``called.in_place``, once for layers that share the loops."""
        key = (id(kernel.body), kernel.params, parameter)
        if key not in self.merged:
            self.merged[key] = kernel, in_place(kernel, parameter)
        return replace(self.merged[key][1], name=kernel.name)

    def shared(self, kernel: Kernel, name: str, threads: int) -> frozenset[str]:
        """Scratch buffers that the parts of a function share; looked for once a function."""
        found = self.rooms.get((name, threads))
        if found is None:
            found = self.rooms[name, threads] = shared_scratch(kernel)
        return found

    def unique(self, wish: str) -> str:
        """A name that nothing has, as near to a wish as can be."""
        name, count = wish, 1
        while name in self.names:
            count += 1
            name = f"{wish}_{count}"
        self.names.add(name)
        return name

    def function(
        self,
        function: Function,
        what: str,
        layer: str = "",
        parameters: Mapping[str, str] = NO_NAMES,
    ) -> str:
        """The name of a function equal to this one but for its name.

        Args:
            function: what is called.
            what: it computes, for the comment above it.
            layer: that calls it, for the same comment.
            parameters: names for those of a kernel; the first caller's stay.
        """
        body = (id(function.body), function.params) if isinstance(function, Kernel) else None
        found = self.bodies[body][1] if body in self.bodies else self._found(function, parameters)
        if body is not None:
            self.bodies[body] = function, found
        layers = self.comments[found.name].setdefault(what, [])
        if layer and layer not in layers:
            layers.append(layer)
        return found.name

    def _found(self, function: Function, parameters: Mapping[str, str]) -> Function:
        """The function that is equal but for its name."""
        # One look-up: hashing a kernel takes long.
        found = self.equal.setdefault(replace(function, name=""), [])
        if not found:
            named = renamed(function, parameters) if isinstance(function, Kernel) else function
            found.append(replace(named, name=self.unique(function.name)))
            self.functions += found
            self.comments[found[0].name] = {}
        return found[0]

    def function_comments(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """For every function what it computes, and the layers that it computes it for."""
        for name, uses in self.comments.items():
            yield name, tuple(line for use in uses.items() for line in use_text(*use))

    def weight(self, value: str, array: np.ndarray, packing: Packed | None) -> Address:
        """Where a weight lies, equal ones shared."""
        if not is_known(array):
            return self.prepare(value, packing.apply(array) if packing else array)
        key = (id(array), packing)
        found = self.weight_names.get(key)
        if found is None:
            found = self.unique(identifier(value))
            self.weight_names[key] = found
            # It keeps the array alive, whose identity is a key.
            self.weights[found] = LazyArray(array, packing)
        return Address(Region.WEIGHTS, found)

    def prepare(self, value: str, packed: np.ndarray) -> Address:
        """Where a weight lies that the second program makes."""
        packed = unshaped(packed)
        name = packed.origin if isinstance(packed, Unknown) else None
        if self.reads_in_place and isinstance(name, str) and packed.nbytes >= IN_PLACE_BYTES:
            return self.hold(Port(name, DType.of(packed.dtype), packed.shape))
        key = digest(packed)
        if key not in self.places:
            self.prepared[self.unique(identifier(value))] = packed
            self.places[key] = Address(Region.PREPARED, "", self.prepared_bytes)
            self.prepared_bytes += aligned(packed.nbytes, ALIGNMENT)
        return self.places[key]

    def hold(self, parameter: Port) -> Address:
        """A parameter that runs read where it lies."""
        if parameter not in self.held:
            self.held[parameter] = self.prepared_bytes
            self.prepared_bytes += aligned(ADDRESS_BYTES, ALIGNMENT)
        return Address(Region.HELD, parameter.name)

    def variable(self) -> str:
        """A loop variable of its own."""
        self.loops += 1
        return f"t{self.loops}"
