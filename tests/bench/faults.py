#!/usr/bin/env python3
"""Kills training jobs at every kind of moment, lets them go on, and counts what was lost.

usage: faults.py SHARDSCOPE FILE_FAULTS [--kills N] [--restarts N] [--seed N] [--json]

  --kills N     SIGKILLs at random moments of launch, load, step and save, of the launcher or of one rank (300). After each the job
                is started again with --resume, until it is done; then the next one begins.
  --restarts N  ranks killed at random moments of one job of 500 steps that restarts by itself, --max-restarts (50)
  --seed N      of the moments (1)

Between these it kills rank 0, and then rank 1, at each of the calls by which a save changes files, one run a call (FILE_FAULTS is the
library that does so). Counted are:
  corrupt   checkpoints that have a checkpoint's name and are not whole (`shardscope checkpoint verify` reads every byte)
  lost      checkpoints that were there before the kill, and are not after it, though none newer is
  orphans   processes of a job that are there 10 s after its launcher has gone
  differ    jobs whose losses are not, bit for bit, those of the undisturbed run
Exit code 1 if any is not 0.
"""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 64, "n_embd": 64,
          "n_layer": 3, "n_head": 4, "n_inner": None, "activation_function": "gelu_new", "initializer_range": 0.1,
          "layer_norm_epsilon": 1e-05, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": True}
RANKS = 2


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Jobs:
    def __init__(self, program, faults, folder):
        self.program, self.faults, self.folder = os.path.abspath(program), os.path.abspath(faults), folder
        self.corrupt, self.lost, self.orphans, self.differ = [], [], [], []
        os.mkdir(os.path.join(folder, "model"))
        write(os.path.join(folder, "model", "config.json"), json.dumps(CONFIG))
        write(os.path.join(folder, "text.txt"), " ".join(f"word {i % 97} and {i * 7 % 1013}" for i in range(20000)))

    def job(self, name, steps, every, **more):
        path = os.path.join(self.folder, name + ".json")
        write(path, json.dumps({"model": "model", "data": "text.txt", "steps": steps, "batch": 2, "seq": 32, "ranks": RANKS,
                                "threads": 1, "strategy": "full_shard", "device": "cpu", "save_model": False, "timeout": "20 s",
                                "lr": {"kind": "hf_cosine", "peak": 1e-3, "warmup": 5, "total": steps},
                                "checkpoint": {"every": every, "keep": 2}, "output": name} | more))
        return path

    def start(self, job, *options, **variables):
        return subprocess.Popen([self.program, "train", job, "--quiet", *options], cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, env=os.environ | variables | {"HOME": self.folder})

    def finish(self, job, *options, **variables):
        process = self.start(job, *options, **variables)
        errors = process.communicate(timeout=600)[1]
        return process.returncode, errors

    def run_folder(self, job):
        return job.removesuffix(".json")

    def losses(self, job):
        """Step, loss and norm as they stand in metrics.jsonl: text, so that every bit counts."""
        with open(os.path.join(self.run_folder(job), "metrics.jsonl"), encoding="utf-8") as file:
            return [re.match(r'\{("step": \d+, "loss": [^,]+, "gradient_norm": [^,]+)', line).group(1) for line in file]

    def steps(self, job):
        folder = os.path.join(self.run_folder(job), "checkpoints")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d{8}", name))

    def processes(self, job):
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if os.fsencode(job) in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
        return found

    def look_after(self, job, before, what):
        """What is counted after a kill; `before`: the checkpoints that were there when it came."""
        end = time.monotonic() + 10
        while (left := self.processes(job)) and time.monotonic() < end:
            time.sleep(0.02)
        if left:
            self.orphans.append(f"{what}: {left}")
            for process in left:
                os.kill(process, signal.SIGKILL)
        now = self.steps(job)
        if before and (not now or now[-1] < before[-1]):
            self.lost.append(f"{what}: step {before[-1]}")
        if not now:
            return
        verified = subprocess.run([self.program, "checkpoint", "verify", "--json", self.run_folder(job)], capture_output=True,
                                  text=True, check=False)
        if verified.returncode != 0:
            self.corrupt.append(f"{what}: {verified.stdout}{verified.stderr}".strip())

    def compare(self, job, expected, what):
        found = self.losses(job)
        if found != expected:
            at = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
            self.differ.append(f"{what}: {len(found)} steps, the first that differs is {at + 1}")


def expected_of(jobs, name, steps):
    job = jobs.job(name, steps, 0)
    code, errors = jobs.finish(job)
    if code != 0:
        sys.exit(f"faults.py: the undisturbed run failed with {code}: {errors}")
    return jobs.losses(job)


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def kill_at_random(jobs, kills, rng):
    """Kills the launcher or one of its ranks at a random moment of what an attempt takes, again and again."""
    steps, every = 60, 5
    begin = time.monotonic()
    expected = expected_of(jobs, "undisturbed", steps)
    longest = max(0.3, 1.5 * (time.monotonic() - begin))
    done = by_launcher = finished = attempts = 0
    job, resume = None, False
    while done < kills:
        if job is None:
            job, resume = jobs.job(f"random_{finished}", steps, every), False
        attempts += 1
        process = jobs.start(job, *(["--resume"] if resume else []))
        # Short waits are as likely as long ones, or the launch would be hit alone on a slow machine.
        time.sleep(rng.uniform(0, longest))
        before = jobs.steps(job)
        children = [p for p in jobs.processes(job) if p != process.pid]
        if process.poll() is None:
            target = rng.choice([process.pid, *children])
            by_launcher += target == process.pid
            try:
                os.kill(target, signal.SIGKILL)
                done += 1
            except ProcessLookupError:
                pass
        process.communicate(timeout=120)
        jobs.look_after(job, before, f"kill {done}")
        # A rank may have died in its last moment, after which the job counts as done.
        resume = bool(jobs.steps(job))
        if process.returncode == 0 or attempts % 40 == 0:
            code, errors = (0, "") if process.returncode == 0 else jobs.finish(job, *(["--resume"] if resume else []))
            if code != 0:
                jobs.differ.append(f"kill {done}: it does not go on: {errors}")
            jobs.compare(job, expected, f"kill {done}")
            finished, job = finished + 1, None
        progress(f"{done} of {kills} kills, {finished} jobs ended")
    if job is not None:
        code, errors = jobs.finish(job, *(["--resume"] if resume else []))
        if code != 0:
            jobs.differ.append(f"the last job does not go on: {errors}")
        jobs.compare(job, expected, "last job")
        finished += 1
    return {"kills": done, "of_launcher": by_launcher, "jobs_ended": finished}


