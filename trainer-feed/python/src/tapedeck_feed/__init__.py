"""Training batches from a Tapedeck feed. See README.md."""

from .errors import CorruptSlice, EndOfFeed, FeedError, LeaseLost, NotReady
from .losses import Denominators, LossStreams, compute_loss, dppo_kl, ipo, ppo_clip
from .slices import MicroBatch, Slice, SliceHeader, read_slice, verify_digest

__all__ = [
    "CorruptSlice",
    "Denominators",
    "EndOfFeed",
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
