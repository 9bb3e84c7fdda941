"""Where numbers go: JSON lines, and event files as TensorBoard itself reads them where it is installed."""

from __future__ import annotations

import json
import math
import struct
import tempfile
import unittest
from pathlib import Path

from tapedeck_feed.metrics import JsonLines, TensorBoard, masked_crc32c

STEPS = [(1, {"loss": 0.5, "grad/norm": 1e-3}), (2, {"loss": -2.25, "kl": math.inf}), (2**40, {"loss": 1e300})]


class JsonLinesSink(unittest.TestCase):
    def test_a_line_per_step_that_any_reader_takes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "metrics.jsonl"
            for step, metrics in [(1, {"loss": 0.5}), (2, {"loss": math.nan, "kl": -math.inf})]:
                sink = JsonLines(path)  # taken up again: appends
                sink.write(step, metrics)
                sink.close()
            lines = path.read_text().splitlines()
            self.assertEqual([json.loads(line) for line in lines], [{"step": 1, "loss": 0.5}, {"step": 2, "loss": "NaN", "kl": "-Infinity"}])

    def test_a_step_is_on_disk_before_the_next(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            sink = JsonLines(Path(folder) / "m.jsonl")
            sink.write(7, {"loss": 1})
            self.assertEqual(json.loads((Path(folder) / "m.jsonl").read_text()), {"step": 7, "loss": 1})
            sink.close()


class TensorBoardSink(unittest.TestCase):
    def written(self, folder: str) -> Path:
        sink = TensorBoard(folder)
        for step, metrics in STEPS:
            sink.write(step, metrics)
        sink.close()
        (path,) = Path(folder).glob("events.out.tfevents.*")
        return path

    def test_records_have_their_checksums(self) -> None:
        self.assertEqual(masked_crc32c(b"123456789"), ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF)  # the check value of CRC-32C
        with tempfile.TemporaryDirectory() as folder:
            data, at, records = self.written(folder).read_bytes(), 0, 0
            while at < len(data):
                (length,) = struct.unpack_from("<Q", data, at)
                self.assertEqual(struct.unpack_from("<I", data, at + 8)[0], masked_crc32c(data[at : at + 8]))
                event = data[at + 12 : at + 12 + length]
                self.assertEqual(struct.unpack_from("<I", data, at + 12 + length)[0], masked_crc32c(event))
                at += 16 + length
                records += 1
            self.assertEqual((at, records), (len(data), 1 + len(STEPS)))

    def test_tensorboard_reads_them(self) -> None:
        try:
            from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
        except ImportError as missing:
            self.skipTest(f"tensorboard is not installed: {missing}")
        with tempfile.TemporaryDirectory() as folder:
            events = list(LegacyEventFileLoader(str(self.written(folder))).Load())
        self.assertEqual(events[0].file_version, "brain.Event:2")
        read = [(event.step, {value.tag: value.simple_value for value in event.summary.value}) for event in events[1:]]
        self.assertEqual(read, [(step, {name: float32(value) for name, value in metrics.items()}) for step, metrics in STEPS])
        self.assertTrue(all(event.wall_time > 1.5e9 for event in events))


def float32(value: float) -> float:
    return math.inf if value > 3.5e38 else struct.unpack("<f", struct.pack("<f", value))[0]


if __name__ == "__main__":
    unittest.main()
