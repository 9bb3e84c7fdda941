"""Batches in the shapes of verl and TRL: every token in its place, and their own reductions give the loss that ours gives. TAPEDECK_WHEELS = folder with their unpacked wheels."""

from __future__ import annotations

import ast
import os
import sys
import unittest
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tapedeck_feed.adapters import padded_rows, to_trl_inputs, verl_fields
from tapedeck_feed.errors import FeedError
from tapedeck_feed.losses import Denominators, compute_loss, ppo_clip
from tapedeck_feed.slices import MicroBatch

PAD = 0


def micro_batch(seed: int, rows: int, weighted: bool, **more: np.ndarray) -> MicroBatch:
    random = np.random.default_rng(seed)
    lengths = random.integers(2, 30, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    n = int(offsets[-1])
    mask = random.random(n) < 0.5
    mask[offsets[:-1]] = False
    mask[offsets[1:] - 1] = True
    padding = np.zeros(rows, bool)
    padding[-1] = True
    mask[offsets[-2] :] = False

    def stream(values: np.ndarray, kind: pa.DataType) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, kind))

    columns = {
        "token_ids": stream(random.integers(1, 1000, n), pa.int32()),
        "loss_mask": stream(mask.astype(np.uint8), pa.uint8()),
        "logprobs": stream(np.where(mask, -random.exponential(1, n), 0), pa.float32()),
        **({"rl_weights": stream(np.where(mask, random.choice([0.0, 1.0, 2.5], n), 0), pa.float32())} if weighted else {}),
        **{name: stream(values[:n], pa.float32()) for name, values in more.items()},
        "row_id": pa.array([f"r{seed}-{i}" for i in range(rows)]),
        "group_id": pa.array([f"g{i // 2}" for i in range(rows)]),
        "status": pa.array(["padding" if p else "completed" for p in padding]),
        "reward": pa.array([None if i == 0 else float(i) for i in range(rows)], pa.float64()),
        "advantage": pa.array(random.normal(0, 1, rows), pa.float32()),
        "temperature": pa.array([1.0] * rows, pa.float64()),
    }
    return MicroBatch(pa.RecordBatch.from_pydict(columns))


def batch_of(seed: int, weighted: bool) -> SimpleNamespace:
    parts = [micro_batch(seed * 10 + k, 4 + k, weighted) for k in range(3)]
    members = sum(int((p.loss_mask & (True if p.stream("rl_weights") is None else p.stream("rl_weights") != 0)).sum()) for p in parts)
    # another rank has as many: the denominator is that of both
    return SimpleNamespace(micro_batches=parts, denominators=Denominators(2 * members, 1, 1), n=3, batch_id="b")


class Shapes(unittest.TestCase):
    def test_every_token_is_in_its_place(self) -> None:
        for seed in range(20):
            batch = batch_of(seed, weighted=seed % 2 == 1)
            rows = padded_rows(batch.micro_batches, PAD)
            k = 0
            for part in batch.micro_batches:
                weights = part.stream("rl_weights")
                for i, (first, last) in enumerate(zip(part.cu_seqlens[:-1], part.cu_seqlens[1:])):
                    if part.padding[i]:
                        continue
                    prompt, completion = rows.prompt_mask[k] == 1, rows.completion_mask[k] == 1
                    ids = np.concatenate([rows.prompt_ids[k][prompt], rows.completion_ids[k][completion]])
                    np.testing.assert_array_equal(ids, part.token_ids[first:last])
                    trained = np.concatenate([np.zeros(prompt.sum(), int), rows.trained[k][completion]])
                    expected = part.loss_mask[first:last] & (True if weights is None else weights[first:last] != 0)
                    np.testing.assert_array_equal(trained, expected)
                    if expected.any():
                        self.assertEqual(rows.trained[k][0], 1)  # the completion begins where training does
                    self.assertTrue((np.diff(rows.prompt_mask[k]) >= 0).all() and (np.diff(rows.completion_mask[k]) <= 0).all())
                    np.testing.assert_array_equal(rows.logprobs[k][completion], part.logprobs[first:last][prompt.sum() :])
                    self.assertEqual((rows.row_ids[k], rows.group_ids[k]), (part.texts("row_id")[i], part.texts("group_id")[i]))
                    k += 1
            self.assertEqual(k, len(rows.row_ids))
            self.assertEqual(int(rows.trained.sum()) * 2, batch.denominators.n_rl)

    def test_what_they_cannot_say_is_refused(self) -> None:
        for name in ("ce_weights", "ref_kl_weights"):
            with self.assertRaises(FeedError) as caught:
                padded_rows([micro_batch(1, 3, False, **{name: np.ones(200)})], PAD)
            self.assertEqual(caught.exception.code, "not_expressible")
        padded_rows([micro_batch(1, 3, False, ce_weights=np.zeros(200))], PAD)


