"""A slice: what one rank trains of one batch. An Arrow IPC stream, read without copying: one record batch per micro-batch, padding rows last."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Mapping, Optional, Sequence

import numpy as np
import pyarrow as pa

from .errors import CorruptSlice
from .incoming import Incoming
from .losses import Denominators, LossStreams

PADDING = "padding"
STREAMS = {
    "token_ids": np.dtype(np.int32),
    "loss_mask": np.dtype(np.uint8),
    "logprobs": np.dtype(np.float32),
    "advantages": np.dtype(np.float32),
    "temperatures": np.dtype(np.float32),
    "rl_weights": np.dtype(np.float32),
    "ce_weights": np.dtype(np.float32),
    "ref_kl_weights": np.dtype(np.float32),
    "ref_logprobs": np.dtype(np.float32),
    "position_ids": np.dtype(np.int32),
}
REQUIRED = ("token_ids", "loss_mask", "logprobs")


@dataclass(frozen=True)
class SliceHeader:
    """What the schema of every slice says of its batch; the same on all ranks but for `rank`."""

    feed: str
    timeline: int
    n: int
    batch_id: str
    plan_id: str
    algorithm: str
    policy_version: Optional[int]
    denominators: Denominators
    world: int
    rank: int
    micro_batches: int


class MicroBatch:
    """One forward and backward pass. Arrays have one entry per token and are views into the slice: read-only, valid while the slice's buffer is."""

    def __init__(self, record_batch: pa.RecordBatch) -> None:
        self.record_batch = record_batch
        self._torch: dict[str, Any] = {}

    def __len__(self) -> int:
        """Tokens, padding included."""
        return int(self.cu_seqlens[-1])

    @property
    def rows(self) -> int:
        """Rows, the padding row included."""
        return self.record_batch.num_rows

    @cached_property
    def cu_seqlens(self) -> np.ndarray:
        """int32, rows + 1 entries: row i is tokens [cu_seqlens[i], cu_seqlens[i + 1])."""
        column = self.record_batch.column("token_ids")
        return np.frombuffer(column.buffers()[1], np.int32, count=column.offset + len(column) + 1)[column.offset :]

    def stream(self, name: str) -> Optional[np.ndarray]:
        """A per-token stream by column name, None where the batch has none."""
        if name not in self.record_batch.schema.names:
            return None
        column = self.record_batch.column(name)
        first, last = int(self.cu_seqlens[0]), int(self.cu_seqlens[-1])
        return np.frombuffer(column.buffers()[-1], STREAMS[name], count=last)[first:]

    @property
    def token_ids(self) -> np.ndarray:
        return self._required("token_ids")

    @property
    def loss_mask(self) -> np.ndarray:
        """bool: the token was sampled and is trained in this row."""
        return self._required("loss_mask").view(np.bool_)

    @property
    def logprobs(self) -> np.ndarray:
        """logprobs[i] belongs to token_ids[i]; 0 where it was not sampled."""
        return self._required("logprobs")

    @cached_property
    def advantages(self) -> np.ndarray:
        """float32 per token: a row's advantage stands on its trained tokens, 0 elsewhere."""
        own = self.stream("advantages")
        if own is not None:
            return own
        per_row = self.scalars("advantage").astype(np.float32)
        return np.where(self.loss_mask, np.repeat(per_row, np.diff(self.cu_seqlens)), np.float32(0))

    @cached_property
    def temperatures(self) -> np.ndarray:
        """float32 per token; NaN where none was recorded."""
        own = self.stream("temperatures")
        return own if own is not None else np.repeat(self.scalars("temperature").astype(np.float32), np.diff(self.cu_seqlens))

    @cached_property
    def position_ids(self) -> np.ndarray:
        """int32 per token, from 0 in every row."""
        own = self.stream("position_ids")
        if own is not None:
            return own
        starts = np.repeat(self.cu_seqlens[:-1], np.diff(self.cu_seqlens))
        return np.arange(len(self), dtype=np.int32) - starts

    def scalars(self, name: str) -> np.ndarray:
        """A numeric column with one entry per row; null reads NaN (as float64)."""
        return self.record_batch.column(name).to_numpy(zero_copy_only=False)

    def texts(self, name: str) -> Sequence[Optional[str]]:
        return self.record_batch.column(name).to_pylist()

    @cached_property
    def padding(self) -> np.ndarray:
        """bool per row: True for the row that only fills up."""
        return np.array([status == PADDING for status in self.texts("status")])

    @property
    def streams(self) -> LossStreams:
        """What a loss reads, as numpy."""
        return LossStreams(
            loss_mask=self.loss_mask,
            logprobs=self.logprobs,
            advantages=self.advantages,
            rl_weights=self.stream("rl_weights"),
            ce_weights=self.stream("ce_weights"),
            ref_kl_weights=self.stream("ref_kl_weights"),
            ref_logprobs=self.stream("ref_logprobs"),
        )

    def torch(self, name: str) -> Any:
        """A stream as a torch tensor that shares its memory: `loss_mask` as bool, `token_ids` as int32. Do not write to it."""
        import warnings

        import torch

        if name not in self._torch:
            array = getattr(self, name) if hasattr(type(self), name) else self.stream(name)
            if array is None:
                raise KeyError(f"the batch has no stream {name}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the memory is read-only, and so are we
                self._torch[name] = torch.from_numpy(array)
        return self._torch[name]

    def torch_streams(self, device: Any = None) -> LossStreams:
        """What a loss reads, as torch tensors, moved to `device` where one is given."""
        move = (lambda tensor: tensor) if device is None else (lambda tensor: tensor.to(device, non_blocking=True))
        optional = {name: None if self.stream(name) is None else move(self.torch(name)) for name in ("rl_weights", "ce_weights", "ref_kl_weights", "ref_logprobs")}
        return LossStreams(move(self.torch("loss_mask")), move(self.torch("logprobs")), move(self.torch("advantages")), **optional)

    def _required(self, name: str) -> np.ndarray:
        stream = self.stream(name)
        assert stream is not None  # checked when the slice was read
        return stream


class Slice:
    """All micro-batches of one rank, in order."""

    def __init__(self, header: SliceHeader, micro_batches: Sequence[MicroBatch], schema: pa.Schema) -> None:
        self.header = header
        self.micro_batches = micro_batches
        self.schema = schema

    @property
    def tokens(self) -> int:
        return sum(len(micro_batch) for micro_batch in self.micro_batches)


def verify_digest(data: Any, sha256: str) -> None:
    """Raises CorruptSlice when the bytes (anything with a buffer, or an Incoming) are not those that were announced."""
    found = data.sha256() if isinstance(data, Incoming) else hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise CorruptSlice("digest_mismatch", f"the slice has sha256 {found}, announced was {sha256}: fetch it again")


def sha256_of(headers: Mapping[str, str]) -> str:
    """Hexadecimal, out of `repr-digest: sha-256=:<base64>:` (RFC 9530)."""
    digest = headers.get("repr-digest", "")
    if not digest.startswith("sha-256=:") or not digest.endswith(":"):
        raise CorruptSlice("invalid_header", "the answer has no Repr-Digest with sha-256")
    return base64.b64decode(digest[len("sha-256=:") : -1]).hex()


def read_slice(data: Any) -> Slice:
    """Reads a slice from anything with a buffer. Nothing per token is copied. Raises CorruptSlice, naming what is wrong."""
    buffer = pa.py_buffer(data)
    try:
        reader = pa.ipc.open_stream(buffer)
        record_batches = list(reader)
    except pa.ArrowInvalid as cause:
        raise CorruptSlice("invalid_arrow", f"the slice is no Arrow stream: {cause}") from cause
    header = read_header(reader.schema.metadata)
    _check_schema(reader.schema)
    if len(record_batches) != header.micro_batches:
        raise CorruptSlice("micro_batches", f"the slice has {len(record_batches)} micro-batches, its header says {header.micro_batches}")
    micro_batches = [MicroBatch(record_batch) for record_batch in record_batches]
    for index, micro_batch in enumerate(micro_batches):
        _check_lengths(index, micro_batch)
    return Slice(header, micro_batches, reader.schema)


def read_header(metadata: Optional[Mapping[bytes, bytes]]) -> SliceHeader:
    """The header out of a schema's metadata."""

    def text(name: str) -> str:
        value = (metadata or {}).get(f"tapedeck.{name}".encode())
        if value is None:
            raise CorruptSlice("invalid_header", f"the slice says no {name}: was it made by a feed?")
        return value.decode()

    version = text("policy_version")
    return SliceHeader(
        feed=text("feed"),
        timeline=int(text("timeline")),
        n=int(text("n")),
        batch_id=text("batch_id"),
        plan_id=text("plan_id"),
        algorithm=text("algorithm"),
        policy_version=None if version == "" else int(version),
        denominators=Denominators(int(text("n_rl")), int(text("n_ce")), int(text("n_ref_kl"))),
        world=int(text("world")),
        rank=int(text("rank")),
        micro_batches=int(text("micro_batches")),
    )


_ITEM_TYPES = {np.dtype(np.int32): pa.int32(), np.dtype(np.uint8): pa.uint8(), np.dtype(np.float32): pa.float32()}


def _check_schema(schema: pa.Schema) -> None:
    for name in REQUIRED:
        if name not in schema.names:
            raise CorruptSlice("invalid_schema", f"the slice has no column {name}")
    for name in set(schema.names) & set(STREAMS):
        field = schema.field(name)
        if not pa.types.is_list(field.type) or field.type.value_type != _ITEM_TYPES[STREAMS[name]] or field.nullable or field.type.value_field.nullable:
            raise CorruptSlice("invalid_schema", f"column {name} is {field.type}, expected a list of {STREAMS[name]} that is never null")


def _check_lengths(index: int, micro_batch: MicroBatch) -> None:
    starts = micro_batch.cu_seqlens
    if not np.array_equal(np.diff(starts), micro_batch.scalars("seq_len")):
        raise CorruptSlice("seq_len", f"micro-batch {index}: seq_len and the lists differ in length")
    offsets = micro_batch.record_batch.column("token_ids").buffers()[1]
    for name in set(micro_batch.record_batch.schema.names) & set(STREAMS):
        column = micro_batch.record_batch.column(name)
        if column.null_count or not column.buffers()[1].equals(offsets):
            raise CorruptSlice("stream_length", f"micro-batch {index}: {name} is not one value per token of token_ids")
    mask = micro_batch.stream("loss_mask")
    if mask is not None and mask.size and int(mask.max()) > 1:
        raise CorruptSlice("loss_mask", f"micro-batch {index}: loss_mask holds values other than 0 and 1")
    # row by row, since there are few: spreading `padding` over the tokens took most of the time of reading a slice
    for row in np.flatnonzero(micro_batch.padding):
        if micro_batch.loss_mask[starts[row] - starts[0] : starts[row + 1] - starts[0]].any():
            raise CorruptSlice("loss_mask", f"micro-batch {index}: padding is masked as trained")
