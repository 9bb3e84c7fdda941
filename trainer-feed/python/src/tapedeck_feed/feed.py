"""A feed as an iterator of batches: lease, fetch ahead, verify, commit, resume."""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, TypedDict

import pyarrow as pa

from .buffers import BufferRing
from .chain import ChainVerifier
from .connection import Connection, map_file, path_of
from .errors import CorruptSlice, EndOfFeed, FeedError, LeaseLost, NotReady
from .identity import plan_id_of
from .incoming import Incoming
from .losses import Denominators
from .slices import MicroBatch, Slice, read_slice, sha256_of, verify_digest

POLL_S = 20.0
"""A request waits so long at the server before it is asked again."""
PLAN_PATIENCE_S = 60.0
"""A batch leased under another plan is asked for so long: rank 0 may be slower to start than the others."""


class _Place(TypedDict):
    feed: str
    timeline: int
    n: int
    batch_id: Optional[str]


class Checkpoint(_Place, total=False):
    """What a trainer keeps in its checkpoint to go on from it. `metrics` of step n: recorded at resume where its commit was lost."""

    metrics: Optional[Mapping[str, Any]]


class Batch:
    """One optimizer step's worth of one rank. Its arrays are valid until `prefetch` further batches were taken."""

    def __init__(self, feed: "Feed", piece: Slice, lease: Optional[Mapping[str, Any]]) -> None:
        self._feed = feed
        self._slice = piece
        self._lease = lease
        self.n = piece.header.n
        self.batch_id = piece.header.batch_id
        self.timeline = piece.header.timeline
        self.policy_version = piece.header.policy_version

    @property
    def micro_batches(self) -> Sequence[MicroBatch]:
        """Equally many on every rank; gradients are accumulated over them."""
        return self._slice.micro_batches

    @property
    def denominators(self) -> Denominators:
        """Of the whole batch, all ranks together."""
        return self._slice.header.denominators

    @property
    def tokens(self) -> int:
        return self._slice.tokens

    def checkpoint(self, metrics: Optional[Mapping[str, Any]] = None) -> Checkpoint:
        """For a checkpoint written after the optimizer step and before the commit. With `metrics` nothing of the step is lost when the trainer dies in between."""
        return {"feed": self._feed.feed, "timeline": self.timeline, "n": self.n, "batch_id": self.batch_id, "metrics": None if metrics is None else dict(metrics)}

    def commit(self, metrics: Optional[Mapping[str, Any]] = None, checkpoint: Optional[str] = None) -> None:
        """After the optimizer step, on every rank; rank 0 tells the server, once for all. `checkpoint` is where a checkpoint of this step was written."""
        self._feed._commit(self, metrics, checkpoint)

    def manifest(self) -> Mapping[str, Any]:
        """What the batch holds and what it left out, with reasons."""
        return self._feed.manifest(self.n)


