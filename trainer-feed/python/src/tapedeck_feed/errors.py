"""What can go wrong, by name. Every error carries the code of the protocol and says what to do."""

from __future__ import annotations

from typing import Any, Mapping, Optional


class FeedError(Exception):
    """Anything a feed or its server refuses. `code` is the protocol's; `details` what the server added."""

    def __init__(self, code: str, message: str, details: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.details: Mapping[str, Any] = details or {}


class LeaseLost(FeedError):
    """Another process took the lease: this one must not step or commit any more."""


class CorruptSlice(FeedError):
    """Bytes are not what their digest, header or schema says."""


class NotReady(FeedError):
    """The batch is not there within the time given; `details` says what is missing and since when."""


class EndOfFeed(FeedError):
    """The feed was flushed and has no further batch."""
