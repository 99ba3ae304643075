"""oneDNN's kernels as alternatives: where they apply, and the C that calls them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files

from weft.kernels import nest
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.onednn_library import Offer, library_in, offer, onednn, root_of
from weft.kernels.onednn_shape import After, Asked, Recognised, as_product, recognise
from weft.kernels.task import Task
from weft.ops.record import ExternBody, Foreign
from weft.plan.implementation import Implementation, Operand, Outside

NAME = "onednn"
PRODUCT = "onednn-product"
_STACK_BYTES = 16 << 10
"""Allowed for what oneDNN takes of the stack, which it does not say: an estimate, no bound."""


def ready() -> None:
    """Checks that oneDNN can be used.

    Raises:
        UserError: it is not installed, or not as it must be.
    """
    onednn()


def propose(task: Task) -> tuple[Alternative, ...]:
    """The convolution that oneDNN has the fastest code for, as it sees it, and the product."""
    found = _found(task)
    if isinstance(found, str):
        return ()
    return tuple(
        Alternative(
            name, math.inf, Sums(name), partial(_write, task, name, *each), always, outside=True
        )
        for name, each in found.items()
    )


def why_not(task: Task) -> str:
    """Why nothing is proposed; nothing if something is."""
    found = _found(task)
    return found if isinstance(found, str) else ""


def _found(task: Task) -> dict[str, tuple[Recognised, Offer]] | str:
    """What oneDNN would do, by the names of alternatives, or why it does nothing."""
    if task.threads > 1:
        # Measured, its threads and Weft's take the cores from one another.
        return "it is only asked for what runs on one thread"
    convolution = recognise(task)
    if isinstance(convolution, str):
        return convolution
    if task.exact and any(each.kind != "add" for each in convolution.asked.after):
        return (
            "oneDNN's ReLU and clip make numbers of what is none, and exact kernels were asked for"
        )
    library = onednn()
    found: dict[str, tuple[Recognised, Offer]] = {}
    refusal = ""
    for name, known in ((NAME, convolution), (PRODUCT, as_product(convolution))):
        if known is None:
            continue
        offered = offer(library, known.asked)
        if isinstance(offered, str):
            refusal = refusal or offered
        else:
            found[name] = known, offered
    return found or refusal


def _write(task: Task, name: str, known: Recognised, offered: Offer) -> Implementation:
    """The call, beside the loops that say what it computes."""
    asked = known.asked
    text = layer_text(asked, offered)
    # Not `weft_...`, as helpers of generated C are called.
    symbol = f"onednn_{sha256(text.encode()).hexdigest()[:12]}"
    packing = known.blocking(offered.order, offered.blocks)
    operands = [Operand(task.value_of(known.image)), Operand(task.value_of(known.filter), packing)]
    names = [*([known.bias] if known.bias else []), *known.added]
    operands += [Operand(task.value_of(name)) for name in names]
    pointers = [f"in{place}" for place in range(len(operands))]
    scratch = ["scratch"] if offered.scratch else []
    body = ExternBody(
        f"{_declared(symbol, len(pointers), bool(scratch))};\n"
        f"{symbol}({', '.join([*pointers, *scratch, 'out'])});\n",
        scratch_bytes=offered.scratch,
        stack_bytes=_STACK_BYTES,
        foreign=_foreign(f"{symbol}.c", text.replace("LAYER", symbol)),
        prepare=f"{symbol}_prepare",
    )
    loops = nest.generate(task)
    return Implementation(
        loops.kernel, loops.operands, name, outside=Outside(body, tuple(operands))
    )


def _declared(symbol: str, inputs: int, scratch: bool) -> str:
    kinds = ["const float *"] * inputs + ["void *"] * scratch + ["float *"]
    return f"extern void {symbol}({', '.join(kinds)})"


@cache
def _support() -> tuple[tuple[str, bytes], ...]:
    folder = files("weft.kernels") / "data"
    return tuple((name, (folder / name).read_bytes()) for name in
                 ("weft_onednn.c", "weft_onednn.h"))  # fmt: skip


def _foreign(name: str, text: str) -> Foreign:
    root = root_of()
    folder = library_in(root).parent
    return Foreign(
        (*_support(), (name, text.encode())),
        (f"-I{root / 'include'}",),
        (f"-L{folder}", f"-Wl,-rpath,{folder}", "-ldnnl", "-ldl", "-pthread"),
    )


def layer_text(asked: Asked, offered: Offer) -> str:
    """The C of a layer, which is called ``LAYER``."""
    inputs = [f"const float *in{place}" for place in range(2 + asked.bias)]
    added = sum(each.kind == "add" for each in asked.after)
    inputs += [f"const float *added{place}" for place in range(added)]
    inputs += ["void *scratch"] if offered.scratch else []
    what = "Product of matrices" if asked.is_product else "Convolution"
    window = [
        f"    .strides = {_numbers(asked.strides)},",
        f"    .dilations = {_numbers(asked.dilations)},",
        f"    .before = {_numbers(asked.before)},",
        f"    .behind = {_numbers(asked.behind)},",
    ]
    listed = ", ".join(f"added{place}" for place in range(added)) or "NULL"
    lines = [
        f"/* {what} by oneDNN ({offered.code}). Generated by Weft. Do not edit. */",
        '#include "weft_onednn.h"',
        "",
        "static const weft_onednn_work what = {",
        f"    .rank = {len(asked.filter)},",
        f"    .source = {_numbers(asked.source.dims)},",
        f"    .source_steps = {_numbers(asked.source.steps)},",
        f"    .filter = {_numbers(asked.filter)},",
        f"    .target = {_numbers(asked.target.dims)},",
        f"    .target_steps = {_numbers(asked.target.steps)},",
        f"    .layout = dnnl_{offered.layout},",
        *([] if asked.is_product else window),
        f"    .bias = {int(asked.bias)},",
        f"    .count = {len(asked.after)},",
        *([f"    .after = {{{', '.join(map(_after, asked.after))}}},"] if asked.after else []),
        f"    .scratch = {offered.scratch},",
        f"    .threads = {asked.threads},",
        "};",
        "",
        "static weft_onednn_layer layer = {.what = &what};",
        "",
        "int LAYER_prepare(void)",
        "{",
        "    return weft_onednn_prepare(&layer);",
        "}",
        "",
        f"void LAYER({', '.join([*inputs, 'float *out'])})",
        "{",
        f"    const float *const added[] = {{{listed}}};",
        f"    weft_onednn_run(&layer, in0, in1, {'in2' if asked.bias else 'NULL'}, added, "
        f"{'scratch' if offered.scratch else 'NULL'}, out);",
        "}",
        "",
    ]
    return "\n".join(lines)


def _numbers(values: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def _after(each: After) -> str:
    parts = [f".kind = WEFT_ONEDNN_{each.kind.upper()}"]
    if each.kind == "clip":
        parts += [f".low = {each.low!r}f", f".high = {each.high!r}f"]
    if each.tensor is not None:
        parts += [
            f".dims = {_numbers(each.tensor.dims)}",
            f".steps = {_numbers(each.tensor.steps)}",
        ]
    return f"{{{', '.join(parts)}}}"
