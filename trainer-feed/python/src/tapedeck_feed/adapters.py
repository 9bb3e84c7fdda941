"""Batches in the shapes of other trainers: verl's DataProto and the inputs of TRL's GRPO trainer.

Both hold padded prompts and completions and know one loss component, the policy gradient. A row's prompt is what stands before its first trained token; the completion is the rest,
turns of an environment included, with a mask of what is trained. Reductions are folded into the advantages (advantage x rl weight): losses that scale with the advantage, as PPO's and
its kin, need no more. Their sum is to be divided by `batch.denominators.n_rl`, the count of the whole batch over all ranks: both trainers take it (see below).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence

import numpy as np

from .errors import FeedError

if TYPE_CHECKING:
    from .slices import MicroBatch


@dataclass(frozen=True)
class PaddedRows:
    """All rows of a rank, padded: prompts on the left, completions on the right. `[rows, longest]` each; numpy."""

    prompt_ids: np.ndarray
    prompt_mask: np.ndarray
    completion_ids: np.ndarray
    completion_mask: np.ndarray
    """1 where there is a token."""
    trained: np.ndarray
    """1 where the token is trained by rl."""
    advantages: np.ndarray
    """float32: advantage x rl weight; 0 where nothing is trained."""
    logprobs: np.ndarray
    """float32: under the policy that sampled it."""
    ref_logprobs: Optional[np.ndarray]
    rewards: np.ndarray
    """float64 per row, NaN where none was given."""
    temperatures: np.ndarray
    row_ids: Sequence[str]
    group_ids: Sequence[str]


@dataclass(frozen=True)
class _Row:
    ids: np.ndarray
    trained: np.ndarray
    advantages: np.ndarray
    logprobs: np.ndarray
    ref_logprobs: Optional[np.ndarray]
    start: int
    reward: float
    temperature: float
    row_id: str
    group_id: str


def padded_rows(micro_batches: Sequence["MicroBatch"], pad_token_id: int) -> PaddedRows:
    """Raises FeedError `not_expressible` for a batch that trains by cross-entropy or towards a teacher: those components have no place in these trainers."""
    rows = [row for micro_batch in micro_batches for row in _rows_of(micro_batch)]
    prompts = max((row.start for row in rows), default=0)
    completions = max((len(row.ids) - row.start for row in rows), default=0)

    def right(of: Any, fill: float, dtype: Any) -> np.ndarray:
        out = np.full((len(rows), completions), fill, dtype)
        for i, row in enumerate(rows):
            values = of(row)[row.start :]
            out[i, : len(values)] = values
        return out

    def left(of: Any, fill: float, dtype: Any) -> np.ndarray:
        out = np.full((len(rows), prompts), fill, dtype)
        for i, row in enumerate(rows):
            if row.start > 0:
                out[i, -row.start :] = of(row)[: row.start]
        return out

    has_reference = any(row.ref_logprobs is not None for row in rows)
    return PaddedRows(
        prompt_ids=left(lambda row: row.ids, pad_token_id, np.int64),
        prompt_mask=left(lambda row: np.ones(len(row.ids)), 0, np.int64),
        completion_ids=right(lambda row: row.ids, pad_token_id, np.int64),
        completion_mask=right(lambda row: np.ones(len(row.ids)), 0, np.int64),
        trained=right(lambda row: row.trained, 0, np.int64),
        advantages=right(lambda row: row.advantages, 0, np.float32),
        logprobs=right(lambda row: row.logprobs, 0, np.float32),
        ref_logprobs=right(lambda row: row.ref_logprobs, 0, np.float32) if has_reference else None,
        rewards=np.array([row.reward for row in rows], np.float64),
        temperatures=np.array([row.temperature for row in rows], np.float64),
        row_ids=[row.row_id for row in rows],
        group_ids=[row.group_id for row in rows],
    )


def _rows_of(micro_batch: "MicroBatch") -> Iterator[_Row]:
    for name in ("ce_weights", "ref_kl_weights"):
        weights = micro_batch.stream(name)
        if weights is not None and weights.any():
            raise FeedError("not_expressible", f"the batch has {name}, and this trainer has no such loss: use tapedeck_feed.compute_loss, or an algorithm without it")
    rl = micro_batch.stream("rl_weights")
    weights = np.ones(len(micro_batch), np.float32) if rl is None else rl
    trained = micro_batch.loss_mask & (weights != 0)
    advantages = np.where(trained, micro_batch.advantages * weights, np.float32(0))
    reference = micro_batch.stream("ref_logprobs")
    names, groups, rewards = micro_batch.texts("row_id"), micro_batch.texts("group_id"), micro_batch.scalars("reward").astype(np.float64)
    for i, (first, last) in enumerate(zip(micro_batch.cu_seqlens[:-1], micro_batch.cu_seqlens[1:])):
        if micro_batch.padding[i]:
            continue
        own = slice(int(first), int(last))
        at = np.flatnonzero(trained[own])
        yield _Row(
            ids=micro_batch.token_ids[own],
            trained=trained[own],
            advantages=advantages[own],
            logprobs=micro_batch.logprobs[own],
            ref_logprobs=None if reference is None else reference[own],
            start=int(at[0]) if len(at) else int(last - first),
            reward=float(rewards[i]),
            temperature=float(micro_batch.temperatures[int(first)]),
            row_id=str(names[i]),
            group_id=str(groups[i]),
        )


def verl_fields(batch: Any, pad_token_id: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Tensors, other columns and meta information as `DataProto.from_dict` takes them; what `to_data_proto` is made of.

    `meta_info["batch_num_tokens"]` is the count of the whole batch: verl's `agg_loss(…, "token-mean", batch_num_tokens=…, dp_size=…)` divides by it on every rank. Advantages are
    final: leave `compute_advantage` out. `rollout_log_probs` and `old_log_probs` are those of the policy that sampled.
    """
    import torch

    rows = padded_rows(batch.micro_batches, pad_token_id)
    attention = np.concatenate([rows.prompt_mask, rows.completion_mask], axis=1)
    scores = np.zeros(rows.advantages.shape, np.float32)
    for i, trained in enumerate(rows.trained):
        at = np.flatnonzero(trained)
        if len(at) and np.isfinite(rows.rewards[i]):
            scores[i, at[-1]] = rows.rewards[i]
    tensors = {
        "prompts": rows.prompt_ids,
        "responses": rows.completion_ids,
        "input_ids": np.concatenate([rows.prompt_ids, rows.completion_ids], axis=1),
        "attention_mask": attention,
        "position_ids": np.maximum(np.cumsum(attention, axis=1) - 1, 0),
        "response_mask": rows.trained,
        "rollout_log_probs": rows.logprobs,
        "old_log_probs": rows.logprobs,
        "advantages": rows.advantages,
        "returns": rows.advantages,
        "token_level_scores": scores,
        **({} if rows.ref_logprobs is None else {"ref_log_prob": rows.ref_logprobs}),
    }
    others = {"uid": np.array(rows.group_ids, dtype=object), "row_id": np.array(rows.row_ids, dtype=object)}
    temperatures = set(rows.temperatures.tolist())
    meta = {
        "batch_num_tokens": batch.denominators.n_rl,
        "global_steps": batch.n,
        "batch_id": batch.batch_id,
        "global_token_num": attention.sum(axis=1).tolist(),
        **({"temperature": temperatures.pop()} if len(temperatures) == 1 else {}),
    }
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in tensors.items()}, others, meta


