"""Advantages and training rows from the reference implementations themselves, loaded from their sources; nothing of them is typed here again.

  prime-rl  orchestrator/algo/*.py, orchestrator/{trajectories,train_sink}.py    classes run on duck-typed traces
  verl      trainer/ppo/core_algos.py, the DAPO reward manager                   registered estimators; one statement of the manager
  TRL       trainer/{grpo,rloo}_trainer.py                                       the statements that compute `advantages`, by syntax tree

Needs torch and numpy only: everything else those modules import is named in annotations alone and stands in as a stub.
usage: reference_values.py --prime DIR --verl DIR --trl DIR < cases.json > values.json
cases: {"batches": [{"groups": [{"members": [{"reward", "mask", "context", "turns", "agent", "rollout", "channels"}]}]}], "traces": [...]}
A member's `mask` covers its response (1 = sampled), `context` counts its other tokens.
values: {"batches": [{name: [[value per member, or list per sampled token] per group]}], "traces": {...}, "errors": {name: text}}"""

from __future__ import annotations

import argparse
import ast
import asyncio
import importlib
import importlib.util
import json
import logging
import sys
import types
from types import SimpleNamespace as NS

import numpy as np
import torch

torch.set_num_threads(1)
parser = argparse.ArgumentParser()
for name in ("prime", "verl", "trl"):
    parser.add_argument("--" + name, required=True)
options = parser.parse_args()


class Anything:
    """Stands for a type that is used in annotations only."""

    def __class_getitem__(cls, key):
        return cls

    def __init__(self, *args, **kwargs):
        self.__dict__.update(kwargs)


def stub(name: str, path: str | None = None, **attributes):
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    if path is not None:
        module.__path__ = [path]
    else:
        module.__getattr__ = lambda n: Anything if not n.startswith("__") else (_ for _ in ()).throw(AttributeError(n))
    sys.modules[name] = module
    if "." in name:
        parent, child = name.rsplit(".", 1)
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)
    return module


def load(name: str, file: str):
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    parent, child = name.rsplit(".", 1)
    setattr(sys.modules[parent], child, module)
    return module


def functions(file: str, *names: str):
    """Top-level functions of `file`, without running the rest of it."""
    tree = ast.parse(open(file).read())
    body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in names]
    space = {"torch": torch, "TrainingSample": Anything}
    exec(compile(ast.Module(body=[ast.parse("from __future__ import annotations").body[0], *body], type_ignores=[]), file, "exec"), space)
    return [space[n] for n in names]


# prime-rl


def prime_modules():
    root = options.prime + "/src/prime_rl"
    stub("verifiers", path="/nonexistent")
    stub("verifiers.v1")
    stub("renderers")
    stub("prime_rl", path=root)
    stub("prime_rl.configs", path=root)
    stub("prime_rl.configs.algorithm")
    stub("prime_rl.utils", path="/nonexistent")
    quiet = logging.getLogger("prime")
    quiet.disabled = True
    stub("prime_rl.utils.logger", get_logger=lambda: quiet)
    for module in ("client", "utils"):
        stub("prime_rl.utils." + module)
    stub("prime_rl.transports", path="/nonexistent")
    stub("prime_rl.transports.rollouts", path="/nonexistent", TrainingSample=Anything)
    stub("prime_rl.transports.rollouts.types")
    stub("prime_rl.orchestrator", path=root + "/orchestrator")
    stub("prime_rl.orchestrator.algo", path=root + "/orchestrator/algo")
    return lambda name: importlib.import_module("prime_rl.orchestrator." + name)


