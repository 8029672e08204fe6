"""Memory over time, as the program's trace has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardscope import _text
from shardscope._answer import Answer


@dataclass(init=False, repr=False, eq=False)
class MemoryCurve(Answer):
    """Samples in the order of time. `columns` has `time_ns`, `allocated_bytes`, `active_bytes`, `reserved_bytes` and `<category>_bytes`."""

    columns: Mapping[str, tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.columns["time_ns"])

    def __repr__(self) -> str:
        peak = max(self.columns["allocated_bytes"], default=0)
        return f"MemoryCurve({len(self)} samples, peak {_text.bytes_text(peak)} allocated)"

    def column(self, name: str) -> Any:
        """A column as numpy array where numpy is there, else as a tuple of int."""
        values = self.columns[name]
        try:
            import numpy
        except ImportError:
            return values
        return numpy.array(values, dtype=numpy.int64)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame of all columns; needs pandas."""
        import pandas  # type: ignore[import-untyped, unused-ignore]

        return pandas.DataFrame({name: self.column(name) for name in self.columns})


def _nanoseconds(microseconds: str) -> int:
    """Exact: the trace has three decimals, which a float would round."""
    whole, _, decimals = microseconds.partition(".")
    sign = -1 if whole.startswith("-") else 1
    return int(whole) * 1000 + sign * int((decimals + "000")[:3])


def read_curve(path: str) -> MemoryCurve:
    """The memory events of a trace that the program wrote."""
    import gzip
    import json

    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file, parse_float=str)["traceEvents"]
    columns: dict[str, list[int]] = {name: [] for name in ("time_ns", "allocated_bytes", "active_bytes", "reserved_bytes")}
    for event in events:
        if event.get("ph") == "i" and event.get("name") == "[memory]":
            held = event["args"]["shardscope"]
            allocated = event["args"]["Total Allocated"]
            columns["time_ns"].append(_nanoseconds(str(event["ts"])))
            columns["allocated_bytes"].append(allocated)
            columns["active_bytes"].append(held.get("active_bytes", allocated))
            columns["reserved_bytes"].append(event["args"]["Total Reserved"])
        elif event.get("ph") == "C" and event.get("name") == "memory":
            for category, count in event["args"].items():
                columns.setdefault(f"{category}_bytes", []).append(count)
    return MemoryCurve(columns={name: tuple(values) for name, values in columns.items()})
