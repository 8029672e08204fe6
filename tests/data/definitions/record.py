"""What HolisticTraceAnalysis and TraceLens make of traces, for tests/traces/definitions_test.cpp.

Usage: record.py PUBLIC TRACELENS > expected.json

PUBLIC is a folder of public traces (../shared/data/traces beside the project), TRACELENS a checkout of AMD-AGI/TraceLens.
Writes the small traces of this folder, too. Needs HolisticTraceAnalysis 0.5.0 (pip install HolisticTraceAnalysis==0.5.0).

"hta" is HTA on the file as it is, by its defaults; "hta_exact" the same with the file's times given as whole nanoseconds,
so that nothing is rounded and no double is inexact (HTA is told nothing of units). "trace_lens" is GPUEventAnalyser on all
events, likewise in whole nanoseconds. All figures are nanoseconds, the overlap a share of communication.
"""

import contextlib
import decimal
import gzip
import importlib.metadata
import io
import json
import logging
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile

import pandas

HERE = pathlib.Path(__file__).parent
HTA_VERSION = "0.5.0"
IDLE_CAUSES = ("host_wait", "kernel_wait", "other")


def undowncast():
    """HTA packs row numbers into small integers, which pandas 3 then refuses to grow: keep them as they are."""
    original = pandas.to_numeric
    pandas.to_numeric = lambda values, errors="raise", downcast=None: original(values, errors=errors)


def small_trace(rank, steps, is_whole):
    """A rank that launches kernels, copies and collectives on three streams and waits on two, in whole microseconds or not."""
    rng = random.Random(100 * rank + steps)
    unit = 1000 if is_whole else 1
    events, clock, streams, correlation = [], 5_000_000_000 // unit * unit, {7: 0, 20: 0, 24: 0}, 1

    def time(low, high):
        return rng.randrange(low, high) // unit * unit

    def number(ns):
        return ns // 1000 if is_whole else float(decimal.Decimal(ns) / 1000)

    def event(cat, name, where, start, end, **arguments):
        events.append({"ph": "X", "cat": cat, "name": name, "pid": where[0], "tid": where[1], "ts": number(start),
                       "dur": number(end - start), "args": arguments})

    names = [("kernel", "void gemm_kernel<float>()", 7), ("kernel", "void gemm_kernel<float>()", 7),
             ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20), ("kernel", "ncclKernel_SendRecv", 20),
             ("kernel", "nccl_copy", 7), ("kernel", "hipSomething", 7), ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 24),
             ("gpu_memset", "Memset (Device)", 7), ("kernel", "dma_kernel", 24), ("kernel", "void deviceSync()", 24)]
    for step in range(steps):
        begin = clock
        for _ in range(40):
            cat, name, stream = rng.choice(names)
            clock += time(1000, 30000)
            event("cuda_runtime", "cudaLaunchKernel", (900, 900), clock, clock + time(1000, 4000), correlation=correlation)
            start = max(clock + time(2000, 9000), streams[stream] + time(0, 3000))
            if rng.random() < 0.1:
                start = max(clock, streams[stream] - time(1000, 3000))  # overlaps the one before
            streams[stream] = start + time(300, 900 if rng.random() < 0.2 else 60000)
            event(cat, name, (0, stream), start, streams[stream], device=0, stream=stream, correlation=correlation)
            correlation += 1
        event("cuda_runtime", "cudaStreamWaitEvent", (900, 900), clock, clock + time(1000, 2000), correlation=correlation)
        event("cuda_sync", "Stream Wait Event", (0, 7), clock + 2000, clock + 9000, stream=7, correlation=correlation, device=0)
        correlation += 1
        event("cuda_runtime", "cudaStreamSynchronize", (900, 900), clock, clock + time(40000, 90000), correlation=correlation)
        event("cuda_sync", "Stream Sync", (0, 7), clock + 10000, clock + 70000, stream=7, correlation=correlation, device=0)
        event("cuda_sync", "Context Sync", (0, -1), clock, clock + 70000, stream=-1, correlation=correlation, device=0)
        correlation += 1
        event("user_annotation", f"ProfilerStep#{step + 3}", (900, 900), begin, clock)
        event("gpu_user_annotation", f"ProfilerStep#{step + 3}", (0, 7), begin + 500_000, clock + 100_000)
    return {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}, "traceEvents": events}