def prime_batch(module, batch: dict) -> dict:
    def traces(group):
        return [
            NS(
                id=f"t{i}",
                reward=float(m["reward"]),
                has_error=False,
                agent=NS(trainable=True, name=m["agent"]),
                num_output_tokens=sum(m["mask"]),
                num_total_tokens=len(m["mask"]) + m["context"],
                num_turns=m["turns"],
                nodes=[NS(mask=[bool(x) for x in m["mask"]], token_ids=[0] * len(m["mask"]), advantages=None)],
            )
            for i, m in enumerate(group["members"])
        ]

    def run(algorithm):
        result = []
        for group in batch["groups"]:
            made = traces(group)
            episodes: dict[str, list] = {}
            for trace, member in zip(made, group["members"]):
                episodes.setdefault(member["rollout"], []).append(trace)
            # in the order of members, which hold one rollout together
            asyncio.run(algorithm.score_group([NS(id=k, traces=v) for k, v in episodes.items()]))
            result.append([t.nodes[0].advantages[0] for t in made])
        return result

    grpo, penalty = module("algo.grpo").GRPOAlgorithm, batch["length_penalty"]
    return {
        "grpo": run(grpo(NS(length_penalty=None), None)),
        "grpo length penalty": run(
            grpo(NS(length_penalty=NS(num_output_tokens_weight=penalty[0], num_input_tokens_weight=penalty[1], num_turns_weight=penalty[2])), None)
        ),
        "max_rl": run(module("algo.max_rl").MaxRLAlgorithm(NS(), None)),
        "rae": run(module("algo.rae").RAEAlgorithm(NS(decay=batch["decay"]), None)),
        "hierarchical_grpo": run(module("algo.hierarchical_grpo").HierarchicalGRPOAlgorithm(NS(episode_agents=["solver"]), None)),
    }


class Branch:
    """A root-to-leaf path as prime-rl's rows are made of."""

    multi_modal_data = None
    routed_experts = None

    def __init__(self, nodes):
        self.nodes = nodes
        self.token_ids = [t for n in nodes for t in n.token_ids]
        self.logprobs = self.spread("logprobs")
        self.reference_logprobs = self.spread("reference_logprobs") if any(n.reference_logprobs is not None for n in nodes) else None
        self.advantages = self.spread("advantages") if any(n.advantages is not None for n in nodes) else None

    def spread(self, field):
        out = []
        for node in self.nodes:
            values = iter(getattr(node, field) or [])
            out.extend(next(values, 0.0) if m else 0.0 for m in node.mask)
        return out


def prime_rows(module, group: dict) -> dict:
    """Rows of a group of graphs under four algorithms: ids, mask and streams after zero-advantage tokens were pruned."""
    routing, trajectories = module("algo.routing"), module("trajectories")
    prune, = functions(options.prime + "/src/prime_rl/orchestrator/train_sink.py", "_prune_zero_advantages")
    result = {}
    for name, action in (("grpo", "rl"), ("echo", "rl"), ("opd", "ref_kl"), ("sft", "ce")):
        traces = []
        for t in group["members"]:
            nodes = [
                NS(
                    parent=n["parent"],
                    token_ids=n["ids"],
                    mask=[bool(x) for x in n["mask"]],
                    sampled=n["sampled"],
                    logprobs=n["logprobs"],
                    is_content=n["isContent"] or [],
                    message=NS(role=n["role"]),
                    reference_logprobs=n["reference"] if action == "ref_kl" else None,
                    loss_weights=None,
                    advantages=None,
                )
                for n in t["nodes"]
            ]
            trace = NS(id=t["trace"], reward=float(t["reward"]), has_error=False, agent=NS(trainable=True, name="a"), nodes=nodes, num_turns=1, stop_condition=None)
            traces.append(trace)
        episodes = [NS(id=t.id, traces=[t]) for t in traces]
        if action == "rl":
            asyncio.run(module("algo.grpo").GRPOAlgorithm(NS(length_penalty=None), None).score_group(episodes))

        def branches(trace):
            parents = {n.parent for n in trace.nodes}
            for leaf in (i for i in range(len(trace.nodes)) if i not in parents):
                path, at = [], leaf
                while at is not None:
                    path.append(trace.nodes[at])
                    at = trace.nodes[at].parent
                yield leaf, Branch(path[::-1])

        rows = []
        for trace in traces:
            paths = list(branches(trace))
            trace.branches = [branch for _, branch in paths]
            if name == "echo":
                roles = NS(system=None, user=None, assistant=None, tool=None)
                for role, alpha in group["roles"].items():
                    setattr(roles, role, NS(alpha=alpha))
                asyncio.run(module("algo.echo").EchoAlgorithm(NS(length_penalty=None, roles=roles, filter=None), None).score_episode(NS(traces=[trace])))
            for sample in trajectories.trace_to_samples(trace):
                routing.stamp_loss_routing(sample, action)
                if action != "rl" or prune(sample):
                    leaf = next(l for l, b in paths if b.token_ids == sample.token_ids)
                    keys = ("token_ids", "mask", "logprobs", "ref_logprobs", "rl_weights", "ce_weights", "ref_kl_weights", "advantages")
                    rows.append({"trace": trace.id, "leaf": leaf, **{k: getattr(sample, k) for k in keys}})
        result[name] = rows
    return result


