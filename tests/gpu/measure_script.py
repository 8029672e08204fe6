#!/usr/bin/env python3
"""measure_script.py SCRIPT -o FOLDER: runs a training script as it is and keeps what the device's memory and time did:

    FOLDER/measured.json      allocated, active and reserved bytes after each step, their peaks, milliseconds of each step
    FOLDER/requests.txt.gz    every request of the caching allocator in order: action, bytes, stream (numbered as they appear)
    FOLDER/rank0.pt.trace.json.gz   with --profile: the last step but one, by torch.profiler

A step ends when the optimizer's does. Runs the same on a real device and under `shardscope record`."""
import argparse
import contextlib
import fcntl
import gzip
import json
import os
import runpy
import sys
import time

PROFILED_STEP = 2  # counted from 0
KINDS = ("allocated", "active", "reserved")


class Steps:
    """What each step left, told by the optimizer's hook."""

    def __init__(self, torch, folder, profiled):
        self.torch, self.folder, self.profiled = torch, folder, profiled
        self.rows, self.ends, self.profiler = [], [], None

    def mark(self):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        self.ends.append(event)

    def __call__(self, optimizer, arguments, options):
        statistics = self.torch.cuda.memory_stats()
        if not self.rows:
            self.mark()
        self.rows.append({f"{when}_{kind}": statistics[f"{kind}_bytes.all.{when}"]
                          for when in ("current", "peak") for kind in KINDS})
        self.torch.cuda.reset_peak_memory_stats()
        self.mark()
        if not self.profiled:
            return
        if len(self.rows) == PROFILED_STEP:
            self.profiler = self.torch.profiler.profile(record_shapes=True)
            self.profiler.start()
        elif self.profiler is not None and len(self.rows) == PROFILED_STEP + 1:
            self.torch.cuda.synchronize()
            self.profiler.stop()
            self.profiler.export_chrome_trace(os.path.join(self.folder, "rank0.pt.trace.json.gz"))

    def finish(self):
        self.torch.cuda.synchronize()
        times = [begin.elapsed_time(end) for begin, end in zip(self.ends, self.ends[1:])]
        return [row | {"elapsed_ms": elapsed if number else None} for number, (row, elapsed) in
                enumerate(zip(self.rows, times))]


def write_requests(snapshot, path):
    streams = {}
    with gzip.open(path, "wt") as file:
        for events in snapshot["device_traces"]:
            for event in events:
                stream = streams.setdefault(event.get("stream", 0), len(streams))
                print(event["action"], event.get("size", 0), stream, sep="\t", file=file)


@contextlib.contextmanager
def alone(lock):
    """One script at a time has the device, however many are being imported."""
    if lock is None:
        yield
        return
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--lock", help="a file: only one script that names it runs at a time")
    options = parser.parse_args()
    os.makedirs(options.output, exist_ok=True)
    with open(options.script) as script:
        if "init_process_group" in script.read():
            os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                              MASTER_PORT=str(20000 + os.getpid() % 20000))
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook
    import transformers
    with alone(options.lock):
        torch.cuda.memory._record_memory_history(max_entries=2_000_000, context=None)
        steps = Steps(torch, options.output, options.profile)
        register_optimizer_step_post_hook(steps)
        begin = time.perf_counter()
        sys.argv = [options.script]
        runpy.run_path(options.script, run_name="__main__")
        rows = steps.finish()
        result = {"script": os.path.basename(options.script), "torch": torch.__version__,
                  "transformers": transformers.__version__, "device": torch.cuda.get_device_name(), "steps": rows,
                  "elapsed_s": round(time.perf_counter() - begin, 2)}
        write_requests(torch.cuda.memory._snapshot(), os.path.join(options.output, "requests.txt.gz"))
    with open(os.path.join(options.output, "measured.json"), "w") as file:
        json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