def write_small_traces():
    for name, rank, steps, is_whole in (("steps_rank0", 0, 3, False), ("steps_rank1", 1, 3, False), ("one_step", 0, 1, False),
                                        ("whole", 0, 2, True)):
        text = json.dumps(small_trace(rank, steps, is_whole), indent=0)
        with open(HERE / f"{name}.json.gz", "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as file:
            file.write(text.encode())


def in_nanoseconds(text):
    trace = json.loads(text, parse_float=decimal.Decimal)
    for event in trace["traceEvents"]:
        for key in ("ts", "dur"):
            if key in event:
                event[key] = int(decimal.Decimal(event[key]) * 1000)
    return trace


def hta_figures(folder, unit_ns, threshold):
    import hta.analyzers.communication_analysis as communication_analysis
    from hta.trace_analysis import TraceAnalysis

    communication_analysis.round = lambda value, digits: value
    analysis = TraceAnalysis(trace_dir=str(folder))
    ranks = {}
    for _, row in analysis.get_temporal_breakdown(visualize=False).iterrows():
        ranks[int(row["rank"])] = {key: int(round(row[f"{column}_time(us)"] * unit_ns)) for key, column in (
            ("span_ns", "kernel"), ("compute_ns", "compute"), ("non_compute_ns", "non_compute"), ("idle_ns", "idle"))}
    overlaps = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")["comp_comm_overlap_pctg"]
    for rank, figures in ranks.items():
        overlap = float(overlaps[rank])
        figures["overlap_share"] = None if overlap != overlap else overlap / 100
        idle, _ = analysis.get_idle_time_breakdown(ranks=[rank], visualize=False, consecutive_kernel_delay=threshold)
        figures["idle_by_stream"] = {}
        for _, row in idle.iterrows():
            stream = figures["idle_by_stream"].setdefault(str(int(row["stream"])), dict.fromkeys(IDLE_CAUSES, 0))
            stream[row["idle_category"]] = int(round(row["idle_time"] * unit_ns))
    return ranks


def trace_lens_figures(trace):
    from TraceLens import GPUEventAnalyser

    events = trace["traceEvents"]
    for number, event in enumerate(events):
        event["UID"] = number
    try:
        figures = GPUEventAnalyser(events).compute_metrics()
    except ValueError as error:
        return {"error": str(error)}
    return {key: int(value) for key, value in figures.items()}


def files_of(path):
    """Name and text of each trace in a file or an archive."""
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                if member.name.endswith(".json"):
                    yield pathlib.Path(member.name).name, archive.extractfile(member).read()
    else:
        yield path.name, gzip.open(path).read() if path.name.endswith(".gz") else path.read_bytes()


def figures_of(paths):
    case = {"files": [path.name for path in paths]}
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as exact:
        lens = {}
        for path in paths:
            for name, text in files_of(path):
                name = name.removesuffix(".gz")
                pathlib.Path(plain, name).write_bytes(text)
                trace = in_nanoseconds(text)
                pathlib.Path(exact, name).write_text(json.dumps(trace, indent=0, default=float))
                rank = trace.get("distributedInfo", {}).get("rank", 0)
                lens[rank] = trace_lens_figures(trace)
        for key, folder, unit_ns, threshold in (("hta", plain, 1000, 30), ("hta_exact", exact, 1, 30000)):
            try:
                case[key] = hta_figures(folder, unit_ns, threshold)
            except Exception as error:  # HTA refuses some traces; the recording says which
                case[key] = {"error": f"{type(error).__name__}: {error}"}
        case["trace_lens"] = lens
    return case


def main():
    public, trace_lens = pathlib.Path(sys.argv[1]), sys.argv[2]
    assert importlib.metadata.version("HolisticTraceAnalysis") == HTA_VERSION
    sys.path.insert(0, trace_lens)
    logging.disable(logging.CRITICAL)
    undowncast()
    write_small_traces()
    small = [[HERE / "steps_rank0.json.gz", HERE / "steps_rank1.json.gz"], [HERE / "one_step.json.gz"], [HERE / "whole.json.gz"]]
    open_to_all = [[path] for path in sorted(public.iterdir()) if ".json" in path.name or path.name.endswith(".tar.gz")
                   if "golden" not in path.name and "memory_timeline" not in path.name]
    with contextlib.redirect_stdout(io.StringIO()):
        figures = {"small": [figures_of(paths) for paths in small], "public": [figures_of(paths) for paths in open_to_all]}
    json.dump({"HolisticTraceAnalysis": HTA_VERSION, "TraceLens": "171dd74", **figures}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
