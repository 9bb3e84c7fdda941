"""Atropos' run-api as a server of its own, read as its example trainer reads it (JSON), ending in torch tensors; rounds by rounds.py. Groups are posted before the clock starts.

Argument: JSON (url, feed, n, max_tokens) of the batch whose sequences are carried. Needs atroposlib beside fastapi and uvicorn.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time

import numpy as np
import torch
from rounds import answer_rounds, groups_of, sequences_of

START_S = 120
asked = json.loads(sys.argv[1])
torch.set_num_threads(1)
groups = groups_of(sequences_of(asked))
count = sum(len(group) for group in groups)
tokens = sum(len(row.ids) for group in groups for row in group)

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
SERVER = f"from atroposlib.api.server import app; import uvicorn; uvicorn.run(app, host='127.0.0.1', port={port}, log_level='error')"
# ends with this process, however this one ends: its standard input closes
GUARD = f"import threading, sys, os; threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start(); {SERVER}"
server = subprocess.Popen([sys.executable, "-c", GUARD], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


def call(method: str, path: str, body: object = None) -> dict:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request(method, path, None if body is None else body if isinstance(body, bytes) else json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {data[:200]!r}")
        return json.loads(data)
    finally:
        connection.close()


def wait_for_server() -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            call("GET", "/")
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


wait_for_server()
longest = max(len(row.ids) for group in groups for row in group)
trainer = {"wandb_group": "g", "wandb_project": "p", "batch_size": count, "max_token_len": longest, "checkpoint_dir": "", "save_checkpoint_interval": 0, "starting_step": 0, "num_steps": 1_000_000}
call("POST", "/register", trainer)
call("GET", "/batch")  # the trainer has started: environments may register
call("POST", "/register-env", {"max_token_length": longest, "desired_name": "e", "weight": 1.0, "group_size": len(groups[0])})
bodies = [
    json.dumps(
        {
            "tokens": [row.ids.tolist() for row in group],
            # its convention: the id where a token is trained, -100 where it is not
            "masks": [np.where(row.mask, row.ids, -100).tolist() for row in group],
            "scores": [row.advantage for row in group],
            "inference_logprobs": [row.logprobs.astype(np.float64).round(7).tolist() for row in group],
            "env_id": None,
        }
    ).encode()
    for group in groups
]


def post() -> None:
    for body in bodies:
        call("POST", "/scored_data", body)


def read() -> int:
    found = 0
    while found < tokens:
        batch = call("GET", "/batch")["batch"]
        if batch is None:
            raise RuntimeError(f"{found} of {tokens} tokens came")
        for group in batch:
            for ids, mask, logprobs, score in zip(group["tokens"], group["masks"], group["inference_logprobs"], group["scores"]):
                made = torch.tensor(ids, dtype=torch.int32)
                trained = torch.tensor(mask, dtype=torch.int32) != -100
                torch.tensor(logprobs, dtype=torch.float32), torch.where(trained, score, 0.0)
                found += made.numel()
    return found


answer_rounds({"Atropos run-api": (post, read)})
