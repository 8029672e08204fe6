#!/usr/bin/env python3
"""What saving costs a training, and how fast checkpoints are written and read beside dd.

usage: checkpoints.py SHARDSCOPE [--rounds N] [--steps N] [--json]

A Llama of 25 M parameters trains under FULL_SHARD on 2 ranks, with the demo's 4 sequences of 256 tokens, and saves after every 50 steps.
  cost   --steps (50) steps with saves and without, in turn, --rounds (3) times. `told`: what the run itself counts of rank 0, the time that
         training waited and the processor time of the thread that writes, as a share of the run. `processor`: the whole processor time of
         all ranks with saves over that without. `leaves`: from SIGTERM in a step to the end of the run, which finishes the step and saves.
  speed  282 MB, in turn with dd over the same bytes, --rounds times each:
         save   what both ranks of a run write at once, checksums and sync included, while training has nothing else to do: 4 saves after steps
                of 8 tokens, and no older checkpoint removed; two `dd conv=fsync` at once, four times, as nice as the thread that writes
         rewrite
                `checkpoint reshard`, which reads (from the page cache), compares checksums, writes and syncs; `dd conv=fsync` of the same
         load   what both ranks of a resumed run read and check at once, from the disk; two `dd of=/dev/null` at once
         read   `checkpoint verify` after its files were dropped from the page cache, which compares checksums; `dd of=/dev/null`
         `cached` is read from the page cache, where the disk does not count.
Prints the median of each, and dd's time over ours.
"""
import argparse
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

EVERY, RANKS, SAVES = 50, 2, 4
TOLD = re.compile(r"(\d+) checkpoints saved: training waited ([\d.]+) s .* ([\d.]+) MB of rank 0 .* at ([\d.]+) MB/s, with ([\d.]+) s of "
                  "processor time")

LOADED = re.compile(r"resumes after step \d+ of .*, read in ([\d.]+) s")
SPEEDS = ("save", "rewrite", "load", "read", "cached")


