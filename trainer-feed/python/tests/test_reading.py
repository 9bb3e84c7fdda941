"""From bytes to tensors: the hash of what comes in, buffers that are used again, and every fault of a slice refused by its name."""

from __future__ import annotations

import hashlib
import threading
import unittest

import numpy as np
import pyarrow as pa

from tapedeck_feed.buffers import ALIGNMENT, BufferRing
from tapedeck_feed.errors import CorruptSlice
from tapedeck_feed.incoming import Incoming
from tapedeck_feed.slices import read_slice, verify_digest

LENGTHS = [3, 5, 4]
HEADER = {
    "feed": "f", "timeline": "0", "n": "1", "batch_id": "b", "plan_id": "p", "algorithm": "grpo", "policy_version": "", "n_rl": "3", "n_ce": "1", "n_ref_kl": "1",
    "world": "1", "rank": "0", "micro_batches": "1",
}  # fmt: skip


def lists(values: np.ndarray, kind: pa.DataType, lengths: list[int] = LENGTHS) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, kind))


def columns() -> dict[str, pa.Array]:
    """Three rows of which the last only fills up."""
    mask = np.array([0, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0], np.uint8)
    return {
        "token_ids": lists(np.arange(12), pa.int32()),
        "loss_mask": lists(mask, pa.uint8()),
        "logprobs": lists(-mask.astype(np.float32), pa.float32()),
        "seq_len": pa.array(LENGTHS, pa.int32()),
        "status": pa.array(["completed", "truncated", "padding"]),
    }


def slice_of(made: dict[str, pa.Array], header: dict[str, str] = HEADER) -> bytes:
    def field(name: str, column: pa.Array) -> pa.Field:
        if not pa.types.is_list(column.type):
            return pa.field(name, column.type)
        return pa.field(name, pa.list_(pa.field("item", column.type.value_type, nullable=False)), nullable=False)

    schema = pa.schema([field(name, column) for name, column in made.items()], {f"tapedeck.{key}": value for key, value in header.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column.cast(schema.field(name).type) for name, column in made.items()], schema=schema))
    return sink.getvalue().to_pybytes()


class Hashing(unittest.TestCase):
    def test_the_hash_is_that_of_the_whole_however_it_comes(self) -> None:
        random = np.random.default_rng(1)
        for size in (0, 1, 4096, 1_000_003):
            data = random.bytes(size)
            for hashed in (True, False):
                memory = memoryview(bytearray(size))
                incoming = Incoming(memory, hashed=hashed)
                at = 0
                while at < size:
                    step = min(size - at, int(random.integers(1, max(2, size // 5))))
                    memory[at : at + step] = data[at : at + step]
                    at += step
                    incoming.filled(at)
                self.assertEqual(incoming.sha256(), hashlib.sha256(data).hexdigest())
                verify_digest(incoming, hashlib.sha256(data).hexdigest())
                with self.assertRaises(CorruptSlice) as caught:
                    verify_digest(incoming, hashlib.sha256(data + b"x").hexdigest())
                self.assertEqual(caught.exception.code, "digest_mismatch")

    def test_a_body_that_did_not_come_whole_has_no_hash_and_leaves_no_thread(self) -> None:
        before = threading.active_count()
        incoming = Incoming(memoryview(bytearray(100)))
        incoming.filled(40)
        with self.assertRaises(ValueError):
            incoming.sha256()
        incoming.abandon()
        incoming.abandon()
        with self.assertRaises(ValueError):
            incoming.sha256()
        self.assertEqual(threading.active_count(), before)


class Buffers(unittest.TestCase):
    def test_what_is_kept_is_not_written_over_by_attempts_that_fail(self) -> None:
        ring = BufferRing(3)
        kept = []
        for value in (1, 2):
            ring.take(1000)[:] = value
            ring.keep()
            kept.append(ring._buffers[value - 1][:1000])
        for attempt in range(7):
            buffer = ring.take(1000 + attempt * 300)
            self.assertEqual((len(buffer), buffer.ctypes.data % ALIGNMENT), (1000 + attempt * 300, 0))
            buffer[:] = 9
        self.assertEqual([set(buffer.tolist()) for buffer in kept], [{1}, {2}])
        ring.keep()
        self.assertEqual(ring.take(1000)[0], 1)  # the first again


class Refusals(unittest.TestCase):
    def refused(self, code: str, data: bytes) -> None:
        with self.assertRaises(CorruptSlice) as caught:
            read_slice(data)
        self.assertEqual(caught.exception.code, code)

    def test_a_slice_that_holds(self) -> None:
        (micro_batch,) = read_slice(slice_of(columns())).micro_batches
        self.assertEqual(micro_batch.padding.tolist(), [False, False, True])
        self.assertEqual(micro_batch.position_ids.tolist(), [0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3])

    def test_each_fault_by_its_name(self) -> None:
        made = columns()
        trained_padding = np.zeros(12, np.uint8)
        trained_padding[-1] = 1
        first_of_padding = np.zeros(12, np.uint8)
        first_of_padding[8] = 1
        odd_mask = np.full(12, 2, np.uint8)
        shifted = [5, 3, 4]
        for code, change in (
            ("loss_mask", {"loss_mask": lists(trained_padding, pa.uint8())}),
            ("loss_mask", {"loss_mask": lists(first_of_padding, pa.uint8())}),
            ("loss_mask", {"loss_mask": lists(odd_mask, pa.uint8())}),
            ("stream_length", {"logprobs": lists(np.zeros(12), pa.float32(), shifted)}),
            ("seq_len", {"seq_len": pa.array(shifted, pa.int32())}),
            ("invalid_schema", {"logprobs": lists(np.zeros(12), pa.float64())}),
            ("invalid_schema", {"loss_mask": lists(np.zeros(12), pa.int32())}),
        ):
            self.refused(code, slice_of({**made, **change}))
        for name in ("token_ids", "loss_mask", "logprobs"):
            self.refused("invalid_schema", slice_of({key: column for key, column in made.items() if key != name}))
        self.refused("micro_batches", slice_of(made, {**HEADER, "micro_batches": "2"}))
        for name in HEADER:
            self.refused("invalid_header", slice_of(made, {key: value for key, value in HEADER.items() if key != name}))


if __name__ == "__main__":
    unittest.main()