class Feed:
    """Batches of a feed, in order, each exactly once per committed optimizer step.

    `rank` and `world` are DATA-PARALLEL: tensor, context and pipeline ranks of one replica read the same slice. Rank 0 holds the lease. Every rank passes the same
    `max_tokens`, `pad_to_multiple`, `cost` and `checkpoint`. Iterating blocks until a batch is there; `timeout` bounds that wait (NotReady names what is missing). `verify_chain` also reads the
    manifest of every batch, computes its id anew and compares it with the slice and with the batch before.
    """

    def __init__(
        self,
        url: str,
        feed: str,
        rank: int = 0,
        world: int = 1,
        *,
        max_tokens: int,
        pad_to_multiple: int = 1,
        cost: Optional[Mapping[str, float]] = None,
        columns: Sequence[str] = (),
        project: str = "default",
        run: Optional[str] = None,
        holder: Optional[str] = None,
        key: Optional[str] = None,
        checkpoint: Optional[Checkpoint] = None,
        mode: Optional[str] = None,
        restart: bool = False,
        prefetch: int = 1,
        timeout: float = 3600.0,
        lease_seconds: float = 600.0,
        local_files: bool = True,
        verify_chain: bool = False,
        on_wait: Optional[Callable[[Mapping[str, Any]], None]] = None,
    ) -> None:
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} is not below world {world}: ranks count from 0")
        if checkpoint is not None and checkpoint["feed"] != feed:
            raise ValueError(f"the checkpoint is of feed {checkpoint['feed']!r}, not of {feed!r}")
        self.feed, self.rank, self.world = feed, rank, world
        # said in full: what is left out would be that of whatever lease there is
        self._plan = {"world": world, "maxTokens": max_tokens, "padToMultiple": pad_to_multiple, "cost": {"linear": 1, "quadratic": 1e-4, **(cost or {})}}
        self._columns = ",".join(columns)
        self._project = {"project": project}
        self._run = run
        self._holder = holder or f"{socket.gethostname()}:{os.getpid()}"
        self._timeout, self._lease_seconds = timeout, lease_seconds
        self._local_files = local_files
        self._on_wait = on_wait
        self._control = Connection(url, key=key)
        self._data = Connection(url, key=key)
        self._lock = threading.Lock()
        self._lease: Optional[dict[str, Any]] = None
        self._lost: Optional[FeedError] = None
        self._stop = threading.Event()
        self._mismatch: Optional[tuple[int, float]] = None
        self._depth = max(1, prefetch)
        self._buffers = BufferRing(self._depth + 2)
        self._fetched: "queue.Queue[Slice | BaseException]" = queue.Queue(self._depth)
        self._fetcher: Optional[threading.Thread] = None
        self._renewer: Optional[threading.Thread] = None
        self._last: Checkpoint = {"feed": feed, "timeline": 0, "n": 0, "batch_id": None}
        self._next = self._begin(checkpoint, mode, restart)
        self._taken = self._next - 1
        self._chain = ChainVerifier(after=self._before(), max_times_trained=self._max_times_trained()) if verify_chain else None

    @classmethod
    def resume(cls, url: str, checkpoint: Checkpoint, rank: int = 0, world: int = 1, **options: Any) -> "Feed":
        """Goes on from what `checkpoint()` gave: another world size is fine."""
        return cls(url, checkpoint["feed"], rank, world, checkpoint=checkpoint, **options)

    def checkpoint(self) -> Checkpoint:
        """Put this into the trainer's checkpoint, on any rank: the last batch that was committed."""
        return {**self._last}

    def manifest(self, n: int) -> Mapping[str, Any]:
        with self._lock:
            return self._control.get(path_of(self.feed, "batches", str(n), "manifest"), self._project).body

    def status(self) -> Mapping[str, Any]:
        with self._lock:
            return self._control.get(path_of(self.feed, "status"), self._project).body

    def publish(self, version: int, uri: Optional[str] = None) -> None:
        """Tells producers of new weights: version n are the weights after step n. Saying it again changes nothing; other weights under the version are a FeedError, report_conflict."""
        body = {"version": version, "step": version, "uri": uri, "trainer": self._holder, "run": self._run}
        with self._lock:
            self._control.post(path_of(self.feed, "policy"), self._project, body)

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the lease back. Idempotent; an iterator that waits ends."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._data.close()
        with self._lock:
            lease, self._lease = self._lease, None
            if lease is not None and self._lost is None:
                try:
                    self._control.post(path_of(self.feed, "release"), self._project, {"token": lease["token"], "reason": "closed"})
                except FeedError:
                    pass  # it expires by itself
            self._control.close()

    def __iter__(self) -> Iterator[Batch]:
        while True:
            try:
                yield self.take()
            except EndOfFeed:
                return

    def take(self) -> Batch:
        """The next batch. Raises EndOfFeed, NotReady, LeaseLost, CorruptSlice."""
        if self._taken != self._last["n"]:
            raise FeedError("out_of_order", f"batch {self._taken} was not committed: commit it after its optimizer step, before the next is taken")
        deadline = time.monotonic() + self._timeout
        lease = self._lease_next(deadline) if self.rank == 0 else None
        if self._fetcher is None:
            self._fetcher = threading.Thread(target=self._fetch_ahead, name="tapedeck-feed-fetch", daemon=True)
            self._fetcher.start()
        while True:
            self._raise_lost()
            try:
                piece = self._fetched.get(timeout=0.2)
                break
            except queue.Empty:
                if time.monotonic() > deadline:
                    raise NotReady("not_ready", f"batch {self._taken + 1} did not come within {self._timeout} s", {}) from None
                if self._stop.is_set():
                    raise FeedError("closed", "the feed was closed") from None
        if isinstance(piece, BaseException):
            self._fetcher = None
            raise piece
        if lease is not None and (piece.header.batch_id != lease["batchId"] or piece.header.plan_id != lease["planId"]):
            raise CorruptSlice("chain_mismatch", f"batch {piece.header.n} as read is {piece.header.batch_id}, as leased {lease['batchId']}")
        self._taken = piece.header.n
        return Batch(self, piece, lease)

    def _begin(self, checkpoint: Optional[Checkpoint], mode: Optional[str], restart: bool) -> int:
        given = None
        if checkpoint is not None:
            given = {"timeline": checkpoint["timeline"], "n": checkpoint["n"], "batchId": checkpoint["batch_id"], "metrics": checkpoint.get("metrics")}
        if self.rank != 0:
            n = 0 if checkpoint is None else checkpoint["n"]
            self._last = {"feed": self.feed, "timeline": 0, "n": n, "batch_id": None} if checkpoint is None else {**checkpoint}
            return n + 1
        body = {"holder": self._holder, "checkpoint": given, "mode": mode, "restart": restart, "run": self._run}
        answer = self._control.post(path_of(self.feed, "resume"), self._project, body).body
        n = answer["next"] - 1
        self._last = {"feed": self.feed, "timeline": answer["timeline"], "n": n, "batch_id": answer["batchId"] if n > 0 else None}
        return answer["next"]

    def _before(self) -> Optional[Mapping[str, Any]]:
        """The batch that the next one must follow, where it is known by its id."""
        return None if self._last["batch_id"] is None else {"feed": self.feed, "n": self._last["n"], "batchId": self._last["batch_id"]}

    def _max_times_trained(self) -> int:
        return self._control.get(path_of(self.feed), self._project).body["spec"].get("maxTimesTrained", 1)

    def _lease_next(self, deadline: float) -> Mapping[str, Any]:
        step = self._last["n"] + 1
        while True:
            self._raise_lost()
            wait = max(0.0, min(POLL_S, deadline - time.monotonic()))
            body = {"holder": self._holder, "step": step, "ttlSeconds": self._lease_seconds, "token": None, "wait": wait, **self._plan}
            with self._lock:
                answer = self._control.post(path_of(self.feed, "leases"), self._project, body)
                if answer.status == 200 and "x-feed-end" not in answer.headers:
                    self._lease = answer.body
            if "x-feed-end" in answer.headers:
                raise EndOfFeed("end", f"the feed ends after batch {answer.body['committed']}")
            if answer.status == 200:
                self._start_renewing()
                return answer.body
            self._tell_wait(answer.body, deadline, step)

    def _tell_wait(self, body: Mapping[str, Any], deadline: float, n: int) -> None:
        pending = body.get("pending", {})
        if self._on_wait is not None:
            self._on_wait(pending)
        if time.monotonic() >= deadline:
            raise NotReady("not_ready", f"batch {n} did not come within {self._timeout} s: it waits for {pending.get('waitsFor', pending)}", pending)

    def _start_renewing(self) -> None:
        if self._renewer is None:
            self._renewer = threading.Thread(target=self._renew, name="tapedeck-feed-lease", daemon=True)
            self._renewer.start()

    def _renew(self) -> None:
        """Keeps the lease while a step runs long. A lease that is lost stops this trainer at its next call."""
        while not self._stop.wait(self._lease_seconds / 3):
            with self._lock:
                lease = self._lease
                if lease is None or self._stop.is_set():
                    continue
                body = {"holder": self._holder, "step": lease["step"], "ttlSeconds": self._lease_seconds, "token": lease["token"], **self._plan}
                try:
                    self._control.post(path_of(self.feed, "leases"), self._project, body)
                except LeaseLost as lost:
                    self._lost = lost
                    return
                except FeedError:
                    pass  # tried again at the next turn; the commit tells for certain

    def _raise_lost(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _commit(self, batch: Batch, metrics: Optional[Mapping[str, Any]], checkpoint: Optional[str]) -> None:
        if batch.n == self._last["n"] and batch.batch_id == self._last["batch_id"]:
            return  # committed already
        if batch.n != self._taken or batch.n != self._last["n"] + 1:
            raise FeedError("out_of_order", f"batch {batch.n} cannot be committed: {self._last['n']} is the last committed, {self._taken} was taken last")
        timeline = batch.timeline
        if batch._lease is not None:
            self._raise_lost()
            body = {
                "n": batch.n,
                "batchId": batch.batch_id,
                "token": batch._lease["token"],
                "step": batch.n,
                "metrics": None if metrics is None else dict(metrics),
                "checkpoint": None if checkpoint is None else {"uri": checkpoint},
                "run": self._run,
            }
            with self._lock:
                timeline = self._control.post(path_of(self.feed, "commits"), self._project, body).body["timeline"]
                self._lease = None
        self._last = {"feed": self.feed, "timeline": timeline, "n": batch.n, "batch_id": batch.batch_id}

    def _fetch_ahead(self) -> None:
        """Runs in a thread of its own: fetches, verifies and hands over slices in order, as far ahead as the queue is long."""
        try:
            while not self._stop.is_set():
                piece = self._fetch(self._next)
                if piece is None:
                    continue
                self._next += 1
                self._put(piece)
        except BaseException as error:  # handed over, raised where the batch is taken
            if not self._stop.is_set():
                self._put(error)

    def _put(self, piece: "Slice | BaseException") -> None:
        while not self._stop.is_set():
            try:
                self._fetched.put(piece, timeout=0.2)
                return
            except queue.Full:
                continue

    def _fetch(self, n: int) -> Optional[Slice]:
        plan = {"maxTokens": self._plan["maxTokens"], "padToMultiple": self._plan["padToMultiple"], **self._plan["cost"]}
        query = {**self._project, "rank": self.rank, "world": self.world, **plan, "columns": self._columns, "wait": POLL_S}
        path = path_of(self.feed, "batches", str(n))
        data = self._fetch_file(path, query) if self._local_files else None
        if data is None:
            try:
                answer = self._data.get(path, query, lambda size: Incoming(memoryview(self._buffers.take(size))))
            except FeedError as error:
                # further ahead than the feed cuts before a commit; or a lease of an earlier trainer, which rank 0 of this one is about to take over
                if error.code == "out_of_order" or (error.code == "plan_mismatch" and self._is_patient(n)):
                    self._stop.wait(0.2)
                    return None
                raise
            self._mismatch = None
            if answer.status == 202:
                if self._on_wait is not None:
                    self._on_wait(answer.body.get("pending", {}))
                self._stop.wait(0.05)
                return None
            if "x-feed-end" in answer.headers:
                raise EndOfFeed("end", f"the feed ends after batch {answer.body['committed']}")
            verify_digest(answer.body, sha256_of(answer.headers))
            data = answer.body.memory
            self._buffers.keep()
        piece = read_slice(data)
        header = piece.header
        if (header.n, header.rank, header.world) != (n, self.rank, self.world):
            raise CorruptSlice("invalid_header", f"asked for batch {n}, rank {self.rank} of {self.world}; got batch {header.n}, rank {header.rank} of {header.world}")
        plan_id = plan_id_of(header.batch_id, self.world, plan["maxTokens"], plan["padToMultiple"], plan["linear"], plan["quadratic"])
        if header.plan_id != plan_id:
            raise CorruptSlice("plan_mismatch", f"batch {n} came packed by plan {header.plan_id}, asked was for {plan_id}")
        if self._chain is not None:
            self._verify_chain(self._chain, n, header.batch_id)
        return piece

    def _verify_chain(self, chain: ChainVerifier, n: int, batch_id: str) -> None:
        manifest = self._data.get(path_of(self.feed, "batches", str(n), "manifest"), self._project).body
        for flaw in chain.add(manifest):
            raise CorruptSlice("chain_mismatch", flaw.message)
        if manifest["batchId"] != batch_id:
            raise CorruptSlice("chain_mismatch", f"batch {n} as read is {batch_id}, its manifest is of {manifest['batchId']}")

    def _is_patient(self, n: int) -> bool:
        """True while another plan than ours may still give way to ours."""
        now = time.monotonic()
        if self._mismatch is None or self._mismatch[0] != n:
            self._mismatch = (n, now)
        return now - self._mismatch[1] < PLAN_PATIENCE_S

    def _fetch_file(self, path: str, query: Mapping[str, Any]) -> Optional[pa.Buffer]:
        try:
            answer = self._data.head(path, query)
        except FeedError as error:
            if error.code.startswith("4"):
                return None  # an answer without a body is known by its status alone: the GET says why
            raise
        name, size = answer.headers.get("x-feed-file"), answer.headers.get("content-length")
        if answer.status != 200 or name is None or size is None:
            return None
        mapped = map_file(name, int(size))
        if mapped is None:
            self._local_files = False
            return None
        buffer = pa.py_buffer(mapped)
        try:
            verify_digest(buffer, sha256_of(answer.headers))
        except CorruptSlice:
            return None  # damaged on disk: the GET serves what is in memory, or makes it again
        return buffer
