"""Parses a Perfetto trace of ours with the perfetto package's own message classes and compares spans, counters and flows
with our Chrome JSON of the same traces.

Usage: perfetto_check.py WRITE_PERFETTO_SAMPLE   (the program of that name, built beside the tests)

Runs again in SHARDSCOPE_PYTHON where that names a Python. Exits with 77 ("skipped") where the package perfetto is missing.
"""

import collections
import decimal
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
BEGIN, END, COUNTER = 1, 2, 4
BYTES = 3


def ns(microseconds):
    return int(decimal.Decimal(microseconds) * 1000)


def chrome_figures(path):
    """Spans, counts and flows of one rank, without what is derived for other tools."""
    trace = json.loads(path.read_text(), parse_float=decimal.Decimal)
    own, base = trace["shardscope"], trace["baseTimeNanoseconds"]
    process = f"rank {own['rank']} {own['kind']}"
    spans, counts, ends = collections.Counter(), [], collections.defaultdict(dict)
    for event in trace["traceEvents"]:
        args = event.get("args", {})
        start = base + ns(event["ts"])
        if event["ph"] == "X" and "track" in args.get("shardscope", {}):
            known = args["shardscope"]
            spans[process, own["tracks"][known["track"]]["name"], known["name"], known["class"], known["step"], start, start + ns(event["dur"])] += 1
            if "correlation" in args:
                ends[args["correlation"]]["s" if event["cat"] == "cuda_runtime" else "f"] = (known["name"], start)
        if event["ph"] == "C":
            counts += [(process, name, start, value) for name, value in args.items()]
    flows = collections.Counter((process, pair["s"], pair["f"]) for pair in ends.values() if len(pair) == 2)
    return spans, collections.Counter(counts), flows


class Packets:
    """The packets of a file, interned names put back."""

    def __init__(self, data):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

        self.tracks, self.names, self.categories, self.arguments = {}, {}, {}, {}
        self.open, self.spans, self.counts = collections.defaultdict(list), collections.Counter(), collections.Counter()
        self.starts, self.ends, self.last = {}, {}, {}
        trace = proto.Trace()
        assert trace.ParseFromString(data) == len(data)
        assert trace.packet[0].sequence_flags == 1, "the first packet must clear the state of its sequence"
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            self.read(packet)
        assert not any(self.open.values()), "a span without an end"

    def read(self, packet):
        if packet.HasField("track_descriptor"):
            self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        for field, known in (("event_names", self.names), ("event_categories", self.categories), ("debug_annotation_names", self.arguments)):
            known.update((entry.iid, entry.name) for entry in getattr(packet.interned_data, field))
        if packet.HasField("track_event"):
            self.event(packet.timestamp, packet.track_event)

    def place(self, uuid):
        track = self.tracks[uuid]
        return self.tracks[track.parent_uuid].process.process_name, track.name

    def event(self, time, event):
        assert time >= self.last.get(event.track_uuid, 0), "times of a track go back"
        self.last[event.track_uuid] = time
        process, track = self.place(event.track_uuid)
        if event.type == COUNTER:
            counter = self.tracks[event.track_uuid]
            assert (counter.counter.unit == BYTES) == (counter.name != "operations")
            self.counts[process, track, time, event.counter_value] += 1
        elif event.type == BEGIN:
            name = self.names[event.name_iid]
            step = sum(a.int_value for a in event.debug_annotations if self.arguments[a.name_iid] == "step")
            self.open[event.track_uuid].append((process, track, name, self.categories[event.category_iids[0]], step, time))
            self.starts.update((flow, (process, (name, time))) for flow in event.flow_ids)
            self.ends.update((flow, (name, time)) for flow in event.terminating_flow_ids)
        else:
            assert event.type == END
            self.spans[(*self.open[event.track_uuid].pop(), time)] += 1

    def flows(self):
        assert self.starts.keys() == self.ends.keys()
        return collections.Counter((*start, self.ends[flow]) for flow, start in self.starts.items())


def differences(what, ours, found):
    for missing in (ours - found).elements():
        yield f"{what} missing: {missing}"
    for extra in (found - ours).elements():
        yield f"{what} too many: {extra}"


def main():
    python = os.environ.get("SHARDSCOPE_PYTHON")
    if python and "PERFETTO_CHECK" not in os.environ:
        os.execve(python, [python, *sys.argv], {**os.environ, "PERFETTO_CHECK": "1"})
    try:
        import perfetto  # noqa: F401
    except ImportError:
        print("skipped: the package perfetto is not installed (pip install perfetto protobuf)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        figures = [chrome_figures(path) for path in sorted(pathlib.Path(folder).glob("*.json"))]
        packets = Packets((pathlib.Path(folder) / "ranks.pftrace").read_bytes())
    spans, counts, flows = (sum(parts, collections.Counter()) for parts in zip(*figures))
    wrong = [*differences("span", spans, packets.spans), *differences("count", counts, packets.counts), *differences("flow", flows, packets.flows())]
    for text in wrong:
        print(text)
    print(f"{spans.total()} spans, {counts.total()} counts, {flows.total()} flows, {len(wrong)} differences")
    sys.exit(1 if wrong or not (spans and counts and flows) else 0)


if __name__ == "__main__":
    main()
