"""Quantization-aware training on the digits: `python examples/digits/qat.py [--seeds 3]`.

Prints the accuracy on the held-out digits in floats, after post-training quantization and after
quantization-aware training, by bits of weights and activations; all layers have the same bits.
It needs PyTorch and scikit-learn and takes about 40 seconds of processor time for a seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import mean
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import train
from data import split
from torch import nn  # pyright: ignore[reportMissingImports]

import weft

EPOCHS = 40
RATE = 0.005


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    """Percent."""
    return 100 * float((scores.argmax(axis=1) == labels).mean())


def scores_of(module: nn.Module, images: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module.eval()(torch.from_numpy(images)).numpy()


def run(net: Any, images: np.ndarray) -> np.ndarray:
    """The scores of a net for one image, by compiled C."""
    compiled = net.compile()
    return np.concatenate([np.asarray(compiled(image[None])) for image in images])


def fit(network: Any, images: np.ndarray, labels: np.ndarray, seed: int, epochs: int) -> None:
    """Trains a prepared network, as `train.py` trains the one in floats."""
    torch.manual_seed(seed)
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(weft.torch.qat_parameters(network, RATE, weight_decay=0.01))
    batches = len(images) // 64
    rates = [group["lr"] for group in optimizer.param_groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=epochs * batches)
    network.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(x))[: batches * 64].split(64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(train.shifted(x[chosen])), y[chosen])
            loss.backward()
            optimizer.step()
            schedule.step()
    network.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    chosen = parser.parse_args()
    (images, labels), (test_images, test_labels) = split()
    seeds = range(chosen.seeds)
    networks: list[nn.Module] = []
    for seed in seeds:
        train.SEED = seed
        networks.append(train.train(images, labels))

    def row(name: str, make: Callable[[int, nn.Module], Any]) -> None:
        """Prints the accuracy of what is made of each network."""
        found: list[float] = []
        for seed, network in zip(seeds, networks, strict=True):
            made = make(seed, network)
            inside = isinstance(made, nn.Module)
            scores = scores_of(made, test_images) if inside else run(made, test_images)
            found.append(accuracy(scores, test_labels))
        each = "  ".join(f"{value:6.2f}" for value in found)
        print(f"{name:44}  {each}   mean {mean(found):6.2f} %", flush=True)

    row("floats", lambda _, network: network)
    for bits in (4, 3, 2):

        def quantized(_: int, network: nn.Module, bits: int = bits) -> Any:
            net = weft.torch.trace(network.eval(), torch.from_numpy(test_images[:1]))
            return weft.quantize(net, images[:256], weights=bits)

        row(f"{bits}-bit weights, 8-bit activations, rounded", quantized)
        for method in ("", "lsq", "sat"):

            def trained(
                seed: int, network: nn.Module, bits: int = bits, method: Any = method
            ) -> Any:
                sample = torch.from_numpy(images[:256])
                prepared = weft.torch.prepare_qat(
                    network,
                    sample,
                    weights=bits,
                    activations=bits,
                    method=method or "lsq",
                    ends=None,
                )
                if method:
                    fit(prepared, images, labels, seed, chosen.epochs)
                return weft.torch.convert(prepared, sample[:1])

            row(f"{bits} bits, {f'trained, {method}' if method else 'rounded'}", trained)


if __name__ == "__main__":
    main()
