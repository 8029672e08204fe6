#!/usr/bin/env python3
"""The measurements of the GPU bundle: training speed beside PyTorch's, sharded code path beside the plain one, predicted
beside measured. Writes REPORT/bench.json after every figure. Needs Python alone; PyTorch only for the peer (peer.py)."""
import argparse
import array
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

PEAK_FLOPS = {"H100": 989.4e12, "H200": 989.4e12, "A100": 312e12}  # bf16, dense; NVIDIA's data sheets
MFU_FORMULA = "(6 N + 6 L C T) per token over the peak; N with the padded vocabulary"
PROFILED_STEPS = 5
WARM_UP_STEPS = 3

# Goals: tokens per second of one H100 (llm.c, llmq; see the project's note). Steps are short enough for the time limit.
MODELS = [
    {"name": "gpt2_124m", "batch": 32, "seq": 1024, "steps": 30, "goal": 470e3, "peer": True},
    {"name": "gpt2_1558m", "batch": 8, "seq": 1024, "steps": 18, "goal": 57e3, "peer": False},
    {"name": "gpt2_350m", "batch": 16, "seq": 1024, "steps": 24, "goal": 195e3, "peer": True},
]
DRY_MODELS = [{"name": "gpt2_dry", "batch": 1, "seq": 16, "steps": 10, "goal": None, "peer": True}]


class OutOfTime(Exception):
    pass


class Bench:
    def __init__(self, options):
        self.bundle, self.programs = options.bundle, options.programs
        self.report, self.dry = options.report, options.dry
        self.deadline = time.monotonic() + options.limit_s
        self.device = "cpu" if self.dry else "cuda"
        self.result = {"schema": "shardscope.gpu_bench/1", "mfu_formula": MFU_FORMULA, "models": [], "failed": []}

    def save(self):
        part = self.report / "bench.json.part"
        part.write_text(json.dumps(self.result, indent=1))
        part.rename(self.report / "bench.json")

    def left_s(self):
        return self.deadline - time.monotonic()

    def shardscope(self, *arguments, most_s):
        """Output of one of our commands; raises where it fails or there is no time for it."""
        limit = min(most_s, self.left_s())
        if limit < 3:
            raise OutOfTime()
        done = subprocess.run([self.programs / "shardscope", *map(str, arguments)], capture_output=True, text=True,
                              timeout=limit)
        if done.returncode != 0:
            raise RuntimeError(f"shardscope {arguments[0]}: exit code {done.returncode}: {done.stderr.strip()[-400:]}")
        return done.stdout

    def guarded(self, what, action):
        """A figure that cannot be had costs that figure alone."""
        try:
            return action()
        except OutOfTime:
            self.result["failed"].append({"what": what, "why": "no time was left"})
        except Exception as error:
            self.result["failed"].append({"what": what, "why": f"{type(error).__name__}: {error}"[:600]})
        finally:
            self.save()
        return None


def device_peak():
    try:
        name = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True,
                              text=True).stdout
    except OSError:
        return None
    return next((peak for part, peak in PEAK_FLOPS.items() if part in name), None)


