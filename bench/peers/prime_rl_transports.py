"""prime-rl's own transports and our client, each ending in torch tensors; rounds by rounds.py.

Arguments: source of prime-rl, folder with `rollouts/step_1/rank_0.bin` (made by `tapedeck feed export prime-rl`), JSON for our reader (url, feed, n, max_tokens).
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

source, folder, asked = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
sys.path[:0] = [f"{source}/src", f"{source}/packages/prime-rl-configs/src"]

import torch  # noqa: E402
import zmq  # noqa: E402
from prime_rl.configs.shared import FileSystemTransportConfig  # noqa: E402
from prime_rl.trainer.rl.data import DataLoader  # noqa: E402
from prime_rl.transports.rollouts import MicroBatchReceiver  # noqa: E402
from rounds import answer_rounds, slice_over_tcp  # noqa: E402
from tapedeck_feed.buffers import BufferRing  # noqa: E402
from tapedeck_feed.connection import Connection, map_file, path_of  # noqa: E402
from tapedeck_feed.slices import read_slice, sha256_of, verify_digest  # noqa: E402

torch.set_num_threads(1)
query = {"rank": 0, "world": 1, "maxTokens": asked["max_tokens"], "columns": "", "wait": 60, "project": "default"}
path = path_of(asked["feed"], "batches", str(asked["n"]))
connection, buffers = Connection(asked["url"]), BufferRing(3)


def tensors(piece) -> int:
    for micro_batch in piece.micro_batches:
        micro_batch.torch("token_ids"), micro_batch.torch_streams(), micro_batch.torch("position_ids"), micro_batch.torch("temperatures")
    return piece.tokens


def over_tcp() -> int:
    piece = slice_over_tcp(asked, connection, lambda size: memoryview(buffers.take(size)))
    buffers.keep()
    return tensors(piece)


def mapped() -> int:
    answer = connection.head(path, query)
    data = map_file(answer.headers["x-feed-file"], int(answer.headers["content-length"]))
    verify_digest(data, sha256_of(answer.headers))
    return tensors(read_slice(data))


def filesystem() -> int:
    return sum(batch["input_ids"].numel() for batch in DataLoader(folder, 1, 1, FileSystemTransportConfig()).get_batch())


loader = DataLoader(folder, 1, 1, FileSystemTransportConfig())
decoder = loader.receiver.decoder
context = zmq.Context()
payload = (folder / "rollouts/step_1/rank_0.bin").read_bytes()


class Received(MicroBatchReceiver):
    """prime-rl's decoder behind a ZMQ socket: its own receiver waits for its own orchestrator."""

    def __init__(self) -> None:
        super().__init__(folder, 0)
        self.socket = context.socket(zmq.PULL)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")

    def wait(self) -> None: ...

    def can_receive(self) -> bool:
        return True

    def receive(self):
        return self.decoder.decode(self.socket.recv())


received = Received()
sender = context.socket(zmq.PUSH)
sender.connect(f"tcp://127.0.0.1:{received.port}")


def over_zmq() -> int:
    sending = threading.Thread(target=sender.send, args=(payload,))
    sending.start()
    loader.receiver = received
    count = sum(batch["input_ids"].numel() for batch in loader.get_batch())
    sending.join()
    return count


works = {"tapedeck over TCP, digest verified": over_tcp, "tapedeck mapped, digest verified": mapped, "prime-rl filesystem": filesystem, "prime-rl ZMQ": over_zmq}
answer_rounds({kind: (lambda: None, work) for kind, work in works.items()})
