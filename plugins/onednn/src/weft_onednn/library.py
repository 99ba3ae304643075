"""oneDNN, version 3, where it is installed: what it would do for a convolution or a product.

It is queried through ``ctypes`` while a network is planned; the generated C makes the same
queries (``data/weft_onednn.c``).  Values of its enumerations are those of its
``dnnl_types.h``, which stay as they are within a version.
"""

from __future__ import annotations

import ctypes
import os
import re
import sysconfig
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise, permutations
from pathlib import Path

from weft.errors import UserError
from weft.ir.foreign import Foreign
from weft.kernels.refusal import Refusal
from weft_onednn.shape import After, Asked, Tensor

VARIABLE = "WEFT_ONEDNN"
"""Names the folder that oneDNN is installed in, if it is not Python's."""
_VERSION = 3
_TYPES = "dnnl_types.h"
_SUCCESS, _CPU, _F32, _ANY, _A, _AB = 0, 1, 3, 1, 2, 3
_INFERENCE, _DIRECT = 96, 1
_USER_SCRATCHPAD = 1
_RELU, _CLIP, _ADD = 32, 46, 131056
_NAME, _FILTER, _SCRATCHPAD = 8, 131, 136
_STRIDES, _COUNT, _BLOCKS, _AXES = 14, 263, 264, 265
_MOST = 12
_Dims = ctypes.c_int64 * _MOST
_Handle = ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class Offer:
    """What oneDNN would do for a convolution.

    Attributes:
        code: its name for it.
        layout: its name for the filter's layout.
        order: dimensions of the filter outside of blocks, outermost first.
        blocks: dimensions and sizes of the blocks inside.
        scratch: bytes to work in.
    """

    code: str
    layout: str
    order: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...]
    scratch: int


class CallFailed(Exception):
    """A call of the library did not succeed."""


class OneDnn:
    """The library.

    Args:
        root: the folder that it is installed in.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._library = ctypes.CDLL(str(library_in(root)))
        self._library.dnnl_primitive_desc_query_md.restype = _Handle
        self._library.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        self._layouts = frozenset(
            re.findall(r"\bdnnl_([A-Za-z0-9]+)\b", header_in(root).with_name(_TYPES).read_text())
        )
        self._engine = self._made("engine_create", _CPU, ctypes.c_size_t(0))

    def offer(self, asked: Asked) -> Offer | Refusal:
        """What it would do, or why not."""
        try:
            with self._threads(asked.threads):
                return self._offer(asked)
        except CallFailed as failure:
            return Refusal(f"oneDNN refuses: {failure}")

    def _offer(self, asked: Asked) -> Offer | Refusal:
        made: list[tuple[str, _Handle]] = []
        try:
            found = self._described(asked, made)
            name = ctypes.c_char_p()
            self._call("primitive_desc_query", found, _NAME, 0, ctypes.byref(name))
            code = (name.value or b"").decode()
            if code.startswith("ref"):
                return Refusal("oneDNN has nothing but plain loops for it")
            query = self._library.dnnl_primitive_desc_query_md
            layout = _Handle(query(found, _FILTER, 0))
            scratch = _Handle(query(found, _SCRATCHPAD, 0))
            size = self._library.dnnl_memory_desc_get_size(scratch) if scratch else 0
            for order, blocks in self._blocks(layout, len(asked.filter)):
                named = layout_name(order, blocks)
                if named in self._layouts:
                    return Offer(code, named, order, blocks, size)
            return Refusal("oneDNN has no name for the layout that it wants")
        finally:
            for kind, handle in reversed(made):
                getattr(self._library, f"dnnl_{kind}_destroy")(handle)

    def _described(self, asked: Asked, made: list[tuple[str, _Handle]]) -> _Handle:
        """The description of a convolution; what has to be destroyed goes to ``made``."""

        def keep(kind: str, handle: _Handle) -> _Handle:
            made.append((kind, handle))
            return handle

        def memory(tensor: Tensor) -> _Handle:
            dims, steps = _dims(tensor.dims), _dims(tensor.steps)
            create = "memory_desc_create_with_strides"
            rank = len(tensor.dims)
            return keep("memory_desc", self._made(create, rank, dims, _F32, steps))

        def tagged(dims: Sequence[int], tag: int) -> _Handle:
            create = "memory_desc_create_with_tag"
            return keep("memory_desc", self._made(create, len(dims), _dims(dims), _F32, tag))

        attributes = keep("primitive_attr", self._made("primitive_attr_create"))
        self._call("primitive_attr_set_scratchpad_mode", attributes, _USER_SCRATCHPAD)
        after = keep("post_ops", self._made("post_ops_create"))
        for each in asked.after:
            self._append(after, each, memory(each.tensor) if each.tensor else None)
        self._call("primitive_attr_set_post_ops", attributes, after)
        tensors = memory(asked.source), tagged(asked.filter, _ANY), memory(asked.target)
        source, filter, target = tensors
        if asked.is_product:
            bias = tagged((1, asked.filter[1]), _AB) if asked.bias else None
            operands = source, filter, bias, target
            found = self._made("matmul_primitive_desc_create", self._engine, *operands, attributes)
            return keep("primitive_desc", found)
        bias = tagged(asked.filter[:1], _A) if asked.bias else None
        found = self._made(
            "convolution_forward_primitive_desc_create",
            self._engine,
            _INFERENCE,
            _DIRECT,
            source,
            filter,
            bias,
            target,
            *map(_dims, (asked.strides, asked.dilations, asked.before, asked.behind)),
            attributes,
        )
        return keep("primitive_desc", found)

    def _append(self, after: _Handle, each: After, tensor: _Handle | None) -> None:
        numbers = ctypes.c_float(each.low), ctypes.c_float(each.high)
        match each.kind:
            case "relu":
                self._call("post_ops_append_eltwise", after, _RELU, *numbers)
            case "clip":
                self._call("post_ops_append_eltwise", after, _CLIP, *numbers)
            case "add":
                self._call("post_ops_append_binary", after, _ADD, tensor)

    def _blocks(
        self, layout: _Handle, rank: int
    ) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, int], ...]]]:
        """The order of dimensions outside of blocks, and the blocks inside.

        Dimensions that are one block may stand in several places.
        """
        count = ctypes.c_int()
        self._call("memory_desc_query", layout, _COUNT, ctypes.byref(count))
        strides, sizes, axes = (self._numbers(layout, what) for what in (_STRIDES, _BLOCKS, _AXES))
        blocks = tuple((axes[place], sizes[place]) for place in range(count.value))
        for order in permutations(range(rank)):
            if all(strides[a] >= strides[b] for a, b in pairwise(order)):
                yield order, blocks

    def _numbers(self, layout: _Handle, what: int) -> Sequence[int]:
        found = ctypes.POINTER(_Dims)()
        self._call("memory_desc_query", layout, what, ctypes.byref(found))
        return list(found.contents)

    @contextmanager
    def _threads(self, count: int) -> Generator[None]:
        """On so many of OpenMP's threads, where oneDNN is built for them."""
        try:
            most = self._library.omp_get_max_threads
            change = self._library.omp_set_num_threads
        except AttributeError:
            yield
            return
        before = int(most())
        change(count)
        try:
            yield
        finally:
            change(before)

    def _call(self, name: str, *arguments: object) -> None:
        if getattr(self._library, f"dnnl_{name}")(*arguments) != _SUCCESS:
            raise CallFailed(f"dnnl_{name} failed")

    def _made(self, name: str, *arguments: object) -> _Handle:
        """What a function creates."""
        found = _Handle()
        self._call(name, ctypes.byref(found), *arguments)
        return found


