"""The reference losses by value: numpy against torch, both against prime-rl's own `loss.py` where its source is at hand (TAPEDECK_PRIME_RL = folder with `src/prime_rl`)."""

from __future__ import annotations

import ast
import os
import sys
import unittest
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

from tapedeck_feed.losses import Denominators, LossStreams, compute_loss, dppo_kl, ipo, ppo_clip, ref_kl_tokens

SEEDS = range(25)


def example(seed: int) -> tuple[np.ndarray, LossStreams, Denominators]:
    random = np.random.default_rng(seed)
    n = int(random.integers(3, 200))
    sampler = -random.exponential(1.0, n).astype(np.float64)
    trainer = np.minimum(sampler + random.normal(0, 0.4, n), -1e-6)
    mask = random.random(n) < 0.6
    advantages = random.choice([-1.5, -0.25, 0.0, 0.5, 2.0], n) * mask
    streams = LossStreams(
        loss_mask=mask,
        logprobs=np.where(mask, sampler, 0.0),
        advantages=advantages,
        rl_weights=random.choice([0.0, 1.0, 2.5], n) if seed % 3 else None,
        ce_weights=random.choice([0.0, 0.0, 0.1, 1.0], n) if seed % 2 else None,
        ref_kl_weights=random.choice([0.0, 1.0], n) * mask if seed % 4 == 1 else None,
        ref_logprobs=-random.exponential(1.0, n) if seed % 4 == 1 else None,
    )
    return trainer, streams, Denominators(n_rl=17, n_ce=5, n_ref_kl=9)


class Definitions(unittest.TestCase):
    def test_by_hand(self) -> None:
        trainer, sampler = np.log(np.array([0.5, 0.9, 0.1])), np.log(np.array([0.4, 0.4, 0.6]))
        advantages = np.array([2.0, 1.0, -1.0])
        tokens = dppo_kl(kl_tau=0.0)(trainer, sampler, advantages)
        np.testing.assert_array_equal(tokens.masked, [False, True, True])
        np.testing.assert_allclose(tokens.values, [-2.0 * 0.5 / 0.4, 0.0, 0.0])
        np.testing.assert_allclose(ppo_clip()(trainer, sampler, advantages).values, [-2.0 * 1.2, -1.2, 0.8])
        np.testing.assert_array_equal(ipo()(trainer, sampler, advantages).masked, [False, True, True])

    def test_a_batch_without_members_has_a_loss_of_zero(self) -> None:
        streams = LossStreams(loss_mask=np.zeros(4, bool), logprobs=np.zeros(4), advantages=np.zeros(4))
        loss, metrics = compute_loss(np.full(4, -1.0), streams, Denominators(1, 1, 1))
        self.assertEqual(float(loss), 0.0)
        self.assertEqual(metrics, {})

    def test_a_missing_teacher_is_named(self) -> None:
        streams = LossStreams(np.ones(2, bool), np.full(2, -1.0), np.zeros(2), ref_kl_weights=np.ones(2))
        with self.assertRaisesRegex(ValueError, "ref_logprobs"):
            compute_loss(np.full(2, -1.0), streams, Denominators(1, 1, 1))

    def test_the_sum_over_micro_batches_is_the_loss_of_the_whole(self) -> None:
        for seed in SEEDS:
            trainer, streams, counts = example(seed)
            whole, _ = compute_loss(trainer, streams, counts)
            parts = 0.0
            for piece in np.array_split(np.arange(len(trainer)), 3):
                cut = LossStreams(*(None if a is None else a[piece] for a in vars(streams).values()))
                parts += float(compute_loss(trainer[piece], cut, counts)[0])
            self.assertAlmostEqual(float(whole), parts, places=9)


class AgainstTorch(unittest.TestCase):
    def setUp(self) -> None:
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        self.torch = torch

    def test_numpy_and_torch_agree_and_the_gradient_is_finite(self) -> None:
        torch = self.torch
        for seed in SEEDS:
            trainer, streams, counts = example(seed)
            leaf = torch.tensor(trainer, requires_grad=True)
            tensors = LossStreams(*(None if a is None else torch.from_numpy(a) for a in vars(streams).values()))
            loss, metrics = compute_loss(leaf, tensors, counts)
            expected, numbers = compute_loss(trainer, streams, counts)
            self.assertAlmostEqual(float(loss.detach()), float(expected), places=9)
            for name, value in numbers.items():
                self.assertAlmostEqual(metrics[name], value, places=9)
            loss.backward()
            self.assertTrue(bool(torch.isfinite(leaf.grad).all()))

    def test_against_prime_rl(self) -> None:
        torch = self.torch
        source = os.environ.get("TAPEDECK_PRIME_RL")
        if source is None:
            self.skipTest("the source of prime-rl is not at hand")
        theirs = prime_rl_functions(Path(source) / "src/prime_rl/trainer/rl/loss.py", torch)
        config = SimpleNamespace(dppo_mask_low=0.2, dppo_mask_high=0.2, adv_tau=1.0, kl_tau=1e-3, ipo_threshold=0.1)
        for seed in SEEDS:
            trainer, streams, counts = example(seed)
            tensors = {name: None if a is None else torch.from_numpy(a) for name, a in vars(streams).items()}
            for rl, their_rl in ((dppo_kl(), theirs["default_loss_fn"]), (ipo(), theirs["ipo_loss_fn"])):
                ours_leaf, their_leaf = (torch.tensor(trainer, requires_grad=True) for _ in range(2))
                ours, _ = compute_loss(ours_leaf, LossStreams(**tensors), counts, rl)
                listed = {name: None if t is None else [t] for name, t in tensors.items()}
                expected, _ = theirs["compute_loss"](
                    [their_leaf], listed["logprobs"], listed["ref_logprobs"], listed["advantages"], listed["loss_mask"], listed["rl_weights"],
                    listed["ce_weights"], listed["ref_kl_weights"], lambda inputs, f=their_rl: f(inputs, config), counts.n_rl, counts.n_ce, counts.n_ref_kl,
                )
                self.assertAlmostEqual(float(ours.detach()), float(expected.detach()), places=10)
                ours.backward()
                expected.backward()
                torch.testing.assert_close(ours_leaf.grad, their_leaf.grad, rtol=1e-10, atol=1e-12)


def prime_rl_functions(path: Path, torch: object) -> dict[str, object]:
    """The file's functions and classes without its imports, decorators of packages we lack and annotations."""
    tree = ast.parse(path.read_text())
    wanted = {"LossInputs", "LossOutputs", "_safe_mean", "compute_importance_ratio_and_mismatch_kl", "default_loss_fn", "ipo_loss_fn", "ref_kl_loss_fn", "ce_loss_fn", "compute_loss"}
    kept = [node for node in tree.body if getattr(node, "name", None) in wanted]
    body = [ast.ImportFrom(module="__future__", names=[ast.alias(name="annotations")], level=0), *kept]
    module = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
    from dataclasses import dataclass, field

    made = ModuleType("prime_rl_loss")
    sys.modules[made.__name__] = made  # dataclasses look their module up
    vars(made).update(torch=torch, dataclass=dataclass, field=field)
    exec(compile(module, str(path), "exec"), vars(made))
    return vars(made)


if __name__ == "__main__":
    unittest.main()
