"""Reads `rank_R.bin` files with prime-rl's own types and prints their tensors as JSON; floats as hexadecimal. First argument: the folder that holds src/prime_rl."""

import importlib.util
import json
import sys
from pathlib import Path

import msgspec

source = Path(sys.argv[1]) / "src/prime_rl/transports/rollouts/types.py"
spec = importlib.util.spec_from_file_location("prime_rl_types", source)
types = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = types
spec.loader.exec_module(types)

decoder = msgspec.msgpack.Decoder(type=list[types.MicroBatch])
FLOATS = ("advantages", "inference_logprobs", "temperatures", "ref_logprobs", "rl_weights", "ce_weights", "ref_kl_weights")
files = []
for path in sys.argv[2:]:
    micro_batches = []
    for micro_batch in decoder.decode(Path(path).read_bytes()):
        fields = {name: getattr(micro_batch, name) for name in micro_batch.__struct_fields__}
        for name in FLOATS:
            if fields[name] is not None:
                fields[name] = [float(value).hex() for value in fields[name]]
        micro_batches.append(fields)
    files.append(micro_batches)
json.dump(files, sys.stdout)
