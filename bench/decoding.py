"""Decoding token by token with a key-value cache, against the rate at which memory is read.

    python -m bench.decoding                      a GPT-2 of 4 layers, 1 and 2 threads
    python -m bench.decoding --layers 12 --width 768 --places 1024 --vocabulary 50257

The caches are states: each run writes one place of them where they lie.  A token needs all
weights and, as the shapes are fixed, the whole of the caches, so a run takes at least as long as
reading these from memory.  The first tokens are compared with the reference.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np

import weft
from bench.figures import markdown, median, number
from weft import ops
from weft.api.net import CompiledNet, Net
from weft.runtime.limits import limits, processor_name
from weft.targets.find import host

CHECKED = 3
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Decoder:
    """The sizes of a decoder of GPT-2's architecture."""

    layers: int
    width: int
    heads: int
    places: int
    vocabulary: int

    def net(self) -> Net:
        """The network for one token, with random weights and its caches as states."""
        random = np.random.default_rng(0)
        width, heads, places = self.width, self.heads, self.places
        each = width // heads

        def weights(*shape: int) -> np.ndarray:
            return random.standard_normal(shape, np.float32) * np.float32(shape[0] ** -0.5)

        def norm(x: weft.Value) -> weft.Value:
            return ops.layer_normalization(x, np.ones(width, "f4"), np.zeros(width, "f4"))

        def dense(x: weft.Value, to: int) -> weft.Value:
            return ops.add(ops.matmul(x, weights(x.type.dims[-1], to)), weights(to))

        token, at = weft.input("token", "i64[1]"), weft.input("at", "i64[1]")
        held = [
            weft.input(f"{name}{layer}", f"f32[1,{heads},{places},{each}]")
            for layer in range(self.layers)
            for name in ("keys", "values")
        ]
        later = ops.greater(np.arange(places), at)
        mask = ops.where(later, np.float32(-np.inf), np.float32(0))
        table = weights(self.vocabulary, width)
        x = ops.add(ops.gather(table, token), ops.gather(weights(places, width), at))
        caches: list[weft.Value] = []
        for layer in range(self.layers):
            parts = ops.split(dense(norm(x), 3 * width), axis=-1, num_outputs=3)
            query, key, value = (ops.reshape(part, (1, heads, 1, each)) for part in parts)
            keys = ops.tensor_scatter(held[2 * layer], key, at, axis=2)
            values = ops.tensor_scatter(held[2 * layer + 1], value, at, axis=2)
            caches += [keys, values]
            scores = ops.matmul(query, ops.transpose(keys, perm=(0, 1, 3, 2)))
            scores = ops.add(ops.mul(scores, np.float32(each**-0.5)), mask)
            attended = ops.matmul(ops.softmax(scores), values)
            x = ops.add(x, dense(ops.reshape(attended, (1, width)), width))
            x = ops.add(x, dense(ops.gelu(dense(norm(x), 4 * width)), width))
        scores = ops.matmul(norm(x), np.ascontiguousarray(table.T))
        net = weft.net([token, at, *held], [scores, *caches], name="decoder")
        return net.with_state(dict(zip([*net.inputs][2:], [*net.outputs][1:], strict=True)))

    def read(self) -> int:
        """Bytes of the matrices and the caches, which every token needs."""
        blocks = self.layers * (12 * self.width + 2 * self.places) * self.width
        return 4 * (blocks + self.vocabulary * self.width)


@dataclass(frozen=True)
class Rate:
    """What a decoder takes for a token.

    Attributes:
        milliseconds: of one run.
        limit: of reading from memory what a run needs.
    """

    threads: int
    milliseconds: float
    limit: float


def rate(decoder: Decoder, net: Net, threads: int, seconds: float) -> Rate:
    """Decodes one token after the other, and checks the first of them."""
    fast = net.compile(threads=threads)
    check(net, fast)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < CHECKED:
        token, at = (np.array([len(times) % n]) for n in (decoder.vocabulary, decoder.places))
        start = time.perf_counter()
        fast(token, at)
        times.append(1000 * (time.perf_counter() - start))
    memory = limits(host(), threads, again=True).levels[-1].gbytes
    return Rate(threads, median(times), decoder.read() / memory / 1e6)


def check(net: Net, fast: CompiledNet) -> None:
    """Compares the first tokens with the reference."""
    held = {old: np.zeros(net.inputs[old].dims, np.float32) for old, _ in net.states}
    for place in range(CHECKED):
        token, at = np.array([7 * place]), np.array([place])
        wanted = net.reference(token, at, *held.values())
        held = {old: wanted[list(net.outputs).index(new)] for old, new in net.states}
        found = fast(token, at)
        if np.abs(found - wanted[0]).max() > TOLERANCE * np.abs(wanted[0]).max():
            sys.exit(f"token {place}: the scores are not those of the reference")
    fast.reset()


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    for name, size in (("layers", 4), ("width", 768), ("heads", 12)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--places", type=int, default=1024, help="of a cache")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each")
    given = parser.parse_args()
    decoder = Decoder(given.layers, given.width, given.heads, given.places, given.vocabulary)
    net = decoder.net()
    found = [rate(decoder, net, threads, given.seconds) for threads in given.threads]
    rows = [
        (
            str(each.threads),
            number(each.milliseconds),
            number(each.limit),
            f"{each.limit / each.milliseconds:.0%}",
        )
        for each in found
    ]
    head = ("threads", "ms a token", "limit", "of limit")
    moved = f"{decoder.read() / 1e6:.0f} MB read for a token"
    sys.stdout.write("\n".join((processor_name(), moved, "", *markdown(head, rows), "")))


if __name__ == "__main__":
    main()
