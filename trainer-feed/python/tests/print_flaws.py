"""Reads {"chains": [[manifest, …], …], "max_times_trained", "plans": [[batch_id, world, max_tokens, pad_to_multiple, linear, quadratic], …]} as JSON from standard input and prints the flaws of each chain and the
ids of the plans."""

from __future__ import annotations

import json
import sys

from tapedeck_feed import plan_id_of, verify_chain

asked = json.load(sys.stdin)
chains = [[[flaw.n, flaw.flaw, flaw.message] for flaw in verify_chain(manifests, max_times_trained=asked["max_times_trained"])] for manifests in asked["chains"]]
print(json.dumps({"chains": chains, "plans": [plan_id_of(*plan) for plan in asked["plans"]]}))
