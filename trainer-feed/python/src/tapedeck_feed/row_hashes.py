"""Whether the rows of a batch as ranks read them are the rows that its manifest names: of each the content hash and the signal hash are computed anew (docs/algorithms.md, "Identity"), and its member
tokens are counted. The ids of the chain are made of these hashes, so nothing that is trained can differ from what was decided."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, Iterable, Mapping, Optional

import numpy as np

from .chain import Flaw
from .slices import MicroBatch


def verify_rows(manifest: Mapping[str, Any], micro_batches: Iterable[MicroBatch]) -> list[Flaw]:
    """All flaws of the rows of one batch; `micro_batches` of all its ranks, under any plan."""
    n, by_id, seen = manifest["n"], {row["rowId"]: row for row in manifest["rows"]}, set()
    flaws: list[Flaw] = []
    for micro_batch in micro_batches:
        for i, row_id in enumerate(micro_batch.texts("row_id")):
            if micro_batch.padding[i]:
                continue
            if row_id not in by_id:
                flaws.append(Flaw(n, "row_unknown", f"batch {n} serves row {row_id}, which its manifest does not list"))
            elif row_id in seen:
                flaws.append(Flaw(n, "row_served_twice", f"batch {n} serves row {row_id} twice"))
            else:
                flaws += _row_flaws(n, by_id[row_id], _Row(micro_batch, i))
            seen.add(row_id)
    return flaws + [Flaw(n, "row_missing", f"batch {n} lists row {row_id} and does not serve it") for row_id in by_id if row_id not in seen]


class _Row:
    """Row `i` of a micro-batch: its part of each stream, its scalars."""

    def __init__(self, micro_batch: MicroBatch, i: int) -> None:
        starts = micro_batch.cu_seqlens
        self._micro_batch, self._i = micro_batch, i
        self._own = slice(int(starts[i] - starts[0]), int(starts[i + 1] - starts[0]))
        self.length = self._own.stop - self._own.start

    def stream(self, name: str) -> Optional[np.ndarray]:
        whole = self._micro_batch.stream(name)
        return None if whole is None else whole[self._own]

    def value(self, name: str) -> Any:
        if name not in self._micro_batch.record_batch.schema.names:
            return None
        return self._micro_batch.record_batch.column(name)[self._i].as_py()


def _row_flaws(n: int, listed: Mapping[str, Any], row: _Row) -> list[Flaw]:
    found = [("content_hash", "content hash", listed["contentHash"], _content_hash(listed, row)), ("signal_hash", "signal hash", listed["signalHash"], _signal_hash(listed, row))]
    found += [("members", f"{key} members", listed["members"][key], count) for key, count in _members(listed, row).items()]
    return [
        Flaw(n, flaw, f"row {listed['rowId']} of batch {n}: the manifest says {what} {said}, what is served has {served}") for flaw, what, said, served in found if said != served
    ]


def _content_hash(listed: Mapping[str, Any], row: _Row) -> str:
    varies = listed["temperature"] == "per token"
    scalars = [row.value("reward"), None if varies else listed["temperature"], row.value("policy_version_min"), row.value("policy_version_max")]
    bits = sum(1 << at for at, value in enumerate(scalars) if value is not None) | (16 if listed["hasReference"] else 0) | (32 if varies else 0)
    head = struct.pack("<4sIBB6x4d", b"ROW1", row.length, row.value("status") == "truncated", bits, *(value or 0 for value in scalars))
    reference = row.stream("ref_logprobs") if listed["hasReference"] else None
    temperatures = row.stream("temperatures") if varies else None
    return _sha256(head, row.stream("token_ids"), row.stream("logprobs"), reference, temperatures, row.stream("loss_mask"))


def _signal_hash(listed: Mapping[str, Any], row: _Row) -> str:
    advantage, weights = listed["advantage"], listed["weights"]
    kind = 0 if advantage is None else 2 if advantage == "per token" else 1
    bits = sum(bit for key, bit in (("rl", 1), ("ce", 2), ("refKl", 4)) if weights[key] is not None)
    head = struct.pack("<4sBB2xf4x", b"SIG1", kind, bits, _served_advantage(advantage, row) if kind == 1 else 0.0)
    return _sha256(
        head,
        row.stream("advantages") if kind == 2 else None,
        *(None if weights[key] is None else row.stream(name) for key, name in (("rl", "rl_weights"), ("ce", "ce_weights"), ("refKl", "ref_kl_weights"))),
    )


def _served_advantage(listed: float, row: _Row) -> float:
    """An advantage that is one number as ranks get it: a column, or on every trained token."""
    column = row.value("advantage")
    if column is not None:
        return column
    values, mask = row.stream("advantages"), row.stream("loss_mask")
    trained = np.empty(0, np.float32) if values is None or mask is None else values[mask == 1]
    others = trained[trained.view(np.uint32) != np.float32(listed).view(np.uint32)]
    return float(others[-1]) if len(others) else listed


def _members(listed: Mapping[str, Any], row: _Row) -> dict[str, int]:
    """Tokens that take part in each component: rl where the mask is 1 and the weight not 0, the others by their weights."""
    mask, weights = row.stream("loss_mask"), listed["weights"]
    assert mask is not None  # checked when the slice was read

    def counted(name: str) -> int:
        stream = row.stream(name)
        return 0 if stream is None else int(np.count_nonzero(stream))

    rl = None if weights["rl"] is None else row.stream("rl_weights")
    return {
        "rl": int(np.count_nonzero(mask if rl is None else (mask == 1) & (rl != 0))) if weights["rl"] is None or rl is not None else 0,
        "ce": 0 if weights["ce"] is None else counted("ce_weights"),
        "refKl": 0 if weights["refKl"] is None else counted("ref_kl_weights"),
    }


def _sha256(*parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        if part is not None:
            found.update(part)
    return found.hexdigest()
