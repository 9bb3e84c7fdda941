"""The trainer of the example in Python: batches by `tapedeck_feed`, the reference losses, the policy of policy.ts in numpy or torch.

    node examples/learning/main.ts --weights /tmp/weights &
    PYTHONPATH=trainer-feed/python/src python examples/learning/train.py --weights /tmp/weights

It steps, writes the new weights to `<weights>/policy-<version>.f64` (little-endian doubles, laid out as in policy.ts), commits, and publishes their address; the player, which is another
program, samples with the newest that were published. Needs numpy and pyarrow. With torch the gradient comes from autograd, without it is written out.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np

from tapedeck_feed import Denominators, Feed, FeedError, LossStreams, MicroBatch, compute_loss, dppo_kl

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

V, WINDOW = 30, 5
BIASES = WINDOW * V * V
COPIES_BY_FIRST = BIASES + V
COPIES_BY_SECOND = COPIES_BY_FIRST + V * WINDOW
WEIGHTS = COPIES_BY_SECOND + V * WINDOW

MASK, KL_TAU = 0.2, 1e-3
RATE, BETA_1, BETA_2, EPSILON = 0.1, 0.9, 0.99, 1e-8
MAX_TOKENS = 4096
PATIENCE_S = 60.0

Advantages = Optional[Sequence[np.ndarray]]
"""One array per micro-batch, a value per token; None = those of the batch."""
Gradient = Callable[[np.ndarray, Sequence[MicroBatch], Denominators, Advantages], "tuple[np.ndarray, float, Mapping[str, float]]"]
"""(weights, micro-batches, denominators of the whole batch, advantages) -> gradient, loss, metrics."""


class Places:
    """What the policy sees at each token of a micro-batch, as indices into its weights."""

    def __init__(self, micro_batch: MicroBatch) -> None:
        self.chosen = micro_batch.token_ids.astype(np.int64)
        position = micro_batch.position_ids.astype(np.int64)
        at = np.arange(len(self.chosen))
        first = self.chosen[at - position]
        second = self.chosen[at - np.minimum(2, position)]
        back = np.arange(1, WINDOW + 1)
        self.seen = back[None, :] <= position[:, None]
        self.tokens = np.where(self.seen, self.chosen[np.maximum(at[:, None] - back[None, :], 0)], 0)
        """The token k + 1 places back, where one is seen."""
        k = np.arange(WINDOW)
        self.rows = (k[None, :] * V + self.tokens) * V
        self.by_first = COPIES_BY_FIRST + first[:, None] * WINDOW + k[None, :]
        self.by_second = COPIES_BY_SECOND + second[:, None] * WINDOW + k[None, :]


def numpy_gradient(
    weights: np.ndarray, micro_batches: Sequence[MicroBatch], denominators: Denominators, advantages: Advantages = None
) -> tuple[np.ndarray, float, Mapping[str, float]]:
    """Written out: d log p[y] / d logit[v] = (v = y) - p[v], and each logit is a sum of weights."""
    gradient, loss, metrics = np.zeros_like(weights), 0.0, {}
    for i, micro_batch in enumerate(micro_batches):
        places, streams = Places(micro_batch), micro_batch.streams
        if advantages is not None:
            streams = dataclasses.replace(streams, advantages=advantages[i])
        every = np.arange(len(places.chosen))
        columns = np.arange(V)
        logits = np.broadcast_to(weights[BIASES:COPIES_BY_FIRST], (len(every), V)).copy()
        for k in range(WINDOW):
            seen = places.seen[:, k]
            logits += np.where(seen[:, None], weights[places.rows[:, k, None] + columns], 0.0)
            logits[every, places.tokens[:, k]] += np.where(seen, weights[places.by_first[:, k]] + weights[places.by_second[:, k]], 0.0)
        logits -= logits.max(axis=1, keepdims=True)
        logps = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        trainer = logps[every, places.chosen]
        part, measured = compute_loss(trainer, streams, denominators, dppo_kl(MASK, MASK, kl_tau=KL_TAU))
        loss += float(part)
        metrics.update(measured)
        slopes = slopes_of(trainer, streams, denominators)
        of_logits = -np.exp(logps)
        of_logits[every, places.chosen] += 1.0
        of_logits *= slopes[:, None]
        gradient[BIASES:COPIES_BY_FIRST] += of_logits.sum(axis=0)
        for k in range(WINDOW):
            seen = places.seen[:, k]
            np.add.at(gradient, (places.rows[:, k, None] + columns)[seen], of_logits[seen])
            of_copies = of_logits[every, places.tokens[:, k]][seen]
            np.add.at(gradient, places.by_first[seen, k], of_copies)
            np.add.at(gradient, places.by_second[seen, k], of_copies)
    return gradient, loss, metrics


def slopes_of(trainer: np.ndarray, streams: LossStreams, denominators: Denominators) -> np.ndarray:
    """The derivative of the loss by each log-probability; 0 for tokens that take no part."""
    log_ratio = trainer - streams.logprobs
    moved = np.exp(trainer) - np.exp(streams.logprobs)
    masked = np.where(streams.advantages > 0, moved > MASK, moved < -MASK)
    slopes = np.where(masked, 0.0, -streams.advantages * np.exp(log_ratio)) + 2 * KL_TAU * log_ratio
    weights = np.ones_like(trainer) if streams.rl_weights is None else streams.rl_weights
    return np.where(streams.loss_mask, slopes * weights / denominators.n_rl, 0.0)


def torch_gradient(
    weights: np.ndarray, micro_batches: Sequence[MicroBatch], denominators: Denominators, advantages: Advantages = None
) -> tuple[np.ndarray, float, Mapping[str, float]]:
    """By autograd through the reference loss."""
    w = torch.tensor(weights, requires_grad=True)
    loss, metrics = 0.0, {}
    for i, micro_batch in enumerate(micro_batches):
        places, streams = Places(micro_batch), micro_batch.torch_streams()
        if advantages is not None:
            streams = dataclasses.replace(streams, advantages=torch.tensor(advantages[i]))
        columns = np.arange(V)
        logits: Any = w[BIASES:COPIES_BY_FIRST].expand(len(places.chosen), V)
        for k in range(WINDOW):
            seen = torch.tensor(places.seen[:, k], dtype=torch.float64)[:, None]
            copies = w[places.by_first[:, k]] + w[places.by_second[:, k]]
            copied = torch.nn.functional.one_hot(torch.tensor(places.tokens[:, k]), V) * copies[:, None]
            logits = logits + seen * (w[places.rows[:, k, None] + columns] + copied)
        trainer = torch.log_softmax(logits, dim=1)[torch.arange(len(places.chosen)), torch.tensor(places.chosen)]
        part, measured = compute_loss(trainer, streams, denominators, dppo_kl(MASK, MASK, kl_tau=KL_TAU))
        part.backward()
        loss += float(part)
        metrics.update(measured)
    assert w.grad is not None
    return w.grad.numpy(), loss, metrics


def shuffled_advantages(micro_batches: Sequence[MicroBatch], random: np.random.Generator) -> list[np.ndarray]:
    """The control: every row gets the advantage of a row drawn from the batch, each once. What the policy is told is then not what it did."""
    trained = [~micro_batch.padding for micro_batch in micro_batches]
    drawn = random.permutation(np.concatenate([micro_batch.scalars("advantage")[rows] for micro_batch, rows in zip(micro_batches, trained)]))
    given = []
    for micro_batch, rows in zip(micro_batches, trained):
        per_row = np.zeros(micro_batch.rows, np.float32)
        per_row[rows], drawn = drawn[: rows.sum()], drawn[rows.sum() :]
        given.append(np.repeat(per_row, np.diff(micro_batch.cu_seqlens)))
    return given


class Adam:
    """arXiv 1412.6980, as adam.ts."""

    def __init__(self) -> None:
        self.mean, self.square, self.steps = np.zeros(WEIGHTS), np.zeros(WEIGHTS), 0

    def step(self, weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        self.steps += 1
        self.mean = BETA_1 * self.mean + (1 - BETA_1) * gradient
        self.square = BETA_2 * self.square + (1 - BETA_2) * gradient * gradient
        corrected = RATE * math.sqrt(1 - BETA_2**self.steps) / (1 - BETA_1**self.steps)
        return weights - corrected * self.mean / (np.sqrt(self.square) + EPSILON)


def write_weights(folder: Path, version: int, weights: np.ndarray) -> str:
    """Whole or not at all: a player may be looking. Returns where they are."""
    path = folder / f"policy-{version}.f64"
    aside = path.with_suffix(".new")
    aside.write_bytes(weights.astype("<f8").tobytes())
    os.replace(aside, path)
    return path.resolve().as_uri()


def open_feed(url: str, run: str) -> Feed:
    """The player creates the feed; whoever comes first waits."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Feed(url, run, max_tokens=MAX_TOKENS, run=run)
        except FeedError as error:
            if error.code != "not_found" or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the policy of examples/learning on what a feed serves.")
    parser.add_argument("--url", default="http://127.0.0.1:7070")
    parser.add_argument("--run", default="learning", help="the run, which the feed is named after")
    parser.add_argument("--weights", type=Path, required=True, help="folder that the player reads")
    parser.add_argument("--engine", choices=["numpy", "torch"], default="numpy" if torch is None else "torch")
    parser.add_argument("--shuffled", action="store_true", help="give every row the advantage of another: the control, in which nothing is learnt")
    asked = parser.parse_args()
    gradient_of: Gradient = numpy_gradient if asked.engine == "numpy" else torch_gradient
    asked.weights.mkdir(parents=True, exist_ok=True)
    weights, adam, random = np.zeros(WEIGHTS), Adam(), np.random.default_rng(1)
    with open_feed(asked.url, asked.run) as feed:
        feed.publish(0, write_weights(asked.weights, 0, weights))
        for batch in feed:
            advantages = shuffled_advantages(batch.micro_batches, random) if asked.shuffled else None
            gradient, loss, metrics = gradient_of(weights, batch.micro_batches, batch.denominators, advantages)
            weights = adam.step(weights, gradient)
            uri = write_weights(asked.weights, batch.n, weights)
            batch.commit({"loss": loss, "grad_norm": float(np.linalg.norm(gradient)), "lr": RATE, **metrics})
            feed.publish(batch.n, uri)
            if batch.n % 10 == 0:
                print(f"step {batch.n}: loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
