"""OpenCL C as a row of the table of dialects; what it says is what OpenCL C 1.2 says otherwise."""

from __future__ import annotations

from dataclasses import replace

from weft.codegen.flavours import FLAVOURS

# Doubles are an extension; products are not fused with sums, as nowhere in Weft.
_HEAD = """\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
"""
_INTEGERS = """\
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
"""
_VECTORS = frozenset(
    f"{sign}{name}{lanes}"
    for sign in ("", "u")
    for name in ("char", "short", "int", "long", "float", "double", "half")
    for lanes in ("", 2, 3, 4, 8, 16)
)
_WORDS = (
    "bool complex constant generic global half imaginary kernel local pipe private quad read_only "
    "read_write uniform vec_step write_only"
)

OPENCL = replace(
    FLAVOURS["c99"],
    name="opencl",
    standard="CL1.2",
    single="{}",
    headers=False,
    head=_HEAD,
    reserved=_VECTORS.union(_WORDS.split()),
    apart="__attribute__((noinline)) ",
    texts={
        **FLAVOURS["c99"].texts,
        "integers": _INTEGERS,
        "wide integers": _INTEGERS,
        "pointer": "__global {const}{type} *",
        "kernel": "__kernel void {name}({parameters})",
        "part": "(int)get_global_id(0)",
        "parts": "(int)get_global_size(0)",
    },
)
