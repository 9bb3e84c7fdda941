"""Where a trainer's numbers go: a JSON line per step, TensorBoard."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Mapping, Protocol


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
    """Scalars for TensorBoard; needs the package `tensorboard` beside torch."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(directory))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
