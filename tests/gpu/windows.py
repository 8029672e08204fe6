#!/usr/bin/env python3
"""What the profiler sees on this machine: windows in the middle of a training, every operation's kernels, the accounting,
what recording costs, and what NCCL says of two ranks on the one GPU. Writes REPORT/profile.json after every figure; the
windows' comparisons stay in REPORT/profile. Needs Python alone."""
import argparse
import gzip
import json
import pathlib
import statistics
import subprocess
import sys
import time

from bench import OutOfTime, write_tokens

MOST_COST_SHARE = {"kernels": 0.01, "all": 0.03}  # of a step's time, by what is recorded
COST_WINDOW, COST_EVERY = 10, 20
ONE_RANK = {"model": "gpt2_124m", "batch": 16, "seq": 1024, "precision": "bf16_mixed"}
TWO_RANKS = {"model": "gpt2_dry", "batch": 2, "seq": 16, "precision": "fp32"}


class ProfileBench:
    def __init__(self, options):
        self.options = options
        self.deadline = time.monotonic() + options.limit_s
        self.device = "cpu" if options.dry else "cuda"
        self.folder = options.report / "profile"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.result = {"schema": "shardscope.gpu_profile/1", "device": self.device, "windows": [], "cost": {},
                       "nccl": None, "failed": []}

    def save(self):
        part = self.options.report / "profile.json.part"
        part.write_text(json.dumps(self.result, indent=1))
        part.rename(self.options.report / "profile.json")

    def guarded(self, what, action):
        """A fact that does not hold, or cannot be seen, costs that fact alone."""
        try:
            why = "no time was left" if self.deadline - time.monotonic() < 5 else action()
        except OutOfTime:
            why = "no time was left"
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:600]
        if why:
            self.result["failed"].append({"what": what, "why": why})
        self.save()

    def shardscope(self, *arguments, most_s=120):
        limit = min(most_s, self.deadline - time.monotonic())
        if limit < 3:
            raise OutOfTime()
        done = subprocess.run([self.options.programs / "shardscope", *map(str, arguments)], capture_output=True, text=True,
                              timeout=limit)
        if done.returncode != 0:
            raise RuntimeError(f"shardscope {arguments[0]}: exit code {done.returncode}: {done.stderr.strip()[-400:]}")
        return done.stdout

    def train(self, name, kind, ranks, steps, windows):
        """The run's folder."""
        kind = {**(TWO_RANKS if self.options.dry else kind)}
        tokens = self.folder / f"{name}.tokens.bin"
        write_tokens(tokens, (steps + 1) * kind["batch"] * ranks * kind["seq"] + 1)
        job = {"data": str(tokens), "tokens": "uint16", "steps": steps, "device": self.device, "ranks": ranks,
               "strategy": "full_shard" if ranks > 1 else "no_shard", "save_model": False, "clip": 1.0, "timeout": "60 s",
               "lr": {"kind": "constant", "peak": 1e-5}, "profile": windows, **kind,
               "model": str(self.options.bundle / "models" / kind["model"])}
        file, run = self.folder / f"{name}.json", self.folder / name
        file.write_text(json.dumps(job))
        self.shardscope("train", file, "--json", "--quiet", "-o", run)
        tokens.unlink()
        return run

    def check_window(self, ranks):
        """Every rank left the window's trace, whose times sum, and the comparison says the largest differences."""
        name = f"window.{ranks}"
        run = self.train(name, ONE_RANK if ranks == 1 else TWO_RANKS, ranks, 16, {"start": 8, "steps": 4})
        window = run / "profiles" / "8-11"
        comparison = json.loads((window / "comparison.json").read_text())
        report = json.loads(self.shardscope("report", window, "--json"))
        traces = [read_trace(window / f"trace.{rank}.json.gz") for rank in range(ranks)]
        row = {"ranks": ranks, "recording": [trace["shardscope"].get("recording") for trace in traces],
               "operations_with_spans": [len(set().union(*operations_by_step(trace).values())) for trace in traces],
               "ranks_time": report["ranks"], "differences": comparison}
        self.result["windows"].append(row)
        for rank in report["ranks"]:
            parts = ("compute_ns", "exposed_communication_ns", "exposed_copy_ns", "idle_ns")
            if sum(rank[part] for part in parts) != rank["span_ns"]:
                return f"rank {rank['rank']}: the parts of its time do not sum to {rank['span_ns']} ns"
        for rank, trace in enumerate(traces):
            why = self.missing_operations(self.folder / f"{name}.json", rank, trace)
            if why:
                return why
        return None

    def missing_operations(self, job, rank, trace):
        """Every operation of the schedule for which a device has something to do has a span in each of the four steps."""
        schedule = json.loads(self.shardscope("schedule", "--job", job, "--rank", rank, "--device", self.device, "--json"))
        expected = {operation["id"] for operation in schedule["operations"] if operation["kind"] != "host"}
        by_step = operations_by_step(trace)
        if sorted(by_step) != [8, 9, 10, 11]:
            return f"rank {rank}: operations have spans in the steps {sorted(by_step)}, not in 8 to 11"
        for step, operations in by_step.items():
            if operations != expected:
                return (f"rank {rank}, step {step}: {len(operations & expected)} of the schedule's {len(expected)} operations "
                        f"have spans, and {len(operations - expected)} others; first lacking: {sorted(expected - operations)[:5]}")
        return None

    def check_cost(self, records):
        """Windows come and go in one run; medians over the steps in them and between them. The first two steps of either
        stretch are left out, so that what opening, closing and writing a window cost is outside: the share is that of
        recording alone."""
        rounds = 2 if self.options.dry else 5
        steps = COST_EVERY * rounds + COST_EVERY // 2
        run = self.train(f"cost.{records}", ONE_RANK, 1, steps, {"start": COST_EVERY // 2 + 1, "steps": COST_WINDOW,
                                                                 "every": COST_EVERY, "records": records})
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        times, by_round = {True: [], False: []}, {}
        for row in rows[COST_EVERY // 2:]:
            turn, place = divmod(row["step"] - COST_EVERY // 2 - 1, COST_EVERY)
            if place % COST_WINDOW > 1:
                in_window = place < COST_WINDOW
                times[in_window].append(1 / row["tokens_per_s"])
                by_round.setdefault(turn, {True: [], False: []})[in_window].append(1 / row["tokens_per_s"])
        share = statistics.median(times[True]) / statistics.median(times[False]) - 1
        # How far rounds differ: each window beside the steps behind it.
        shares = sorted(statistics.median(both[True]) / statistics.median(both[False]) - 1 for both in by_round.values()
                        if both[True] and both[False])
        passed = share <= MOST_COST_SHARE[records]
        self.result["cost"][records] = {"windows": rounds, "steps": len(times[True]), "cost_share": share,
                                        "lowest_share": shares[0], "highest_share": shares[-1], "passed": passed,
                                        "outside": "opening, closing and writing the windows"}
        return None if self.options.dry or passed else f"recording {records} costs {share:.1%} of a step"

    def check_nccl(self):
        """Algorithm and protocol of each collective, and its steps over the sockets between the two ranks."""
        window = self.folder / "window.2" / "profiles" / "8-11"
        trace = read_trace(window / "trace.0.json.gz")
        collectives = [facts for facts in trace["shardscope"]["operations"] if facts["kind"].startswith(("all_", "reduce_"))]
        told = [facts for facts in collectives if facts.get("algorithm")]
        steps = sum(event["args"]["shardscope"].get("measures", {}).get("network_steps", 0) for event in trace["traceEvents"]
                    if "shardscope" in event.get("args", {}))
        choices = sorted({(facts["algorithm"], facts["protocol"], facts["channels"]) for facts in told})
        self.result["nccl"] = {"collectives": len(collectives), "told": len(told), "choices": choices, "network_steps": steps}
        if len(told) < len(collectives):
            return f"NCCL said of {len(told)} of {len(collectives)} collectives how they were moved"
        return None if steps > 0 else "no step over the network was counted"

    def run(self):
        self.save()
        self.guarded("a window of one rank", lambda: self.check_window(1))
        self.guarded("a window of two ranks", lambda: self.check_window(2))
        if not self.options.dry:
            self.guarded("what NCCL says", self.check_nccl)
        for records in MOST_COST_SHARE:
            self.guarded(f"what recording {records} costs", lambda: self.check_cost(records))


def read_trace(path):
    with gzip.open(path, "rt") as file:
        return json.load(file)


def operations_by_step(trace):
    """Which operations of the schedule have a span on the device, by the step."""
    by_step = {}
    for event in trace["traceEvents"]:
        own = event.get("args", {}).get("shardscope", {})
        if event["ph"] == "X" and own.get("class") != "host" and "operation" in own:
            by_step.setdefault(own["step"], set()).add(own["operation"])
    return by_step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--report", type=pathlib.Path, required=True)
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    for name in ("bundle", "programs", "report"):
        setattr(options, name, getattr(options, name).resolve())
    bench = ProfileBench(options)
    bench.run()
    print(json.dumps(bench.result["failed"]))
    return 1 if bench.result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