# verl


def verl_modules():
    root = options.verl + "/verl"
    stub("verl", path=root)
    stub("verl.utils", path=root + "/utils")
    for name in ("tensordict", "transformers", "ray", "omegaconf"):
        stub(name)
    stub("verl.utils.device", get_device_name=lambda: "cpu", get_torch_device=lambda: torch, get_device_id=lambda: 0, is_cuda_available=False, is_npu_available=False)
    groupwise = load("verl.utils.groupwise", root + "/utils/groupwise.py")
    sys.modules["verl.utils"].as_torch_index = groupwise.as_torch_index
    sys.modules["verl.utils"].group_mean_std = groupwise.group_mean_std
    load("verl.utils.import_utils", root + "/utils/import_utils.py")
    load("verl.utils.torch_functional", root + "/utils/torch_functional.py")
    for name in ("verl.trainer", "verl.workers", "verl.trainer.ppo"):
        stub(name, path=root)
    for name in ("verl.trainer.config", "verl.workers.config"):
        stub(name)
    return load("verl.trainer.ppo.core_algos", root + "/trainer/ppo/core_algos.py")


def dapo_shaping():
    """The statement of the DAPO reward manager that adds the penalty."""
    file = options.verl + "/verl/experimental/reward_loop/reward_manager/dapo.py"
    found = [n for n in ast.walk(ast.parse(open(file).read())) if isinstance(n, ast.If) and "reward += overlong_reward" in ast.unparse(n)]
    return compile(ast.Module(body=found[-1:], type_ignores=[]), file, "exec")


class Config(dict):
    __getattr__ = dict.get


def verl_batch(core, shaping, batch: dict) -> dict:
    members = [m for g in batch["groups"] for m in g["members"]]
    index = np.array([f"g{k}" for k, g in enumerate(batch["groups"]) for _ in g["members"]], dtype=object)
    width = max(len(m["mask"]) for m in members)
    mask, rewards = torch.zeros(len(members), width), torch.zeros(len(members), width)

    def place(values):
        out = torch.zeros(len(members), width)
        for i, m in enumerate(members):
            out[i, max(t for t, x in enumerate(m["mask"]) if x)] = values[i]
        return out

    for i, m in enumerate(members):
        mask[i, : len(m["mask"])] = torch.tensor(m["mask"], dtype=torch.float32)
    rewards = place([m["reward"] for m in members])

    def split(tensor, tokens=False):
        rows = [[tensor[i, t].item() for t, x in enumerate(m["mask"]) if x] for i, m in enumerate(members)]
        it = iter(rows if tokens else [r[0] for r in rows])
        return [[next(it) for _ in g["members"]] for g in batch["groups"]]

    def call(estimator, given=rewards, **kwargs):
        return core.get_adv_estimator_fn(estimator)(token_level_rewards=given.clone(), response_mask=mask.clone(), **kwargs)[0]

    dapo = batch["dapo"]
    space = {"self": NS(overlong_buffer_cfg=NS(enable=True, len=dapo["buffer"], penalty_factor=dapo["factor"], log=False), max_resp_len=dapo["maxLength"]), "reward_extra_info": {}}
    shaped = []
    for m in members:
        space.update(reward=m["reward"], valid_response_length=sum(m["mask"]))
        exec(shaping, space)
        shaped.append(space["reward"])
    result = {
        "grpo group": split(call("grpo", index=index)),
        "dr_grpo": split(call("grpo", index=index, norm_adv_by_std_in_grpo=False)),
        "rloo": split(call("rloo", index=index)),
        "rloo_vectorized": split(call("rloo_vectorized", index=index)),
        "opo": split(call("opo", index=index)),
        "gpg": split(call("gpg", index=index)),
        "gpg f": split(call("gpg", index=index, f_norm=batch["f"])),
        "reinforce_pp": split(call("reinforce_plus_plus", config=Config(gamma=1.0)), tokens=True),
        "reinforce_pp gamma": split(call("reinforce_plus_plus", config=Config(gamma=batch["gamma"])), tokens=True),
        "reinforce_pp_baseline": split(call("reinforce_plus_plus_baseline", index=index)),
        "dapo": split(call("grpo", place(shaped), index=index)),
    }
    if all(len(g["members"]) > 1 for g in batch["groups"]):
        for scale in (True, False):
            result["grpo_passk " + ("group" if scale else "none")] = split(call("grpo_passk", index=index, config=Config(norm_adv_by_std_in_grpo=scale)))
    if all(v is not None for m in members for v in m["channels"].values()):  # it has no rule for a missing one
        # the manager reads the channels of a batch with a prompt of one token; the score stands on the last token of a row without padding
        names = list(members[0]["channels"])
        lengths = [len(m["mask"]) for m in members]
        attention = torch.tensor([[1] * (1 + n) + [0] * (width - n) for n in lengths])
        config = Config(gdpo_reward_keys=names, gdpo_reward_weights=batch["weights"])
        data = {name: np.array([m["channels"][name] for m in members], dtype=object) for name in names}
        result["gdpo tokens"] = split(call("gdpo", index=index, config=config, non_tensor_batch=data, batch={"prompts": torch.zeros(len(members), 1), "attention_mask": attention}))
    return result


