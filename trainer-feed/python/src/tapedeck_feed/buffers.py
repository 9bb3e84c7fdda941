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
    """Lends buffers in turn. The one lent last-but-`count` is lent again: whoever still reads it must have taken a copy."""

    def __init__(self, count: int) -> None:
        self._buffers: list[np.ndarray] = [aligned(0) for _ in range(count)]
        self._next = 0

    def take(self, size: int) -> np.ndarray:
        """A buffer of exactly `size` bytes, grown by a quarter where needed."""
        place = self._next
        self._next = (place + 1) % len(self._buffers)
        if len(self._buffers[place]) < size:
            self._buffers[place] = aligned(size + size // 4)
        return self._buffers[place][:size]
