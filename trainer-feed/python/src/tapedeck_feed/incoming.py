"""A body while it comes in: the memory it is read into, and its sha256, taken in a thread of its own while the rest is still on its way."""

from __future__ import annotations

import hashlib
import threading


class Incoming:
    """Filled from front to back by one reader. Hashing lets other threads run, so on two cores a body is verified in the time that reading or hashing alone takes."""

    def __init__(self, memory: memoryview, *, hashed: bool = True) -> None:
        self.memory = memory
        self._filled = 0
        self._over = False
        self._changed = threading.Condition()
        self._sha256 = hashlib.sha256()
        self._hasher = threading.Thread(target=self._hash, name="tapedeck-feed-hash", daemon=True) if hashed else None
        if self._hasher is not None:
            self._hasher.start()

    def filled(self, size: int) -> None:
        """The first `size` bytes are there and do not change any more."""
        with self._changed:
            self._filled = size
            self._changed.notify()

    def abandon(self) -> None:
        """Nothing more will come: the thread ends, the memory is free for others when this returns."""
        with self._changed:
            self._over = True
            self._changed.notify()
        if self._hasher is not None:
            self._hasher.join()

    def sha256(self) -> str:
        """Hexadecimal, of the whole memory, which must have been filled. Waits for the hash to get there."""
        if self._hasher is None:
            return hashlib.sha256(self.memory).hexdigest()
        if self._filled < len(self.memory) or self._over:
            raise ValueError(f"{self._filled} of {len(self.memory)} bytes have come")
        self._hasher.join()
        return self._sha256.hexdigest()

    def _hash(self) -> None:
        done = 0
        while done < len(self.memory):
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._filled > done)
                if self._over:
                    return
                filled = self._filled
            self._sha256.update(self.memory[done:filled])
            done = filled