# TRL


def trl_blocks():
    root = options.trl + "/trl/trainer/"

    def block(file):
        method = next(
            n
            for c in ast.walk(ast.parse(open(root + file).read()))
            if isinstance(c, ast.ClassDef)
            for n in c.body
            if isinstance(n, ast.FunctionDef) and n.name == "_generate_and_score_completions"
        )
        texts = [ast.unparse(s) for s in method.body]
        first = next(k for k, t in enumerate(texts) if t.startswith("unscorable_mask = "))
        last = next(k for k in range(first, len(texts)) if texts[k].startswith("process_slice = "))
        return compile(ast.Module(body=method.body[first:last], type_ignores=[]), file, "exec")

    nanstd, = functions(root + "utils.py", "nanstd")
    return block("grpo_trainer.py"), block("rloo_trainer.py"), nanstd


def trl_batch(blocks, batch: dict) -> dict:
    sizes = {len(g["members"]) for g in batch["groups"]}
    if len(sizes) != 1:
        return {}
    grpo, rloo, nanstd = blocks
    size = sizes.pop()
    members = [m for g in batch["groups"] for m in g["members"]]

    def run(code, table, weights, **fields):
        space = {
            "torch": torch,
            "nanstd": nanstd,
            "rewards_per_func": torch.tensor(table, dtype=torch.float32),
            "num_generations": size,
            "device": "cpu",
            "mode": "train",
            "self": NS(reward_weights=torch.tensor(weights), reward_funcs=[0] * len(weights), num_generations=size, num_generations_eval=size, beta=0.0, reward_clip_range=None, **fields),
        }
        exec(code, space)
        values = space["advantages"].tolist()
        return [values[i : i + size] for i in range(0, len(values), size)]

    table = [[float(m["reward"])] for m in members]
    summed = {"multi_objective_aggregation": "sum_then_normalize"}
    result = {"grpo " + s + " trl": run(grpo, table, [1.0], scale_rewards=s, **summed) for s in ("group", "batch", "none")}
    if size > 1:
        result["rloo trl"] = run(rloo, table, [1.0], normalize_advantages=False)
    table = [[float("nan") if v is None else v for v in m["channels"].values()] for m in members]
    result["gdpo samples"] = run(grpo, table, batch["weights"], multi_objective_aggregation="normalize_then_sum", scale_rewards="group")
    return result


def main() -> None:
    cases = json.load(sys.stdin)
    module, core, shaping, blocks = prime_modules(), verl_modules(), dapo_shaping(), trl_blocks()
    errors: dict[str, str] = {}
    batches = []
    for batch in cases["batches"]:
        values = {}
        for name, run in (("prime", lambda b: prime_batch(module, b)), ("verl", lambda b: verl_batch(core, shaping, b)), ("trl", lambda b: trl_batch(blocks, b))):
            try:
                values[name] = run(batch)
            except Exception as error:
                import traceback

                errors.setdefault(name, traceback.format_exc()[-800:])
        batches.append(values)
    rows = [prime_rows(module, group) for group in cases["graphs"]]
    json.dump({"torch": torch.__version__, "errors": errors, "batches": batches, "rows": rows}, sys.stdout)


main()
