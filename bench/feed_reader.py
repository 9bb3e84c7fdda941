"""Reads one slice of a batch again and again, in turns with the raw transfer of the same bytes, and prints seconds per read as one JSON object.

Arguments as JSON: url, feed, n, rank, world, max_tokens, columns, rounds, raw (URL that serves the same bytes without anything around them, or null), start (a Unix time all
ranks begin at).
"""

from __future__ import annotations

import hashlib
import http.client
import json
import sys
import time
from urllib.parse import urlsplit

from tapedeck_feed.buffers import BufferRing
from tapedeck_feed.connection import Connection, map_file, path_of, read_whole
from tapedeck_feed.slices import sha256_of
from tapedeck_feed.incoming import Incoming
from tapedeck_feed.slices import read_slice, verify_digest

asked = json.loads(sys.argv[1])
query = {"rank": asked["rank"], "world": asked["world"], "maxTokens": asked["max_tokens"], "columns": asked["columns"], "wait": 60, "project": "default"}
path = path_of(asked["feed"], "batches", str(asked["n"]))
connection = Connection(asked["url"])
buffers = BufferRing(3)


def take(size: int) -> memoryview:
    return memoryview(buffers.take(size))


def over_tcp(verified: bool):
    answer = connection.get(path, query, lambda size: Incoming(take(size), hashed=verified))
    if verified:
        verify_digest(answer.body, sha256_of(answer.headers))
    buffers.keep()
    return read_slice(answer.body.memory)


def mapped(verified: bool):
    answer = connection.head(path, query)
    data = map_file(answer.headers["x-feed-file"], int(answer.headers["content-length"]))
    if data is None:
        raise SystemExit(f"the server's file cannot be mapped: {dict(answer.headers)}")
    if verified:
        verify_digest(data, sha256_of(answer.headers))
    return read_slice(data)


raw = None
if asked["raw"] is not None:
    parts = urlsplit(asked["raw"])
    raw = http.client.HTTPConnection(parts.hostname, parts.port)


def raw_bytes() -> memoryview:
    raw.request("GET", f"/{asked['rank']}")
    response = raw.getresponse()
    incoming = Incoming(take(int(response.headers["content-length"])), hashed=False)
    read_whole(response, incoming)
    buffers.keep()
    return incoming.memory


def timed(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


first = over_tcp(True)
tokens = first.tokens
size = connection.head(path, query).headers["content-length"]
buffer = take(int(size))
kinds = {
    **({} if raw is None else {"raw": raw_bytes}),
    "tcp": lambda: over_tcp(True),
    "tcp, digest not looked at": lambda: over_tcp(False),
    "mmap": lambda: mapped(True),
    "mmap, digest not looked at": lambda: mapped(False),
    "sha256 alone": lambda: hashlib.sha256(buffer).digest(),
}
for work in kinds.values():
    work()
time.sleep(max(0.0, asked["start"] - time.time()))
seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
for _ in range(asked["rounds"]):
    for kind, work in kinds.items():
        seconds[kind].append(timed(work))
print(json.dumps({"tokens": tokens, "bytes": int(size), "seconds": seconds}))