def kill_at_every_call(jobs):
    """One run for each call of a rank that changes a file below checkpoints/ in three saves."""
    steps, every = 6, 2
    expected = expected_of(jobs, "undisturbed_calls", steps)
    result = {}
    for rank in range(RANKS):
        count = os.path.join(jobs.folder, f"count_{rank}")
        job = jobs.job(f"counted_{rank}", steps, every)
        preload = {"LD_PRELOAD": jobs.faults}
        code, errors = jobs.finish(job, **preload, SHARDSCOPE_FILE_FAULT=f"count,rank={rank}",
                                   SHARDSCOPE_FILE_FAULT_COUNT=count)
        if code != 0:
            sys.exit(f"faults.py: the counted run failed with {code}: {errors}")
        with open(count, encoding="utf-8") as file:
            calls = int(file.read().split()[-1])
        jobs.compare(job, expected, "counted run")
        struck = 0
        for number in range(1, calls + 1):
            what = f"call {number} of rank {rank}"
            job = jobs.job(f"call_{rank}_{number}", steps, every)
            code, errors = jobs.finish(job, **preload, SHARDSCOPE_FILE_FAULT=f"kill,number={number},rank={rank}")
            struck += code == 4
            jobs.look_after(job, [], what)
            code, errors = jobs.finish(job, *(["--resume"] if jobs.steps(job) else []))
            if code != 0:
                jobs.differ.append(f"{what}: it does not go on: {errors}")
                continue
            jobs.compare(job, expected, what)
            progress(f"rank {rank}: {number} of {calls} calls")
        result[f"rank_{rank}"] = {"calls": calls, "killed": struck}
    return result


def restart_often(jobs, restarts, rng):
    steps = 500
    expected = expected_of(jobs, "undisturbed_long", steps)
    job = jobs.job("restarts", steps, 5)
    process = jobs.start(job, "--max-restarts", str(restarts + 5))
    killed = 0
    while killed < restarts and process.poll() is None:
        # So late that the run comes a few saves further each time.
        reached = (jobs.steps(job) or [0])[-1]
        end = time.monotonic() + 60
        while process.poll() is None and (jobs.steps(job) or [0])[-1] < min(reached + 5, steps - 5) and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.05))
        ranks = [p for p in jobs.processes(job) if p != process.pid]
        if ranks and process.poll() is None:
            try:
                os.kill(rng.choice(ranks), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        progress(f"{killed} of {restarts} restarts, step {reached}")
    errors = process.communicate(timeout=600)[1]
    jobs.look_after(job, [], "restarts")
    if process.returncode != 0:
        jobs.differ.append(f"restarts: exit code {process.returncode}: {errors[-2000:]}")
    jobs.compare(job, expected, "restarts")
    return {"steps": steps, "killed": killed}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "), add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("program", nargs="?")
    parser.add_argument("faults", nargs="?")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--restarts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.help or not options.faults:
        print(__doc__)
        return 0 if options.help else 2
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="shardscope_faults_") as folder:
        jobs = Jobs(options.program, options.faults, folder)
        begin = time.monotonic()
        result = {"schema": "shardscope.bench_faults/1", "at_every_call": kill_at_every_call(jobs),
                  "at_random": kill_at_random(jobs, options.kills, rng) if options.kills else None,
                  "restarts": restart_often(jobs, options.restarts, rng) if options.restarts else None}
        counted = {"corrupt": jobs.corrupt, "lost": jobs.lost, "orphans": jobs.orphans, "differ": jobs.differ}
        result |= {name: len(lines) for name, lines in counted.items()} | {"elapsed_s": round(time.monotonic() - begin, 1)}
    progress("")
    for name, lines in counted.items():
        for line in lines:
            print(f"{name}: {line}", file=sys.stderr)
    if options.json:
        print(json.dumps(result))
    else:
        calls = ", ".join(f"{value['killed']} of {value['calls']} calls of {name.replace('_', ' ')}"
                          for name, value in result["at_every_call"].items())
        print(f"killed at {calls}")
        if result["at_random"]:
            print("killed at {kills} random moments ({of_launcher} times the launcher), {jobs_ended} jobs ended".format(**result["at_random"]))
        if result["restarts"]:
            print("{killed} restarts in one job of {steps} steps".format(**result["restarts"]))
        print(", ".join(f"{len(lines)} {name}" for name, lines in counted.items()), f"in {result['elapsed_s']} s")
    return 1 if any(counted.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
