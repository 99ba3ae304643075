"""Sliding windows: ``auto_pad`` and absent attributes become plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontends.onnx.request import Request
from weft.ir.types import Symbol

# Which input holds the weight, where there is one.
_WEIGHT = {"Conv": 1, "ConvTranspose": 1, "ConvInteger": 1, "QLinearConv": 3}


def _spatial(request: Request, position: int) -> tuple[int, ...]:
    type = request.type(position)
    if len(type.shape) < 3:
        raise request.error("needs at least one spatial axis", got=f"input {type}")
    return tuple(dim for dim in type.shape[2:] if not isinstance(dim, Symbol))


def _numbers(request: Request, name: str, rank: int, default: int) -> tuple[int, ...]:
    found = tuple(request.get(name) or (default,) * rank)
    if len(found) != rank or any(number < 1 for number in found):
        raise request.error(f"{name} must be {rank} positive numbers", got=str(list(found)))
    return found


def _kernel(request: Request) -> tuple[int, ...]:
    found = tuple(request.get("kernel_shape") or ())
    if not found and request.op in _WEIGHT:
        found = _spatial(request, _WEIGHT[request.op])
    return found


def window(request: Request) -> Request:
    """A convolution or pool with its ``auto_pad`` turned into ``pads``."""
    extents = _spatial(request, 0)
    rank = len(extents)
    kernel = _kernel(request)
    if len(kernel) != rank:
        raise request.error(f"kernel_shape must be {rank} numbers", got=str(list(kernel)))
    strides = _numbers(request, "strides", rank, 1)
    dilations = _numbers(request, "dilations", rank, 1)
    spans = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilations, strict=True)]
    changed = request.but(
        drop=("auto_pad",), kernel_shape=kernel, strides=strides, dilations=dilations
    )
    mode = request.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = tuple(request.get("pads") or (0,) * (2 * rank))
        if len(pads) != 2 * rank:
            raise request.error(f"pads must be {2 * rank} numbers", got=str(list(pads)))
        return changed.but(pads=pads)
    if "ceil_mode" in request.attributes:  # auto_pad says how many windows there are
        changed = changed.but(ceil_mode=0)
    if mode == "VALID":
        return changed.but(pads=(0,) * (2 * rank))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise request.error("auto_pad is none of ONNX's", got=mode)
    totals = [
        max(0, (-(-extent // stride) - 1) * stride + span - extent)
        for extent, stride, span in zip(extents, strides, spans, strict=True)
    ]
    return changed.but(pads=_halves(totals, mode))


def _halves(totals: Sequence[int], mode: str) -> tuple[int, ...]:
    """Padding before and after; the odd one goes where the mode says."""
    small = [total // 2 for total in totals]
    large = [total - half for total, half in zip(totals, small, strict=True)]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def transposed_window(request: Request) -> Request:
    """A transposed convolution with ``auto_pad`` and ``output_shape`` turned into ``pads``."""
    extents = _spatial(request, 0)
    rank = len(extents)
    kernel = _kernel(request)
    if len(kernel) != rank:
        raise request.error(f"kernel_shape must be {rank} numbers", got=str(list(kernel)))
    strides = _numbers(request, "strides", rank, 1)
    dilations = _numbers(request, "dilations", rank, 1)
    extra = tuple(request.get("output_padding") or (0,) * rank)
    mode = request.get("auto_pad", "NOTSET")
    wanted = tuple(request.get("output_shape") or ())
    pads = tuple(request.get("pads") or (0,) * (2 * rank))
    if len(extra) != rank or len(pads) != 2 * rank or len(wanted) not in (0, rank, rank + 2):
        raise request.error(
            f"output_padding must be {rank} numbers, pads {2 * rank}, output_shape {rank}",
            got=f"{list(extra)}, {list(pads)}, {list(wanted)}",
        )
    full = [
        stride * (extent - 1) + more + (taps - 1) * step + 1
        for stride, extent, more, taps, step in zip(
            strides, extents, extra, kernel, dilations, strict=True
        )
    ]
    if wanted or mode.startswith("SAME"):
        goal = wanted[-rank:] or [
            extent * stride for extent, stride in zip(extents, strides, strict=True)
        ]
        over = [size - want for size, want in zip(full, goal, strict=True)]
        if wanted:  # Where even all of it is too small, the output is made larger at its end.
            extra = tuple(more + max(0, -each) for more, each in zip(extra, over, strict=True))
        # Otherwise SAME_* asks for input * stride, which a window below the stride cannot fill:
        # pads are at least 0, so ONNX's shape inference and onnxruntime give a smaller output.
        totals = [max(0, each) for each in over]
        pads = _halves(totals, "SAME_UPPER" if mode == "SAME_UPPER" else "SAME_LOWER")
    elif mode == "VALID":
        pads = (0,) * (2 * rank)
    return request.but(
        drop=("auto_pad", "output_shape"),
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        output_padding=extra,
        pads=pads,
    )