class Values(unittest.TestCase):
    """The policy gradient of PPO, reduced by their own statements, beside ours. Two ranks: theirs averages gradients, ours sums them."""

    def setUp(self) -> None:
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        self.torch = torch

    def example(self, seed: int):
        batch = batch_of(seed, weighted=seed % 2 == 1)
        random = np.random.default_rng(seed)
        trainer = [part.logprobs.astype(np.float64) + random.normal(0, 0.3, len(part)) for part in batch.micro_batches]
        ours = sum(float(compute_loss(t, part.streams, batch.denominators, ppo_clip())[0]) for t, part in zip(trainer, batch.micro_batches))
        logps = self.padded(batch, trainer)
        return batch, logps, ours

    def padded(self, batch: SimpleNamespace, trainer: list[np.ndarray]):
        """The trainer's log-probabilities in the place of the completions."""
        rows = padded_rows(batch.micro_batches, PAD)
        out = np.zeros(rows.logprobs.shape)
        k = 0
        for part, values in zip(batch.micro_batches, trainer):
            for i, (first, last) in enumerate(zip(part.cu_seqlens[:-1], part.cu_seqlens[1:])):
                if not part.padding[i]:
                    own = values[first:last][int(rows.prompt_mask[k].sum()) :]
                    out[k, : len(own)] = own
                    k += 1
        return self.torch.from_numpy(out)

    def surrogate(self, logps, old, advantages):
        torch = self.torch
        ratio = torch.exp(logps - old.double())
        return -torch.min(ratio * advantages.double(), ratio.clamp(0.8, 1.2) * advantages.double())

    def source(self, path: str) -> Path:
        root = os.environ.get("TAPEDECK_WHEELS")
        if root is None or not (Path(root) / path).exists():
            self.skipTest("the wheels are not unpacked here")
        return Path(root) / path

    def test_verl(self) -> None:
        torch = self.torch
        sums = functions_of(self.source("verl/utils/torch_functional.py"), ["masked_sum"], torch=torch)
        agg_loss = functions_of(self.source("verl/trainer/ppo/core_algos.py"), ["agg_loss"], torch=torch, verl_F=SimpleNamespace(**sums))["agg_loss"]
        for seed in range(10):
            batch, logps, ours = self.example(seed)
            tensors, others, meta = verl_fields(batch, PAD)
            self.assertEqual({t.shape[0] for t in tensors.values()} | {len(v) for v in others.values()}, {tensors["responses"].shape[0]})
            self.assertEqual(tensors["input_ids"].shape, tensors["attention_mask"].shape)
            self.assertEqual(tensors["input_ids"].shape[1], tensors["prompts"].shape[1] + tensors["responses"].shape[1])
            losses = self.surrogate(logps, tensors["old_log_probs"], tensors["advantages"])
            theirs = agg_loss(losses, tensors["response_mask"], "token-mean", dp_size=2, batch_num_tokens=meta["batch_num_tokens"])
            self.assertAlmostEqual(float(theirs) / 2, ours, places=6)
            rewards = tensors["token_level_scores"].sum(1).numpy()
            expected = np.nan_to_num(padded_rows(batch.micro_batches, PAD).rewards) * (tensors["response_mask"].sum(1).numpy() > 0)
            np.testing.assert_allclose(rewards, expected)

    def test_verl_data_proto(self) -> None:
        """The object itself, and what verl's trainer does with it: split over workers, reorder, join."""
        torch = self.torch
        try:
            import tensordict  # noqa: F401
        except ImportError as missing:
            self.skipTest(f"tensordict is not here: {missing}")
        with verl_at(self.source("verl/protocol.py")) as DataProto:
            from tapedeck_feed.adapters import to_data_proto

            for seed in range(4):
                batch = batch_of(seed, weighted=seed % 2 == 1)
                tensors, others, meta = verl_fields(batch, PAD)
                proto = to_data_proto(batch, PAD)
                self.assertIsInstance(proto, DataProto)
                self.assertEqual(len(proto), len(others["row_id"]))
                self.assertEqual(set(proto.batch.keys()), set(tensors))
                self.assertEqual(proto.meta_info, meta)
                reversed_ = torch.arange(len(proto) - 1, -1, -1)
                joined = DataProto.concat([proto[:1], proto[1:]])
                for made, order in ((proto, None), (joined, None), (proto[reversed_], reversed_)):
                    for name, tensor in tensors.items():
                        self.assertTrue(torch.equal(made.batch[name], tensor if order is None else tensor[order]), name)
                    for name, values in others.items():
                        np.testing.assert_array_equal(made.non_tensor_batch[name], values if order is None else values[order.numpy()])
                parts = proto[: len(proto) // 2 * 2].chunk(2)
                self.assertEqual([len(part) for part in parts], [len(proto) // 2] * 2)
                self.assertEqual(parts[1].meta_info, meta)

    def test_trl(self) -> None:
        torch = self.torch
        source = self.source("trl/trainer/grpo_trainer.py").read_text()
        statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.If) and "cispo" in ast.unparse(node.test) and "vespo" in ast.unparse(node.test) and "num_items_in_batch" in ast.unparse(node)]
        block = min(statements, key=lambda node: len(ast.unparse(node)))
        for seed in range(10):
            batch, logps, ours = self.example(seed)
            inputs = to_trl_inputs(batch, PAD)
            mask = inputs["completion_mask"] * inputs["tool_mask"]
            space = {
                "inputs": inputs, "mode": "train", "mask": mask, "torch": torch,
                "per_token_loss": self.surrogate(logps, inputs["old_per_token_logps"], inputs["advantages"]),
                "self": SimpleNamespace(loss_type="dapo", accelerator=SimpleNamespace(num_processes=2), current_gradient_accumulation_steps=1, args=SimpleNamespace(steps_per_generation=1)),
            }
            exec(compile(ast.Module(body=block.body, type_ignores=[]), "trl", "exec"), space)
            self.assertAlmostEqual(float(space["loss"]) / 2, ours, places=6)


@contextmanager
def verl_at(protocol: Path) -> Iterator[type]:
    """verl's DataProto: of verl itself where it can be imported (it needs ray and transformers), else of its own protocol.py, with stand-ins for what that imports and DataProto does not call."""
    try:
        from verl import DataProto

        yield DataProto
        return
    except ImportError:
        pass
    names: dict[str, dict[str, object]] = {
        "ray": {},
        "verl": {},
        "verl.utils": {},
        "verl.utils.device": {"get_device_id": None, "get_torch_device": None},
        "verl.utils.py_functional": functions_of(protocol.parent / "utils/py_functional.py", ["list_of_dict_to_dict_of_list", "union_two_dict"]),
        "verl.utils.torch_functional": {"allgather_dict_tensors": None},
        "verl.utils.transferqueue_utils": {"BatchMeta": type("BatchMeta", (), {}), "KVBatchMeta": type("KVBatchMeta", (), {})},
        "verl.protocol": {"__file__": str(protocol)},
    }
    before = {name: sys.modules.get(name) for name in names}
    try:
        for name, content in names.items():
            sys.modules[name] = ModuleType(name)
            vars(sys.modules[name]).update(content)
        made = vars(sys.modules["verl.protocol"])
        exec(compile(protocol.read_text(), str(protocol), "exec"), made)
        vars(sys.modules["verl"])["DataProto"] = made["DataProto"]
        yield made["DataProto"]
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def functions_of(path: Path, names: Sequence[str], **space: object) -> dict[str, object]:
    """Some functions of a file, without the imports of the file."""
    body = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef) and node.name in names]
    head = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module(body=[*head, *body], type_ignores=[]), str(path), "exec"), space)
    return {name: space[name] for name in names}


if __name__ == "__main__":
    unittest.main()
