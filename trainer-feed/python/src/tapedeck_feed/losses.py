"""Reference losses over packed token streams, in numpy or torch.

A batch carries per-token streams and three denominators that count the member tokens of the WHOLE batch (all ranks, all micro-batches):

    loss = sum(rl) / n_rl + sum(ce) / n_ce + sum(ref_kl) / n_ref_kl

Sums run over one micro-batch here; gradients are added up over micro-batches and SUMMED over data-parallel ranks (a framework that averages over ranks needs
the loss multiplied by their number). All arrays are one-dimensional with one entry per token and may hold any number of rows: nothing here looks across rows.

Formulas: prime-rl `trainer/rl/loss.py` (default loss: DPPO-Binary-TV, arXiv 2602.04879, with the squared log-ratio of Kimi K2.5, arXiv 2602.02276; IPO; reverse KL to
a reference; cross-entropy) and PPO's clipped surrogate (arXiv 1707.06347) with separate bounds (DAPO, arXiv 2503.14476).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Callable, Mapping, Optional

import numpy as np

Array = Any
"""numpy.ndarray or torch.Tensor."""


@dataclass(frozen=True)
class LossStreams:
    """What a loss reads of a micro-batch. A weight stream that is None means: 1 on the mask for rl, no such component for ce and ref_kl."""

    loss_mask: Array
    """True where the token was sampled and is trained in this row."""
    logprobs: Array
    """Under the policy that sampled it; 0 where the mask is False."""
    advantages: Array
    rl_weights: Optional[Array] = None
    ce_weights: Optional[Array] = None
    ref_kl_weights: Optional[Array] = None
    ref_logprobs: Optional[Array] = None


@dataclass(frozen=True)
class Denominators:
    """Member tokens of the whole batch per component, at least 1."""

    n_rl: int
    n_ce: int
    n_ref_kl: int


@dataclass(frozen=True)
class TokenLosses:
    """Loss per token before weights and denominators, and which tokens a trust region masked."""

    values: Array
    masked: Array


RlLoss = Callable[[Array, Array, Array], TokenLosses]
"""(trainer log-probabilities, sampler log-probabilities, advantages) -> losses per token."""


def dppo_kl(mask_low: float = 0.2, mask_high: float = 0.2, advantage_tau: float = 1.0, kl_tau: float = 1e-3) -> RlLoss:
    """Policy gradient through the importance ratio, tokens dropped whose probability moved too far in the direction of their advantage, plus kl_tau * log-ratio^2.

    Tokens without an advantage are judged by the lower bound, as the reference does.
    """

    def loss(trainer: Array, sampler: Array, advantages: Array) -> TokenLosses:
        xp = _namespace(trainer)
        log_ratio = trainer - sampler
        moved = xp.exp(trainer) - xp.exp(sampler)
        masked = xp.where(advantages > 0, moved > mask_high, moved < -mask_low)
        gradient = xp.where(masked, xp.zeros_like(trainer), advantage_tau * advantages * xp.exp(log_ratio))
        return TokenLosses(-gradient + kl_tau * log_ratio**2, masked)

    return loss


def ipo(threshold: float = 0.1, advantage_tau: float = 1.0, kl_tau: float = 1e-3) -> RlLoss:
    """As `dppo_kl` with one symmetric bound on how far a probability moved, whatever the sign of the advantage."""

    def loss(trainer: Array, sampler: Array, advantages: Array) -> TokenLosses:
        xp = _namespace(trainer)
        log_ratio = trainer - sampler
        masked = abs(xp.exp(trainer) - xp.exp(sampler)) > threshold
        gradient = xp.where(masked, xp.zeros_like(trainer), advantage_tau * advantages * xp.exp(log_ratio))
        return TokenLosses(-gradient + kl_tau * log_ratio**2, masked)

    return loss


def ppo_clip(clip_low: float = 0.2, clip_high: float = 0.2) -> RlLoss:
    """-min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A). `masked` marks tokens whose gradient the clip removes."""

    def loss(trainer: Array, sampler: Array, advantages: Array) -> TokenLosses:
        xp = _namespace(trainer)
        ratio = xp.exp(trainer - sampler)
        clipped = xp.clip(ratio, 1.0 - clip_low, 1.0 + clip_high)
        free, bounded = ratio * advantages, clipped * advantages
        return TokenLosses(-xp.minimum(free, bounded), bounded < free)

    return loss


REF_KL_MASK_LOW = 0.2
REF_KL_TAU = 1e-3


def ref_kl_tokens(trainer: Array, sampler: Array, reference: Array) -> TokenLosses:
    """On-policy distillation: the reverse KL to the reference is the policy-gradient signal; tokens that fell more than 0.2 in probability are dropped."""
    xp = _namespace(trainer)
    log_ratio = trainer - sampler
    masked = xp.exp(trainer) - xp.exp(sampler) < -REF_KL_MASK_LOW
    signal = _detach(reference - trainer)
    gradient = xp.where(masked, xp.zeros_like(trainer), signal * xp.exp(log_ratio))
    return TokenLosses(-gradient + REF_KL_TAU * log_ratio**2, masked)


def compute_loss(
    trainer_logprobs: Array,
    streams: LossStreams,
    denominators: Denominators,
    rl: Optional[RlLoss] = None,
) -> tuple[Array, Mapping[str, float]]:
    """Loss of one micro-batch and metrics over its member tokens. `trainer_logprobs[i]` is the log-probability of token i under the weights that are trained.

    The loss has a gradient even when no token is a member, so that collective operations of all ranks stay in step. Raises ValueError when a stream is
    missing that a component needs.
    """
    xp = _namespace(trainer_logprobs)
    rl_loss = rl if rl is not None else dppo_kl()
    total = trainer_logprobs.sum() * 0.0
    metrics: dict[str, float] = {}
    mask = streams.loss_mask if streams.rl_weights is None else streams.loss_mask & (streams.rl_weights != 0)
    if _any(mask):
        tokens = rl_loss(trainer_logprobs, streams.logprobs, streams.advantages)
        total = total + _sum(xp, tokens.values, mask, streams.rl_weights) / denominators.n_rl
        metrics.update(_policy_metrics(xp, trainer_logprobs, streams.logprobs, tokens, mask, "rl"))
    if streams.ce_weights is not None:
        mask = streams.ce_weights != 0
        if _any(mask):
            total = total + _sum(xp, -trainer_logprobs, mask, streams.ce_weights) / denominators.n_ce
            metrics["ce/nll"] = _mean(-trainer_logprobs, mask)
    if streams.ref_kl_weights is not None:
        mask = streams.ref_kl_weights != 0
        if _any(mask):
            if streams.ref_logprobs is None:
                raise ValueError("ref_kl_weights without ref_logprobs: the batch was cut without a teacher's scores")
            tokens = ref_kl_tokens(trainer_logprobs, streams.logprobs, streams.ref_logprobs)
            total = total + _sum(xp, tokens.values, mask, streams.ref_kl_weights) / denominators.n_ref_kl
            metrics.update(_policy_metrics(xp, trainer_logprobs, streams.logprobs, tokens, mask, "ref_kl"))
            metrics["ref_kl/kl"] = _mean(trainer_logprobs - streams.ref_logprobs, mask)
    return total, metrics


def _sum(xp: ModuleType, values: Array, mask: Array, weights: Optional[Array]) -> Array:
    weighted = values if weights is None else values * weights
    # selected, not multiplied: a NaN at a token that is no member must not reach the sum
    return xp.where(mask, weighted, xp.zeros_like(weighted)).sum()


def _policy_metrics(xp: ModuleType, trainer: Array, sampler: Array, tokens: TokenLosses, mask: Array, name: str) -> dict[str, float]:
    log_ratio = _detach(trainer) - sampler
    mismatch = xp.exp(log_ratio) - log_ratio - 1.0
    return {f"{name}/mismatch_kl": _mean(mismatch, mask), f"{name}/masked": float(tokens.masked[mask].sum()) / float(mask.sum())}


def _mean(values: Array, mask: Array) -> float:
    return float(_detach(values)[mask].mean())


def _any(mask: Array) -> bool:
    return bool(mask.any())


def _namespace(array: Array) -> ModuleType:
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def _detach(array: Array) -> Array:
    return array if isinstance(array, np.ndarray) else array.detach()
