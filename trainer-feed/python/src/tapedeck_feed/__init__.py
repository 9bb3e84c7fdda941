"""Training batches from a Tapedeck feed. See README.md."""

from .chain import ChainVerifier, Flaw, verify_chain
from .errors import CorruptSlice, EndOfFeed, FeedError, LeaseLost, NotReady
from .feed import Batch, Checkpoint, Feed
from .identity import batch_id_of, plan_id_of
from .losses import Denominators, LossStreams, compute_loss, dppo_kl, ipo, ppo_clip
from .row_hashes import verify_rows
from .slices import MicroBatch, Slice, SliceHeader, read_slice, verify_digest

__all__ = [
    "Batch",
    "ChainVerifier",
    "Checkpoint",
    "CorruptSlice",
    "Denominators",
    "EndOfFeed",
    "Feed",
    "FeedError",
    "Flaw",
    "LeaseLost",
    "LossStreams",
    "MicroBatch",
    "NotReady",
    "Slice",
    "SliceHeader",
    "batch_id_of",
    "compute_loss",
    "dppo_kl",
    "ipo",
    "plan_id_of",
    "ppo_clip",
    "read_slice",
    "verify_chain",
    "verify_digest",
    "verify_rows",
]