def run(command, **options):
    """Elapsed seconds, processor seconds of it and all that it started, and its standard error."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ends with {process.returncode}: {errors.strip()[-600:]}")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, errors


def command_of(program, folder, name, steps, every, batch=4, seq=256, keep=1, begin=()):
    """Of a new run, with `begin` as more options; its options for subprocess."""
    model = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "llama_25m")
    job = {"model": model, "data": "text.txt", "steps": steps, "batch": batch, "seq": seq, "ranks": RANKS, "strategy": "full_shard",
           "device": "cpu", "precision": "fp32", "save_model": False, "checkpoint": {"every": every, "keep": keep}}
    with open(os.path.join(folder, "job.json"), "w", encoding="utf-8") as file:
        json.dump(job, file)
    shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    return [program, "train", "job.json", "-o", name, *begin], {"cwd": folder, "env": os.environ | {"HOME": folder}}


def train(*arguments):
    command, options = command_of(*arguments)
    return run(command, **options)


def leave(program, folder):
    """Seconds from SIGTERM to the end, and of the step before it."""
    command, options = command_of(program, folder, "left", 1000, EVERY)
    metrics = os.path.join(folder, "left", "metrics.jsonl")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    lines = []
    while len(lines) < 3 and process.poll() is None:
        time.sleep(0.01)
        if os.path.exists(metrics):
            with open(metrics, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file if line.endswith("\n")]
    begin = time.monotonic()
    process.terminate()
    process.wait()
    return {"leaves_s": time.monotonic() - begin, "step_s": lines[2]["elapsed_s"] - lines[1]["elapsed_s"]}


def cost(program, folder, steps, rounds):
    told, with_saves, without = [], [], []
    for _ in range(rounds):
        without.append(train(program, folder, "plain", steps, 0)[1])
        elapsed, processor, errors = train(program, folder, "saved", steps, EVERY)
        with_saves.append(processor)
        saves, waited, _, _, written = map(float, TOLD.search(errors).groups())
        told.append({"saves": int(saves), "elapsed_s": elapsed, "waited_s": waited, "writing_processor_s": written,
                     "share": (waited + written) / elapsed})
    return {"leaves": [leave(program, folder) for _ in range(rounds)], "told": told, "processor_with_s": with_saves, "processor_without_s": without,
            "told_share": statistics.median(one["share"] for one in told),
            "processor_share": statistics.median(with_saves) / statistics.median(without) - 1}


def drop(files):
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def dd(files, target, *options, at_once=False, nice="nice -n 10 "):
    """One file after the other, or all at once and niced like the thread of a run that writes."""
    nice = nice if at_once else ""
    commands = [f"{nice}dd if='{path}' of='{target(path)}' bs=4M status=none {' '.join(options)}" for path in files]
    return run(["sh", "-c", " & ".join(commands) + "; wait" if at_once else " && ".join(commands)])[0]


def speed(program, folder, rounds):
    place = glob.glob(os.path.join(folder, "saved", "checkpoints", "step-*"))[0]
    files = sorted(glob.glob(os.path.join(place, "*.safetensors")))
    copies = os.path.join(folder, "copies")
    os.makedirs(copies)
    times = {name: {"ours_s": [], "dd_s": []} for name in SPEEDS}

    def note(name, ours, theirs):
        times[name]["ours_s"].append(ours)
        times[name]["dd_s"].append(theirs)

    def verify():
        return run([program, "checkpoint", "verify", place])[0]

    def reshard():
        shutil.rmtree(os.path.join(folder, "again"), ignore_errors=True)
        return run([program, "checkpoint", "reshard", place, "--world", str(RANKS), "-o", os.path.join(folder, "again")])[0]

    def save():
        """Seconds of one save."""
        _, _, megabytes, rate, _ = map(float, TOLD.search(train(program, folder, "saver", SAVES, 1, 1, 8, 0)[2]).groups())
        return megabytes / rate / SAVES

    def copy(at_once=False):
        for path in glob.glob(os.path.join(copies, "*")):
            os.unlink(path)
        return dd(files, lambda path: os.path.join(copies, os.path.basename(path)), "conv=fsync", at_once=at_once)

    def cold(action):
        drop(files)
        return action()

    def read():
        return dd(files, lambda _: "/dev/null")

    def load():
        """Seconds of rank 0, in a run of one more step."""
        step = int(place.rsplit("-", 1)[1])
        command, options = command_of(program, folder, "loader", step + 1, 0, 1, 8, begin=("--resume", place))
        drop(files)
        return float(LOADED.search(run(command, **options)[2]).group(1))

    def read_at_once():
        return dd(files, lambda _: "/dev/null", at_once=True, nice="")

    verify()
    for _ in range(rounds):
        note("cached", verify(), read())
        note("save", save(), statistics.mean(copy(at_once=True) for _ in range(SAVES)))
        note("rewrite", reshard(), copy())
        note("load", load(), cold(read_at_once))
        note("read", cold(verify), cold(read))
    size = sum(os.path.getsize(path) for path in files)
    for one in times.values():
        ours, theirs = statistics.median(one["ours_s"]), statistics.median(one["dd_s"])
        one.update(ours_median_s=ours, dd_median_s=theirs, of_dd=theirs / ours)
    return {"size_bytes": size, **times}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--steps", type=int, default=50)
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    program = os.path.abspath(options.program)
    # Not in memory, as /tmp may be.
    with tempfile.TemporaryDirectory(prefix="shardscope_checkpoints_", dir="/var/tmp") as folder:
        with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as file:
            file.write(" ".join(f"word {i % 97} and {i * 7 % 1013}" for i in range(50000)))
        result = {"schema": "shardscope.bench_checkpoints/1", "cost": cost(program, folder, options.steps, options.rounds)}
        result["speed"] = speed(program, folder, options.rounds)
    if options.json:
        print(json.dumps(result))
        return 0
    saving = result["cost"]
    print(f"saving every {EVERY} of {options.steps} steps: {100 * saving['told_share']:.2f}% of the run, as it counts itself; "
          f"processor time of all ranks {100 * saving['processor_share']:+.1f}%")
    leaves = max(saving["leaves"], key=lambda one: one["leaves_s"])
    print(f"SIGTERM: ended after {leaves['leaves_s']:.1f} s at most, where a step took {leaves['step_s']:.1f} s")
    for name in SPEEDS:
        one = result["speed"][name]
        print(f"{name}: {one['ours_median_s']:.3f} s for {result['speed']['size_bytes'] / 1e6:.0f} MB, dd {one['dd_median_s']:.3f} s: "
              f"{100 * one['of_dd']:.0f}% of its speed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
