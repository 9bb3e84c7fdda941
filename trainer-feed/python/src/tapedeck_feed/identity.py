"""The ids of batches and plans, computed anew from what they are made of (docs/algorithms.md, "Identity"). Integers are 8 bytes little-endian, text is its length in UTF-8 bytes and the bytes, a hash
is 32 bytes; what may be null is one byte 0, or 1 and the value; a list is its length and its items."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any, Callable, Iterable, Mapping, Sequence

PLANNER_VERSION = 1


def batch_id_of(manifest: Mapping[str, Any]) -> str:
    """sha256, hexadecimal, of the batch that a manifest describes. KeyError, TypeError, ValueError or struct.error for what is no manifest."""
    counts = manifest["counts"]
    _digest(manifest["batchId"])
    return _hexadecimal(
        [
            _text("tapedeck batch 1"),
            _optional(manifest["previousId"], _digest),
            _text(manifest["feed"]),
            _integer(manifest["n"]),
            _digest(manifest["specHash"]),
            _list(manifest["rows"], lambda row: _text(row["rowId"]) + _digest(row["contentHash"]) + _digest(row["signalHash"])),
            *(_integer(counts[name]) for name in ("N_rl", "N_ce", "N_ref_kl")),
            _list(manifest["groups"], _text),
            bytes.fromhex(excluded_digest_of(manifest["excluded"])),
            _list(manifest["sourcePositions"], lambda position: _integer(position[0]) + _integer(position[1])),
            _optional(manifest["policyVersion"], _integer),
        ]
    )


def excluded_digest_of(excluded: Sequence[Mapping[str, Any]]) -> str:
    """sha256, hexadecimal, of everything a batch left out, in order. Messages are for people and not in it."""

    def one(entry: Mapping[str, Any]) -> bytes:
        parts = [_optional(entry["run"], _text), _text(entry["group"]), _optional(entry["rollout"], _text), _optional(entry["trace"], _text), _optional(entry["leaf"], _integer)]
        return b"".join([*parts, _text(entry["reason"]), _optional(entry["staleness"], _integer), _optional(entry["length"], _integer)])

    return _hexadecimal([_text("tapedeck excluded 1"), _list(excluded, one)])


def plan_id_of(batch_id: str, world: int, max_tokens: int, pad_to_multiple: int = 1, linear: float = 1, quadratic: float = 1e-4) -> str:
    """sha256, hexadecimal, of a batch and of everything that decides its packing."""
    numbers = ",".join(_number(value) for value in (world, max_tokens, pad_to_multiple, linear, quadratic, PLANNER_VERSION))
    return hashlib.sha256(f"[{json.dumps(batch_id, ensure_ascii=False)},{numbers}]".encode()).hexdigest()


def _number(value: float) -> str:
    """As JSON.stringify writes a number that is not negative (ECMAScript, Number::toString): the shortest digits that name the double, an exponent only below 1e-6 and from 1e21."""
    mantissa, _, power = repr(float(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # the value is 0.<digits> x 10^point
    point = len(whole) + int(power or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if digits == "":
        return "0"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    if 0 < point <= 21:
        after = digits[point:]
        return digits[:point].ljust(point, "0") + (f".{after}" if after else "")
    after = digits[1:]
    return f"{digits[0]}{f'.{after}' if after else ''}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def _hexadecimal(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _optional(value: Any, encode: Callable[[Any], bytes]) -> bytes:
    return b"\0" if value is None else b"\1" + encode(value)


def _list(values: Sequence[Any], encode: Callable[[Any], bytes]) -> bytes:
    return _integer(len(values)) + b"".join(encode(value) for value in values)


def _integer(value: Any) -> bytes:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no integer")
    return struct.pack("<q", value)


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    encoded = value.encode()
    return _integer(len(encoded)) + encoded


def _digest(value: Any) -> bytes:
    if not isinstance(value, str) or len(value) != 64 or value.strip("0123456789abcdef"):
        raise ValueError(f"{value!r} is no sha256 in lower-case hexadecimal")
    return bytes.fromhex(value)