def write_tokens(path, count):
    """Headerless uint16, below GPT-2's vocabulary; always the same."""
    random.seed(1)
    some = array.array("H", (random.randrange(256) for _ in range(65536)))
    with open(path, "wb") as file:
        for _ in range(count // len(some) + 1):
            some.tofile(file)


class ModelBench:
    """All figures of one model."""

    def __init__(self, bench, model):
        self.bench, self.model = bench, model
        self.folder = bench.report / model["name"]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = bench.bundle / "models" / model["name"]
        self.tokens_per_step = model["batch"] * model["seq"]
        self.row = {**model, "tokens_per_step": self.tokens_per_step, "runs": []}
        self.hardware = self.folder / "hardware.json"
        bench.result["models"].append(self.row)

    def prepare(self):
        tokens = self.folder / "tokens.bin"
        write_tokens(tokens, (self.model["steps"] + 1) * self.tokens_per_step + 1)
        job = {"model": str(self.config), "data": str(tokens), "tokens": "uint16", "batch": self.model["batch"],
               "seq": self.model["seq"], "steps": self.model["steps"], "profile_steps": PROFILED_STEPS,
               "precision": "bf16_mixed", "device": self.bench.device, "save_model": False, "clip": 1.0,
               "lr": {"kind": "constant", "peak": 1e-5}}
        (self.folder / "job.json").write_text(json.dumps(job))
        figures = json.loads(self.bench.shardscope("model", "--model", self.config, "--json", most_s=30))
        parameters = figures["model"]["parameter_elements"]
        config = json.loads((self.config / "config.json").read_text())
        self.flops_per_token = 6 * parameters + 6 * config["n_layer"] * config["n_embd"] * self.model["seq"]
        self.row.update(parameter_elements=parameters, flops_per_token=self.flops_per_token)

    def calibrate(self):
        begin = time.monotonic()
        output = self.bench.shardscope("calibrate", "--device", self.bench.device, "--job", self.folder / "job.json",
                                       "--model-only", "--json", "-o", self.hardware, most_s=60)
        self.row["calibration"] = {**json.loads(output), "elapsed_s": round(time.monotonic() - begin, 1)}

    def speed(self, step_ns):
        rate = self.tokens_per_step / (step_ns * 1e-9)
        peak = device_peak()
        return {"median_step_ns": step_ns, "tokens_per_s": rate,
                "mfu_share": self.flops_per_token * rate / peak if peak else None}

    def train(self, strategy):
        """One run: the median of the steps that nothing was recorded of, and the prediction beside it."""
        run = self.folder / f"{strategy}.{len(self.row['runs'])}"
        cluster = ["--cluster", self.hardware] if self.hardware.exists() else []
        output = json.loads(self.bench.shardscope("train", self.folder / "job.json", "--strategy", strategy, "--json",
                                                  "--quiet", "-o", run, *cluster, most_s=90))
        steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        plain = steps[WARM_UP_STEPS:len(steps) - PROFILED_STEPS]
        step_ns = statistics.median(self.tokens_per_step / step["tokens_per_s"] * 1e9 for step in plain)
        figures = {"strategy": strategy, **self.speed(step_ns), "last_loss": steps[-1]["loss"],
                   "profiled_step_ns": output["profiled"]["step_time_ns"],
                   "memory_profiled": output["profiled"]["memory"]}
        if output["predicted"]:
            predicted = output["predicted"]
            figures["predicted_step_ns"] = predicted["step_time_ns"]
            figures["step_time_error_share"] = (predicted["step_time_ns"] - step_ns) / step_ns
            figures["memory_predicted"] = predicted["memory"]
            figures["bytes_as_predicted"] = all(
                predicted["memory"][key] == output["profiled"]["memory"][key]
                for key in ("peak_allocated_bytes", "arena_bytes", "at_peak", "maximum"))
        self.row["runs"].append(figures)
        return step_ns

    def finish(self, ours, sharded, peer):
        """Medians over the rounds, which were taken in turn."""
        if ours:
            self.row["ours"] = self.speed(statistics.median(ours))
            if self.model["goal"]:
                self.row["share_of_goal"] = self.row["ours"]["tokens_per_s"] / self.model["goal"]
        if ours and sharded:
            self.row["full_shard_slower_share"] = statistics.median(sharded) / statistics.median(ours) - 1
        if peer:
            self.row["peer"].update(self.speed(statistics.median(peer)))
        if ours and peer:
            self.row["ratio_to_peer"] = statistics.median(peer) / statistics.median(ours)


class Peer:
    """PyTorch, started by `run` in good time where it is there."""

    def __init__(self, bench, name):
        self.bench, self.turn = bench, 0
        self.mailbox = bench.report / f"peer.{name}"

    def wait_for(self, name, most_s):
        until = time.monotonic() + min(most_s, self.bench.left_s())
        while time.monotonic() < until:
            if (self.mailbox / name).exists():
                return json.loads((self.mailbox / name).read_text())
            if (self.mailbox / "failed").exists():
                raise RuntimeError((self.mailbox / "failed").read_text())
            time.sleep(0.05)
        raise RuntimeError(f"{self.mailbox.name}: {name} did not come")

    def was_started(self):
        return self.mailbox.exists()

    def is_compiling(self):
        return self.was_started() and not any((self.mailbox / name).exists() for name in ("ready.json", "failed"))

    def ready(self):
        return self.wait_for("ready.json", most_s=60)

    def steps(self, count):
        part = self.mailbox / "part"
        part.write_text(str(count))
        part.rename(self.mailbox / f"go.{self.turn}")
        answer = self.wait_for(f"done.{self.turn}.json", most_s=60)
        self.turn += 1
        return statistics.median(answer["step_ns"])

    def stop(self):
        if self.was_started():
            (self.mailbox / "stop").touch()


def wait_for_peers(bench, models, most_s):
    """Nothing is measured while a peer compiles beside it, on the same processor and GPU."""
    peers = [Peer(bench, model["name"]) for model in models if model["peer"]]
    until = time.monotonic() + min(most_s, bench.left_s())
    while any(peer.is_compiling() for peer in peers) and time.monotonic() < until:
        time.sleep(0.2)


def measure(bench, model):
    one = ModelBench(bench, model)
    name = model["name"]
    if bench.guarded(f"{name}: preparing", lambda: one.prepare() or True) is None:
        return
    bench.guarded(f"{name}: calibration", one.calibrate)
    peer, peer_is_ready = Peer(bench, name), False
    if model["peer"]:
        one.row["peer"] = bench.guarded(f"{name}: peer", peer.ready) if peer.was_started() else None
        peer_is_ready = one.row["peer"] is not None
    ours, sharded, theirs = [], [], []
    for _ in range(2):
        for times, action, wanted in ((ours, lambda: one.train("no_shard"), True),
                                      (theirs, lambda: peer.steps(20), peer_is_ready),
                                      (sharded, lambda: one.train("full_shard"), True)):
            figure = bench.guarded(f"{name}: a round", action) if wanted else None
            if figure is not None:
                times.append(figure)
    peer.stop()
    one.finish(ours, sharded, theirs)
    bench.save()


def measure_grid(bench):
    """The profile of the device by itself, for predictions of other models."""
    output = bench.shardscope("calibrate", "--device", bench.device, "--json", "-o", bench.report / "hardware.json",
                              most_s=90)
    bench.result["calibration"] = json.loads(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--report", type=pathlib.Path, required=True)
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    bench = Bench(options)
    bench.save()
    models = DRY_MODELS if options.dry else MODELS
    wait_for_peers(bench, models, most_s=90)
    for model in models:
        measure(bench, model)
    if not options.dry:
        bench.guarded("calibration over sizes", lambda: measure_grid(bench))
    print(json.dumps(bench.result["failed"]))
    return 1 if bench.result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
