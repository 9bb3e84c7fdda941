"""Training batches from a Tapedeck feed. See README.md."""

from .errors import CorruptSlice, EndOfFeed, FeedError, LeaseLost, NotReady
from .feed import Batch, Checkpoint, Feed
from .losses import Denominators, LossStreams, compute_loss, dppo_kl, ipo, ppo_clip
from .slices import MicroBatch, Slice, SliceHeader, read_slice, verify_digest

__all__ = [
    "Batch",
    "Checkpoint",
    "CorruptSlice",
    "Denominators",
    "EndOfFeed",
    "Feed",
    "FeedError",
    "LeaseLost",
    "LossStreams",
    "MicroBatch",
    "NotReady",
    "Slice",
    "SliceHeader",
    "compute_loss",
    "dppo_kl",
    "ipo",
    "ppo_clip",
    "read_slice",
    "verify_digest",
]
