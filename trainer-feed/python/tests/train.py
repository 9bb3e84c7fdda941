"""A trainer for tests: takes batches of one rank, pretends to step, commits, and tells what it did as one JSON object per line.

Arguments as JSON: url, feed, rank, world, max_tokens, steps (null = to the end), checkpoint (null or what was printed), die_before_commit (a step, or null), saves (true = its checkpoint is
printed before it dies), peek (true = only loss and gradient of the next batch), verify_chain, without_torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

if json.loads(sys.argv[1]).get("without_torch"):
    sys.modules["torch"] = None  # type: ignore[assignment]  # as where it is not installed

from tapedeck_feed import Feed, LossStreams, compute_loss  # noqa: E402
from tapedeck_feed.slices import STREAMS  # noqa: E402


def peek(batch) -> dict:
    """Loss and gradient of this rank's share, for a model with one number per token id (modulo 61): log softmax over them. Nothing is committed."""
    import torch

    theta = torch.linspace(-1.0, 1.0, 61, dtype=torch.float64, requires_grad=True)
    total = torch.zeros((), dtype=torch.float64)
    for micro_batch in batch.micro_batches:
        own = torch.log_softmax(theta, 0)[micro_batch.torch("token_ids").long() % 61]
        # close to the policy that sampled, as after a step: ratios near 1, so that no mask hides the gradient
        logprobs = micro_batch.torch("logprobs").double() + own - 0.98 * own.detach()
        # gradient accumulation: one backward pass per micro-batch, padding included
        loss, _ = compute_loss(logprobs, micro_batch.torch_streams(), batch.denominators)
        loss.backward()
        total += loss.detach()
    return {"n": batch.n, "batch_id": batch.batch_id, "micro_batches": len(batch.micro_batches), "loss": float(total), "gradient": theta.grad.tolist()}


def digest_of(batch) -> str:
    """sha256 of every stream of every micro-batch, as tensors would see them."""
    found = hashlib.sha256()
    for micro_batch in batch.micro_batches:
        for name in STREAMS:
            stream = micro_batch.stream(name)
            if stream is not None:
                found.update(stream)
    return found.hexdigest()


def main() -> None:
    asked = json.loads(sys.argv[1])
    feed = Feed(
        asked["url"], asked["feed"], asked["rank"], asked["world"], max_tokens=asked["max_tokens"], pad_to_multiple=4, run="run-1", timeout=60,
        checkpoint=asked["checkpoint"], holder="trainer", local_files=asked.get("local_files", True), verify_chain=asked.get("verify_chain", False),
    )
    with feed:
        steps = 0
        if asked.get("peek"):
            print(json.dumps(peek(feed.take())), flush=True)
            return
        for batch in feed:
            rows = [row for mb in batch.micro_batches for row, padded in zip(mb.texts("row_id"), mb.padding) if not padded]
            loss = 0.0
            for micro_batch in batch.micro_batches:
                streams: LossStreams = micro_batch.streams
                loss += float(compute_loss(micro_batch.logprobs.astype("float64"), streams, batch.denominators)[0])
            if batch.n == asked.get("die_before_commit"):
                if asked.get("saves"):
                    print(json.dumps({"n": batch.n, "batch_id": batch.batch_id, "loss": loss, "checkpoint": batch.checkpoint({"loss": loss})}), flush=True)
                os._exit(9)
            batch.commit(metrics={"loss": loss} if asked["rank"] == 0 else None)
            print(json.dumps({"n": batch.n, "batch_id": batch.batch_id, "rows": rows, "loss": loss, "digest": digest_of(batch), "micro_batches": len(batch.micro_batches), "checkpoint": feed.checkpoint()}), flush=True)
            steps += 1
            if steps == asked["steps"]:
                return
        print(json.dumps({"end": True}), flush=True)


if __name__ == "__main__":
    main()
