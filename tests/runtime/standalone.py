"""Programs that run a generated network with nothing but the C library."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.codegen.emit import Files, emit
from weft.plan.program import Program

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
# Threads of its own for every part, so that the sanitizer sees them all side by side: a pool's
# caller runs the parts that no other thread has begun.
_SPREAD = """\
#include <pthread.h>

typedef struct share {
    void (*task)(void *context, int part, int parts);
    void *context;
    int part;
    int parts;
} share;

static void *begin(void *argument)
{
    share *const own = (share *)argument;
    own->task(own->context, own->part, own->parts);
    return NULL;
}

static void spread(void *pool, int parts, void (*task)(void *context, int part, int parts),
                   void *context)
{
    pthread_t threads[THREADS];
    share shares[THREADS];
    (void)pool;
    for (int i = 0; i < parts; ++i) {
        shares[i] = (share){task, context, i, parts};
        if (pthread_create(&threads[i], NULL, begin, &shares[i]) != 0) {
            exit(14);
        }
    }
    for (int i = 0; i < parts; ++i) {
        if (pthread_join(threads[i], NULL) != 0) {
            exit(15);
        }
    }
}

"""
_THREADED = {
    "include": _SPREAD,
    "before": "    const weft_threads threads = {THREADS, spread, NULL};\n",
    "threads": ", &threads",
    "after": "",
}


@dataclass(frozen=True)
class Standalone:
    """A built program with the network's weights beside it."""

    folder: Path
    program: Program
    files: Files
    emulator: Sequence[str] = ()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Runs it once on one input."""
        x.tofile(self.folder / "input.bin")
        names = ("input.bin", "weights.bin", "output.bin")
        done = subprocess.run(
            [*self.emulator, self.folder / "main", *names],
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
    program: Program,
    flavour: str,
    folder: Path,
    compiler: Sequence[str],
    flags: Sequence[str],
    emulator: Sequence[str] = (),
) -> Standalone:
    """Builds a program that reads the input and the weights from files.

    A network for several threads gets new ones for every kernel.  An emulator runs what is
    built for another machine.
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
        **(_THREADED if program.threads > 1 else _ALONE),
    ).replace("THREADS", str(program.threads))
    for name, text in (files.header, *files.private, *files.sources, ("main.c", main)):
        (folder / name).write_text(text)
    (folder / "weights.bin").write_bytes(files.blob.tobytes())
    sources = [name for name, _ in files.sources]
    command = [*compiler, f"-std={files.flavour.standard}", *flags, "-c", *sources]
    objects = [f"{Path(name).stem}.o" for name in sources]
    link = ["-std=gnu11", "-pthread", *flags, "main.c", *objects]
    for arguments in (command, [*compiler, *link, "-o", "main", "-lm"]):
        done = subprocess.run(
            arguments, cwd=folder, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stderr[:4000]}"
    return Standalone(folder, program, files, emulator)
