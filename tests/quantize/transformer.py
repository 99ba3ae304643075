"""A vision transformer with random weights of realistic sizes (Dosovitskiy et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

import weft
from weft import Value, ops


@dataclass(frozen=True)
class VisionTransformer:
    """ViT-B/16 unless other sizes are given."""

    image: int = 224
    patch: int = 16
    width: int = 768
    heads: int = 12
    blocks: int = 12
    classes: int = 1000
    seed: int = 0

    def net(self) -> weft.Net:
        size = f"f32[1,3,{self.image},{self.image}]"
        return weft.trace(_Build(self).network, size, name="vit")

    def samples(self, count: int) -> np.ndarray:
        """Smooth random images, normalized."""
        rng = np.random.default_rng(self.seed + 1)
        coarse = rng.normal(0, 1, (count, 3, self.image // 4, self.image // 4))
        return coarse.repeat(4, 2).repeat(4, 3).astype(np.float32)


class _Build:
    def __init__(self, sizes: VisionTransformer) -> None:
        self.sizes = sizes
        self.rng = np.random.default_rng(sizes.seed)

    def normal(self, *shape: int, fan: int | None = None) -> Value:
        spread = 1 / sqrt(fan or shape[0])
        return weft.constant(self.rng.normal(0, spread, shape).astype(np.float32))

    def around(self, middle: float, size: int) -> Value:
        return weft.constant(self.rng.normal(middle, 0.1, size).astype(np.float32))

    def norm(self, x: Value, name: str) -> Value:
        width = self.sizes.width
        return ops.layer_normalization(
            x, self.around(1, width), self.around(0, width), axis=-1, name=name
        )

    def linear(self, x: Value, ins: int, outs: int, name: str) -> Value:
        product = ops.matmul(x, self.normal(ins, outs), name=name)
        return ops.add(product, self.around(0, outs), name=f"{name}_bias")

    def heads(self, x: Value, tokens: int) -> Value:
        s = self.sizes
        return ops.transpose(ops.reshape(x, (1, tokens, s.heads, s.width // s.heads)), (0, 2, 1, 3))

    def attention(self, x: Value, tokens: int, name: str) -> Value:
        s = self.sizes
        q, k, v = (
            self.heads(self.linear(x, s.width, s.width, f"{name}_{part}"), tokens) for part in "qkv"
        )
        scale = weft.constant(np.array(1 / sqrt(s.width // s.heads), np.float32))
        turned = ops.transpose(k, (0, 1, 3, 2))
        scores = ops.matmul(ops.mul(q, scale), turned, name=f"{name}_scores")
        mixed = ops.matmul(ops.softmax(scores, axis=-1), v, name=f"{name}_mixed")
        whole = ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (1, tokens, s.width))
        return self.linear(whole, s.width, s.width, f"{name}_project")

    def block(self, x: Value, tokens: int, name: str) -> Value:
        width = self.sizes.width
        x = ops.add(x, self.attention(self.norm(x, f"{name}_norm_1"), tokens, name))
        inner = self.linear(self.norm(x, f"{name}_norm_2"), width, 4 * width, f"{name}_widen")
        return ops.add(x, self.linear(ops.gelu(inner), 4 * width, width, f"{name}_narrow"))

    def network(self, image: Value) -> Value:
        s = self.sizes
        side = s.image // s.patch
        weight = self.normal(s.width, 3, s.patch, s.patch, fan=3 * s.patch**2)
        patches = ops.conv(
            image, weight, self.around(0, s.width), strides=(s.patch, s.patch), name="patches"
        )
        rows = ops.transpose(ops.reshape(patches, (1, s.width, side * side)), (0, 2, 1))
        first = weft.constant(self.rng.normal(0, 0.5, (1, 1, s.width)).astype(np.float32))
        x = ops.concat(first, rows, axis=1)
        tokens = side * side + 1
        places = self.rng.normal(0, 0.3, (1, tokens, s.width)).astype(np.float32)
        x = ops.add(x, weft.constant(places), name="places")
        for number in range(s.blocks):
            x = self.block(x, tokens, f"block_{number}")
        x = self.norm(x, "norm")
        head = ops.reshape(ops.slice(x, starts=(0,), ends=(1,), axes=(1,)), (1, s.width))
        weight, bias = self.normal(s.width, s.classes), self.around(0, s.classes)
        return ops.gemm(head, weight, bias, name="head")
