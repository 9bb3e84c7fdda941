"""What the processes of bench/feed-peers.bench.ts share: rounds that are asked for one at a time, so that peers take turns, and the sequences of the batch, which all of them carry.

A process prints its kinds as one JSON list when it is ready. For every line on standard input, the name of a kind, it runs that kind once and prints {"seconds", "tokens"}: how long it took until
torch tensors of all streams were there. The last lines of a process that ends early are its error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from typing import Callable, Mapping, Sequence

import numpy as np

from tapedeck_feed.connection import Connection, path_of
from tapedeck_feed.incoming import Incoming
from tapedeck_feed.slices import Slice, read_slice, sha256_of, verify_digest

Work = Callable[[], int]
"""Returns the tokens that it made tensors of."""


def answer_rounds(kinds: Mapping[str, "tuple[Callable[[], None], Work]"]) -> None:
    """Each kind: what comes before the clock starts, and what is timed. Whatever prints to standard output meanwhile is sent to standard error."""
    out = os.dup(1)
    os.dup2(2, 1)

    def say(value: object) -> None:
        os.write(out, (json.dumps(value) + "\n").encode())

    def run(kind: str) -> dict[str, float]:
        prepare, work = kinds[kind]
        prepare()
        started = time.perf_counter()
        tokens = work()
        return {"seconds": time.perf_counter() - started, "tokens": tokens}

    for kind in kinds:
        run(kind)
    say(list(kinds))
    for line in sys.stdin:
        say(run(line.rstrip("\n")))


@dataclass(frozen=True)
class Rollout:
    """One sequence of the batch, without padding."""

    group: str
    ids: np.ndarray
    mask: np.ndarray
    logprobs: np.ndarray
    advantage: float


def slice_over_tcp(asked: Mapping[str, object], connection: Connection, memory: Callable[[int], memoryview]) -> Slice:
    """`asked`: feed, n, max_tokens. Verified."""
    query = {"rank": 0, "world": 1, "maxTokens": asked["max_tokens"], "columns": "", "wait": 60, "project": "default"}
    answer = connection.get(path_of(str(asked["feed"]), "batches", str(asked["n"])), query, lambda size: Incoming(memory(size)))
    verify_digest(answer.body, sha256_of(answer.headers))
    return read_slice(answer.body.memory)


def sequences_of(asked: Mapping[str, object]) -> list[Rollout]:
    """All rows of the batch, by the client itself."""
    connection = Connection(str(asked["url"]))
    piece = slice_over_tcp(asked, connection, lambda size: memoryview(bytearray(size)))
    connection.close()
    rows = []
    for micro_batch in piece.micro_batches:
        starts, advantages = micro_batch.cu_seqlens, micro_batch.scalars("advantage")
        for i in np.flatnonzero(~micro_batch.padding):
            own = slice(starts[i], starts[i + 1])
            streams = micro_batch.token_ids[own], micro_batch.loss_mask[own], micro_batch.logprobs[own]
            rows.append(Rollout(micro_batch.texts("group_id")[i] or "", *streams, advantage=float(advantages[i])))
    return rows


def groups_of(rows: Sequence[Rollout]) -> list[list[Rollout]]:
    """Rows of one group side by side, in the order of the first."""
    found: dict[str, list[Rollout]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    return list(found.values())
