"""Reads exported steps with prime-rl's own DataLoader, as its trainer does, and prints the tensors as JSON; floats as hexadecimal.

Arguments: the source of prime-rl, the trainer's output folder, the first step, the number of steps, the number of ranks.
"""

import json
import os
import sys
from pathlib import Path

source, out, start, steps, world = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
stdout = os.dup(1)
os.dup2(2, 1)  # prime-rl logs to standard output
sys.path[:0] = [f"{source}/src", f"{source}/packages/prime-rl-configs/src"]

import torch  # noqa: E402
from prime_rl.configs.shared import FileSystemTransportConfig  # noqa: E402
from prime_rl.trainer import world as world_module  # noqa: E402
from prime_rl.trainer.rl.data import DataLoader  # noqa: E402


def plain(value):
    if not isinstance(value, torch.Tensor):
        return value
    values = value.flatten().tolist()
    return [v.hex() if isinstance(v, float) else v for v in values]


ranks = []
for rank in range(world):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world))
    world_module._WORLD = None
    loader = DataLoader(Path(out), start, world, FileSystemTransportConfig())
    read = []
    for _ in range(steps):
        loader.wait_for_batch()
        read.append([{name: plain(value) for name, value in batch.items()} for batch in loader.get_batch()])
    ranks.append(read)
os.write(stdout, json.dumps(ranks).encode())
