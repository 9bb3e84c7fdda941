"""Where a trainer's numbers go: a JSON line per step, TensorBoard."""

from __future__ import annotations

import itertools
import json
import math
import os
import socket
import struct
import time
from typing import BinaryIO, Mapping, Protocol


class MetricSink(Protocol):
    """Takes the numbers of one optimizer step."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """One object per step appended to a file: `{"step": 3, "loss": 0.5}`. A number that JSON lacks is written as its name in a string ("NaN", "Infinity")."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open(path, "a", encoding="utf-8", buffering=1)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._file.write(json.dumps({"step": step, **{name: _json_number(value) for name, value in metrics.items()}}, allow_nan=False) + "\n")

    def close(self) -> None:
        self._file.close()


class TensorBoard:
    """Scalars in an event file that TensorBoard reads (`tensorboard --logdir <directory>`). Needs no package: the file is records of small protocol buffers."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        os.makedirs(directory, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 1_000_000_000}.{socket.gethostname()}.{os.getpid()}.{next(_COUNTER)}"
        self._file: BinaryIO = open(os.path.join(directory, name), "ab")
        self._record(_field(1, _DOUBLE, struct.pack("<d", time.time())) + _field(3, _BYTES, b"brain.Event:2"))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """One event per step with all its scalars, rounded to float32 as TensorBoard keeps them; written through at once."""
        values = b"".join(_field(1, _BYTES, _field(1, _BYTES, name.encode()) + _field(2, _FLOAT, _float32(value))) for name, value in metrics.items())
        self._record(_field(1, _DOUBLE, struct.pack("<d", time.time())) + _field(2, _VARINT, _varint(step)) + _field(5, _BYTES, values))

    def close(self) -> None:
        self._file.close()

    def _record(self, event: bytes) -> None:
        """A TFRecord: length, its checksum, the bytes, their checksum."""
        length = struct.pack("<Q", len(event))
        self._file.write(length + struct.pack("<I", masked_crc32c(length)) + event + struct.pack("<I", masked_crc32c(event)))
        self._file.flush()


_COUNTER = itertools.count()
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
"""Wire types of protocol buffers."""


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _float32(value: float) -> bytes:
    """A number beyond float32 is written as the infinity that it is there."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _field(number: int, wire_type: int, content: bytes) -> bytes:
    length = _varint(len(content)) if wire_type == _BYTES else b""
    return _varint(number << 3 | wire_type) + length + content


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC_TABLE = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), rotated and shifted as in TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
