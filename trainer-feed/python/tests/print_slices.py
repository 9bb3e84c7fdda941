"""Prints what the client reads of the slices named on the command line, as one JSON array; floats as hexadecimal, so that nothing is rounded on the way."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from tapedeck_feed import read_slice, verify_digest
from tapedeck_feed.slices import STREAMS

OWN = ("token_ids", "loss_mask", "logprobs", "advantages", "position_ids")


def exact(array: np.ndarray) -> list[object]:
    return [float(value).hex() for value in array] if array.dtype.kind == "f" else [int(value) for value in array]


def main() -> None:
    slices = []
    for argument in sys.argv[1:]:
        path, sha256 = argument.rsplit("=", 1)
        data = np.fromfile(Path(path), np.uint8)
        verify_digest(data, sha256)
        piece = read_slice(data)
        micro_batches = []
        for micro_batch in piece.micro_batches:
            assert micro_batch.token_ids.base is not None and not micro_batch.token_ids.flags.owndata  # a view
            names = [name for name in STREAMS if name in OWN or name in micro_batch.record_batch.schema.names]
            micro_batches.append(
                {
                    "rows": micro_batch.texts("row_id"),
                    "padding": [bool(value) for value in micro_batch.padding],
                    "offsets": exact(micro_batch.cu_seqlens),
                    "streams": {name: exact(getattr(micro_batch, name) if name in OWN else micro_batch.stream(name)) for name in names},
                }
            )
        slices.append({"n": piece.header.n, "rank": piece.header.rank, "n_rl": piece.header.denominators.n_rl, "micro_batches": micro_batches})
    json.dump(slices, sys.stdout)


if __name__ == "__main__":
    main()
