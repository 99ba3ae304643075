"""The digits data and its fixed split, shared by `train.py` and the demo."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

Labelled = tuple[np.ndarray, np.ndarray]


def split() -> tuple[Labelled, Labelled]:
    """scikit-learn's 1797 digits: (images, labels) to train on, and the held-out ones.

    Every fifth digit (index 4, 9, 14, ...) is held out: 1438 to train on, 359 held out.
    Images are float32 [n, 1, 8, 8] in 0..1; labels are int64.
    """
    pixels, labels = (np.asarray(each) for each in load_digits(return_X_y=True))
    images = (pixels.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    held_out = np.arange(len(images)) % 5 == 4
    return (images[~held_out], labels[~held_out]), (images[held_out], labels[held_out])
