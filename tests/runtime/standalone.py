"""Programs that run a generated network with nothing but the C library."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.codegen.emit import Files, emit
from weft.plan.program import Program
from weft.runtime.threads import pool_texts

# Every buffer is a block of its own, of exactly its size, so that the sanitizer sees each end.
_MAIN = """\
#include <stdio.h>
#include <stdlib.h>

#include "{name}.h"
{include}
static void *block(size_t size)
{{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, size) != 0) {{
        exit(10);
    }}
    return memory;
}}

static void *load(const char *path, size_t size)
{{
    void *memory = block(size);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(memory, 1, size, file) != size) {{
        exit(11);
    }}
    fclose(file);
    return memory;
}}

int main(int count, char **paths)
{{
    if (count != 4) {{
        return 12;
    }}
    void *input = load(paths[1], {input_bytes});
    void *weights = load(paths[2], {weight_bytes});
    void *output = block({output_bytes});
    void *arena = block({arena_bytes});
{before}    int code = {function}(input, output, arena, weights{threads});
{after}    if (code != 0) {{
        return code;
    }}
    FILE *file = fopen(paths[3], "wb");
    if (file == NULL || fwrite(output, 1, {output_bytes}, file) != {output_bytes}) {{
        return 13;
    }}
    fclose(file);
    free(input);
    free(weights);
    free(output);
    free(arena);
    return 0;
}}
"""


_ALONE = {"include": "", "before": "", "threads": "", "after": ""}
_POOLED = {
    "include": '#include "weft_pool.h"\n',
    "before": (
        "    weft_pool *pool = weft_pool_new(THREADS, 0);\n"
        "    const weft_threads threads = {THREADS, weft_pool_run, pool};\n"
    ),
    "threads": ", &threads",
    "after": "    weft_pool_free(pool);\n",
}


@dataclass(frozen=True)
class Standalone:
    """A built program with the network's weights beside it."""

    folder: Path
    program: Program
    files: Files

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Runs it once on one input."""
        x.tofile(self.folder / "input.bin")
        names = ("input.bin", "weights.bin", "output.bin")
        done = subprocess.run(
            [self.folder / "main", *names],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[:4000]}"
        port = self.program.outputs[0]
        return np.fromfile(self.folder / "output.bin", port.dtype.numpy).reshape(port.shape)


def standalone(
    program: Program, flavour: str, folder: Path, compiler: Sequence[str], flags: Sequence[str]
) -> Standalone:
    """Builds a program that reads the input and the weights from files.

    A network for several threads gets a pool of them.
    """
    files = emit(program, flavour, "blob")
    assert files.blob is not None
    (given,), (made,) = program.inputs, program.outputs
    main = _MAIN.format(
        name=program.name,
        function=files.interface.function,
        input_bytes=int(np.prod(given.shape)) * given.dtype.bytes,
        output_bytes=int(np.prod(made.shape)) * made.dtype.bytes,
        weight_bytes=files.blob.size,
        arena_bytes=program.arena_bytes,
        **(_POOLED if program.threads > 1 else _ALONE),
    ).replace("THREADS", str(program.threads))
    pool = pool_texts() if program.threads > 1 else ()
    for name, text in (files.header, *files.private, *files.sources, *pool, ("main.c", main)):
        (folder / name).write_text(text)
    (folder / "weights.bin").write_bytes(files.blob.tobytes())
    sources = [name for name, _ in files.sources]
    command = [*compiler, f"-std={files.flavour.standard}", *flags, "-c", *sources]
    pooled = ["-pthread", "weft_pool.c"] if pool else []
    link = ["-std=gnu11", *flags, "main.c", *pooled, *(f"{Path(name).stem}.o" for name in sources)]
    for arguments in (command, [*compiler, *link, "-o", "main", "-lm"]):
        done = subprocess.run(
            arguments, cwd=folder, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stderr[:4000]}"
    return Standalone(folder, program, files)