def to_data_proto(batch: Any, pad_token_id: int) -> Any:
    """A `verl.DataProto` of this rank's rows; needs verl (0.9)."""
    from verl import DataProto

    tensors, others, meta = verl_fields(batch, pad_token_id)
    return DataProto.from_dict(tensors=tensors, non_tensors=others, meta_info=meta)


def to_trl_inputs(batch: Any, pad_token_id: int) -> dict[str, Any]:
    """What TRL's GRPOTrainer (1.16) makes of generations before `compute_loss`: give it in place of `_generate_and_score_completions`.

    Use `loss_type="dapo"` (or cispo): it divides by `num_items_in_batch`, here the count of the whole batch. `tool_mask` leaves out what is not trained; advantages are per token.
    """
    import torch

    rows = padded_rows(batch.micro_batches, pad_token_id)
    tensors = {
        "prompt_ids": rows.prompt_ids,
        "prompt_mask": rows.prompt_mask,
        "completion_ids": rows.completion_ids,
        "completion_mask": rows.completion_mask,
        "tool_mask": rows.trained,
        "advantages": rows.advantages,
        "old_per_token_logps": rows.logprobs,
        "sampling_per_token_logps": rows.logprobs,
        **({} if rows.ref_logprobs is None else {"ref_per_token_logps": rows.ref_logprobs}),
    }
    made = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in tensors.items()}
    return {**made, "num_items_in_batch": torch.tensor(float(batch.denominators.n_rl))}
