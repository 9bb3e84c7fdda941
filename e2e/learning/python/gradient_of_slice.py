"""Gradient of the example's trainer for one slice, as it is in numpy and in torch: `gradient_of_slice.py SLICE WEIGHTS OUT` writes OUT.numpy and OUT.torch, and prints both losses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import train
from tapedeck_feed import read_slice


def main() -> None:
    piece = read_slice(np.fromfile(sys.argv[1], np.uint8))
    weights = np.fromfile(sys.argv[2], "<f8")
    assert len(weights) == train.WEIGHTS, f"{len(weights)} weights, not {train.WEIGHTS}"
    losses = {}
    for name, gradient_of in {"numpy": train.numpy_gradient, "torch": train.torch_gradient}.items():
        gradient, loss, _ = gradient_of(weights, piece.micro_batches, piece.header.denominators)
        Path(f"{sys.argv[3]}.{name}").write_bytes(gradient.astype("<f8").tobytes())
        losses[name] = loss
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
