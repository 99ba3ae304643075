"""Trains the digits network and exports it: `python examples/digits/train.py`.

It needs PyTorch and scikit-learn and takes about ten seconds on one core.  The result,
`digits.onnx`, is committed, so the demo needs no PyTorch.  The split is `split()` in `data.py`.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from data import split
from torch import nn  # pyright: ignore[reportMissingImports]

HERE = Path(__file__).parent
SEED = 7
EPOCHS = 40


class DepthwiseBlock(nn.Module):
    """Depthwise then pointwise convolution, each with batch norm, and a residual connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.depthwise_norm = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.pointwise_norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.depthwise_norm(self.depthwise(x)))
        return torch.relu(x + self.pointwise_norm(self.pointwise(hidden)))


class Digits(nn.Module):
    """8x8 grey pixels in 0..1 to ten scores."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.block = DepthwiseBlock(16)
        self.widen = nn.Sequential(
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(128, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.widen(self.block(self.stem(x))))


def shifted(images: torch.Tensor) -> torch.Tensor:
    """The images, each moved by up to one pixel either way."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    moves = torch.randint(0, 3, (len(images), 2)).tolist()
    moved = [padded[i, :, y : y + 8, x : x + 8] for i, (y, x) in enumerate(moves)]
    return torch.stack(moved)


def train(images: np.ndarray, labels: np.ndarray) -> Digits:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    network = Digits()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.01)
    batches = len(images) // 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=EPOCHS * batches)
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for chosen in order[: batches * 64].split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(shifted(x[chosen])), y[chosen]).backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def export(network: Digits, path: Path) -> None:
    """Writes ONNX with the batch norms left in place, so that folding them is Weft's work."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            network,
            (torch.zeros(1, 1, 8, 8),),
            str(path),
            dynamo=False,
            opset_version=17,
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
            input_names=["image"],
            output_names=["scores"],
        )


def main() -> None:
    (train_images, train_labels), (test_images, test_labels) = split()
    network = train(train_images, train_labels)
    with torch.no_grad():
        guesses = network(torch.from_numpy(test_images)).argmax(dim=1).numpy()
    right = int((guesses == test_labels).sum())
    print(f"held out: {right} of {len(test_labels)} right, {100 * right / len(test_labels):.2f} %")
    export(network, HERE / "digits.onnx")
    print(f"digits.onnx: {(HERE / 'digits.onnx').stat().st_size} bytes")


if __name__ == "__main__":
    main()
