"""Verifies a feed for anybody who can read it: its chain from the manifests and, when asked, the rows from the slices.

    python -m tapedeck_feed.verify http://127.0.0.1:7070 policy [--rows] [--to N] [--project P] [--key-file FILE]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Iterator, Mapping, Optional, Sequence

from .chain import ChainVerifier, Flaw
from .connection import Answer, Connection, path_of
from .errors import FeedError, NotReady
from .incoming import Incoming
from .row_hashes import verify_rows
from .slices import MicroBatch, read_slice, sha256_of, verify_digest

WAIT_S = 30
PATIENCE = 4
"""A batch whose rows are being made again from the log is asked for so often, each time for WAIT_S."""


def verify_feed(url: str, feed: str, *, to: Optional[int] = None, rows: bool = False, project: str = "default", key: Optional[str] = None) -> Iterator[tuple[int, list[Flaw]]]:
    """Each batch of a feed from the first to `to` (all that are cut) with its flaws, read from its server. `rows` also reads every slice. Raises FeedError for what the server refuses."""
    server = _Server(Connection(url, key=key), feed, project)
    try:
        verifier = ChainVerifier(max_times_trained=server.get({}).body["spec"].get("maxTimesTrained", 1))
        last = server.get({}, "status").body["cut"] if to is None else to
        for n in range(1, last + 1):
            manifest = server.get({"wait": WAIT_S}, "batches", str(n), "manifest").body
            flaws = verifier.add(manifest)
            if rows and all(flaw.flaw != "unreadable" for flaw in flaws):
                flaws += verify_rows(manifest, server.rows(n, manifest))
            yield n, flaws
    finally:
        server.connection.close()


class _Server:
    def __init__(self, connection: Connection, feed: str, project: str) -> None:
        self.connection, self._feed, self._project = connection, feed, {"project": project}

    def get(self, query: Mapping[str, Any], *path: str, into: Any = None) -> Answer:
        for _ in range(PATIENCE):
            answer = self.connection.get(path_of(self._feed, *path), {**self._project, **query}, into)
            if answer.status == 200 and "x-feed-end" not in answer.headers:
                return answer
        raise NotReady("not_ready", f"{'/'.join(path)} of feed {self._feed} is not there: {answer.body}")

    def rows(self, n: int, manifest: Mapping[str, Any]) -> list[MicroBatch]:
        """Of all ranks: of one rank, or under the plan that the batch is leased with."""
        longest = max((row["seqLen"] for row in manifest["rows"]), default=1)
        try:
            return self._slices(n, 1, {"maxTokens": longest, "padToMultiple": 1})
        except FeedError as error:
            if error.code != "plan_mismatch" or "plan" not in error.details:
                raise
            return self._slices(n, error.details["plan"]["world"], {})

    def _slices(self, n: int, world: int, plan: Mapping[str, Any]) -> list[MicroBatch]:
        found: list[MicroBatch] = []
        for rank in range(world):
            query = {**plan, "rank": rank, "world": world, "wait": WAIT_S}
            answer = self.get(query, "batches", str(n), into=lambda size: Incoming(memoryview(bytearray(size))))
            verify_digest(answer.body, sha256_of(answer.headers))
            found += read_slice(answer.body.memory).micro_batches
        return found


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Prints the flaws of the first batch that has some, or that there are none. 1 = there are."""
    parser = argparse.ArgumentParser(prog="python -m tapedeck_feed.verify", description="Computes the ids of a feed's batches anew and follows their chain.")
    parser.add_argument("url")
    parser.add_argument("feed")
    parser.add_argument("--to", type=int, help="the last batch; otherwise all that are cut")
    parser.add_argument("--rows", action="store_true", help="read every slice too, and hash its rows")
    parser.add_argument("--project", default="default")
    parser.add_argument("--key-file", help="file that holds the API key")
    given = parser.parse_args(arguments)
    key = None
    if given.key_file is not None:
        with open(given.key_file, encoding="utf-8") as file:
            key = file.read().strip()
    batches = 0
    for batches, flaws in verify_feed(given.url, given.feed, to=given.to, rows=given.rows, project=given.project, key=key):
        for flaw in flaws:
            print(f"{flaw.flaw}: {flaw.message}", file=sys.stderr)
        if flaws:
            return 1
    print(f"{batches} batches of feed {given.feed}: every id is what its batch holds, each names the one before it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