def _dims(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return _Dims(*values)


def layout_name(order: Sequence[int], blocks: Sequence[tuple[int, int]]) -> str:
    """``Acdb16a`` for filters: dimensions outermost first, those in blocks in capitals."""
    inside = {axis for axis, _ in blocks}
    letters = "abcdefghijkl"
    outer = "".join(letters[axis].upper() if axis in inside else letters[axis] for axis in order)
    return outer + "".join(f"{size}{letters[axis]}" for axis, size in blocks)


def library_in(root: Path) -> Path:
    """The library in a folder."""
    return root / "lib" / "libdnnl.so"


def header_in(root: Path) -> Path:
    """The header in a folder."""
    return root / "include" / "oneapi" / "dnnl" / "dnnl.h"


def root_of() -> Path:
    """The folder that oneDNN is installed in: ``$WEFT_ONEDNN``, or Python's."""
    return Path(os.environ.get(VARIABLE) or sysconfig.get_path("data"))


def onednn() -> OneDnn:
    """The library that is installed.

    Raises:
        UserError: none is that can be used.
    """
    root = root_of()
    wrong = next((path for path in (library_in(root), header_in(root)) if not path.exists()), None)
    if wrong is not None:
        raise UserError(
            "oneDNN must be installed, with its headers",
            got=f"no {wrong}",
            fix=f"pip install weft-onednn, or let {VARIABLE} name the folder of another one.",
        )
    return _loaded(root)


@lru_cache(maxsize=4)
def _loaded(root: Path) -> OneDnn:
    header = header_in(root).with_name("dnnl_version.h").read_text()
    if f"#define DNNL_VERSION_MAJOR {_VERSION}" not in header:
        raise UserError(f"oneDNN must be of version {_VERSION}", got=str(header_in(root)))
    try:
        return OneDnn(root)
    except (OSError, AttributeError, CallFailed) as error:
        raise UserError("oneDNN must load", got=f"{library_in(root)}: {error}") from error


@lru_cache(maxsize=4096)
def offer(library: OneDnn, asked: Asked) -> Offer | Refusal:
    """What the library would do for a convolution, or why not; asked once."""
    return library.offer(asked)


def needed() -> Foreign:
    """What generated C that calls the library is compiled and linked with.

    Raises:
        UserError: the library is not installed, or cannot be used.
    """
    root = onednn().root
    folder = library_in(root).parent
    return Foreign(
        _support(),
        (f"-I{root / 'include'}",),
        (f"-L{folder}", f"-Wl,-rpath,{folder}", "-ldnnl", "-ldl", "-pthread"),
    )


@cache
def _support() -> tuple[tuple[str, bytes], ...]:
    folder = files("weft_onednn") / "data"
    names = "weft_onednn.c", "weft_onednn.h"
    return tuple((name, (folder / name).read_bytes()) for name in names)
