"""Whether batches are what their manifests claim: each id is computed anew from what the manifest lists, each batch names the one before it, denominators are the tokens of the rows, no row was
trained more often than allowed. Pure: works on manifests as they came over HTTP, from whoever."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Optional

from .identity import batch_id_of

COMPONENTS = (("rl", "N_rl"), ("ce", "N_ce"), ("refKl", "N_ref_kl"))


@dataclass(frozen=True)
class Flaw:
    """What is wrong with which batch. `n` is None for a manifest that cannot be read.

    `flaw` of a manifest: unreadable, batch_id, denominators, groups, previous, gap, trained_again, row_twice; of rows: row_missing, row_unknown, row_served_twice, content_hash, signal_hash, members.
    """

    n: Optional[int]
    flaw: str
    message: str


class ChainVerifier:
    """Takes the manifests of one feed in order of n, one at a time; what they were is not kept, but the ids of their rows. The first may be of any batch: what came before it is
    not looked at, unless `after` says which batch it must follow: `{"feed", "n", "batchId"}`."""

    def __init__(self, *, max_times_trained: int = 1, after: Optional[Mapping[str, Any]] = None) -> None:
        self._max_times_trained = max_times_trained
        self._trained: Counter[str] = Counter()
        self._before = after
        self._seen = 0

    def add(self, manifest: Any) -> list[Flaw]:
        """The flaws of the next manifest; empty = it holds."""
        place, self._seen = self._seen, self._seen + 1
        try:
            flaws = _flaws_of(manifest)
            row_ids = [row["rowId"] for row in manifest["rows"]]
        except (KeyError, TypeError, ValueError, IndexError, struct.error) as cause:
            return [Flaw(None, "unreadable", f"manifest {place}: {cause!r}")]
        n = manifest["n"]
        if self._before is not None:
            flaws += _link_flaws(self._before, manifest)
        elif n == 1 and manifest["previousId"] is not None:
            flaws.append(Flaw(1, "previous", "batch 1 names a batch before it"))
        for row_id in row_ids:
            self._trained[row_id] += 1
            if self._trained[row_id] == self._max_times_trained + 1:
                flaws.append(Flaw(n, "trained_again", f"row {row_id} is in more than {self._max_times_trained} batches"))
        self._before = {"feed": manifest["feed"], "n": n, "batchId": manifest["batchId"]}
        return flaws


def verify_chain(manifests: Iterable[Any], *, max_times_trained: int = 1) -> list[Flaw]:
    """All flaws of the batches of one feed, in order of n; empty = they hold."""
    verifier = ChainVerifier(max_times_trained=max_times_trained)
    return [flaw for manifest in manifests for flaw in verifier.add(manifest)]


def _flaws_of(batch: Mapping[str, Any]) -> list[Flaw]:
    n, counts, rows = batch["n"], batch["counts"], batch["rows"]
    flaws = []
    found = batch_id_of(batch)
    if found != batch["batchId"]:
        flaws.append(Flaw(n, "batch_id", f"batch {n} claims the id {batch['batchId']}, its content has {found}"))
    for key, name in COMPONENTS:
        total = max(1, sum(row["members"][key] for row in rows))
        if total != counts[name]:
            flaws.append(Flaw(n, "denominators", f"batch {n} says {name} {counts[name]}, its rows have {total}"))
    tokens = sum(row["seqLen"] for row in rows)
    if (len(rows), tokens) != (counts["rows"], counts["tokens"]):
        flaws.append(Flaw(n, "denominators", f"batch {n} says {counts['rows']} rows of {counts['tokens']} tokens, it lists {len(rows)} of {tokens}"))
    if list(dict.fromkeys(row["group"] for row in rows)) != list(batch["groups"]):
        flaws.append(Flaw(n, "groups", f"batch {n} lists other groups than its rows have"))
    if len({row["rowId"] for row in rows}) != len(rows):
        flaws.append(Flaw(n, "row_twice", f"batch {n} lists a row twice"))
    return flaws


def _link_flaws(before: Mapping[str, Any], batch: Mapping[str, Any]) -> list[Flaw]:
    n = batch["n"]
    if before["feed"] != batch["feed"]:
        return [Flaw(n, "gap", f"batch {n} is of feed {batch['feed']}, the one before it of {before['feed']}")]
    if n != before["n"] + 1:
        return [Flaw(n, "gap", f"batch {n} follows batch {before['n']}")]
    if batch["previousId"] == before["batchId"]:
        return []
    return [Flaw(n, "previous", f"batch {n} follows {batch['previousId']}, batch {before['n']} is {before['batchId']}")]
