"""Memory that is used again for batch after batch, aligned for Arrow and for pinning."""

from __future__ import annotations

import numpy as np

ALIGNMENT = 64


def aligned(size: int) -> np.ndarray:
    """uint8 array of `size` bytes whose address is a multiple of 64."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


class BufferRing:
    """Lends buffers in turn: the same one until what is in it is kept, then the next. After `count` kept ones the first is lent again: whoever still reads it must have taken a copy."""

    def __init__(self, count: int) -> None:
        self._buffers: list[np.ndarray] = [aligned(0) for _ in range(count)]
        self._next = 0

    def take(self, size: int) -> np.ndarray:
        """A buffer of exactly `size` bytes, grown by a quarter where needed. Whatever an attempt before left in it is given up."""
        if len(self._buffers[self._next]) < size:
            self._buffers[self._next] = aligned(size + size // 4)
        return self._buffers[self._next][:size]

    def keep(self) -> None:
        """What was lent last is in use from now on."""
        self._next = (self._next + 1) % len(self._buffers)
