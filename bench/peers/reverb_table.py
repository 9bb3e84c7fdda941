"""dm-reverb: one item per sequence in a FIFO table of a server of its own, sampled once, ending in torch tensors; rounds by rounds.py. Items are written before the clock starts.

Argument: JSON (url, feed, n, max_tokens) of the batch whose sequences are carried; `--serve` runs the server, which prints its port. Needs dm-reverb[tensorflow] (Python 3.11).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import reverb  # noqa: E402

if sys.argv[1] == "--serve":
    table = reverb.Table(
        name="rows", sampler=reverb.selectors.Fifo(), remover=reverb.selectors.Fifo(), max_size=10**7, max_times_sampled=1, rate_limiter=reverb.rate_limiters.MinSize(1)
    )  # fmt: skip
    server = reverb.Server([table])
    print(server.port, flush=True)
    sys.stdin.read()  # until the reader is gone
    os._exit(0)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from rounds import answer_rounds, sequences_of  # noqa: E402

torch.set_num_threads(1)
rows = sequences_of(json.loads(sys.argv[1]))
child = subprocess.Popen([sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert child.stdout is not None
client = reverb.Client(f"localhost:{int(child.stdout.readline())}")
client.server_info(timeout=120)
items = [{"ids": r.ids, "mask": r.mask.astype(np.uint8), "logprobs": r.logprobs, "advantages": np.where(r.mask, np.float32(r.advantage), np.float32(0))} for r in rows]


def write() -> None:
    # a writer per sequence: one writer takes columns of one shape only
    for item in items:
        client.insert(list(item.values()), {"rows": 1.0})


def read() -> int:
    found = 0
    for sample in client.sample("rows", num_samples=len(items), emit_timesteps=False):
        made = [torch.from_numpy(np.asarray(column).reshape(-1)) for column in sample.data]
        found += max(each.numel() for each in made)
    return found


answer_rounds({"dm-reverb": (write, read)})
