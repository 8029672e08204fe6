#!/usr/bin/env python3
"""Training on the CPU beside the machine's limit and beside what a user would run instead.

usage: cpu.py SHARDSCOPE GEMM_RATE [--peer PYTHON BENCH_PYTORCH] [--llm-c PROGRAM] [--rounds N] [--only TEXT] [--results FILE] [--json]

Trains the models of tests/bench/models with FULL_SHARD in two processes of one core each, in float32 and with bfloat16 compute
(our bf16_mixed: FSDP's MixedPrecision(param_dtype=bfloat16, reduce_dtype=float32)), in turn with the peer, and prints medians over
rounds: tokens/s of the whole job, model flops (6 for each parameter in a matrix product and token, and 12 x layers x width x T for
attention), their share of the rate of the fastest matrix products, and resident memory. That rate is oneDNN's for all products of the step,
weighted by flops, each in the layout that it does fastest, on all cores at once, by processor time. Memory is the peak of the sum of the proportional set
sizes of all processes, sampled in a run of its own. Times beside which other processes took more than 3% of the cores are marked
with a star and left out where there are others; --tries measures such a one again at once.

  --peer PYTHON BENCH    also runs PyTorch's FSDP1: BENCH is bench_pytorch.py, PYTHON has torch and transformers
  --llm-c PROGRAM        also runs llm.c's train_gpt2 (B 4, T 64, all cores) beside ours in one process; random weights and tokens
                         are written for it
  --rounds N             how often each side is timed (5); 0: only what --results holds is printed
  --steps N              timed steps of ours in a round (6); --peer-steps N of the peer's (3)
  --tries N              times that a disturbed measurement is made (1)
  --only TEXT            only cases whose name contains TEXT
  --results FILE         rounds in FILE count, too, and new ones are added there: a table may be measured in several sittings
  --json                 one JSON object on standard output instead of the table
"""
import argparse
import array
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from undisturbed import DISTURBED_SHARE, undisturbed

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.dirname(os.path.dirname(HERE))
DATA = [os.path.join(SOURCES, room) for room in ("core", "sim", "backend", "docs")]
PROCESSES = 2
LLM_C = {precision: f"gpt2_124m 4 x 64 {precision}, one process beside llm.c" for precision in ("fp32", "bf16_mixed")}

CASES = [(model, batch, 256, precision)
         for model, batch in (("gpt2_baby", 8), ("gpt2_124m", 4), ("llama_25m", 4), ("gpt2_124m", 1))
         for precision in ("fp32", "bf16_mixed")]
PEER_DTYPE = {"fp32": "fp32", "bf16_mixed": "bf16"}


def name_of(case):
    model, batch, seq, precision = case
    return f"{model} {batch} x {seq} {precision}"


def folder_of(model):
    return os.path.join(HERE, "models", model)


def flops_per_token(model, seq):
    """6 for each parameter in a matrix product, and 12 x layers x width x T."""
    with open(os.path.join(folder_of(model), "config.json")) as file:
        config = json.load(file)
    if config["model_type"] == "gpt2":
        layers, width = config["n_layer"], config["n_embd"]
        block = 12 * width * width
    else:
        layers, width = config["num_hidden_layers"], config["hidden_size"]
        heads = config["num_attention_heads"] + config["num_key_value_heads"]
        block = 2 * width * heads * config["head_dim"] + 3 * width * config["intermediate_size"]
    return 6 * (layers * block + config["vocab_size"] * width) + 12 * layers * width * seq


class Watched:
    """A command with everything that it starts, and the peak of the sum of their proportional set sizes."""

    def __init__(self, command, sampled):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.peak = 0
        self.sampler = threading.Thread(target=self.sample)
        if sampled:
            self.sampler.start()

    def sample(self):
        while self.process.poll() is None:
            self.peak = max(self.peak, sum(proportional_bytes(pid) for pid in members(self.process.pid)))
            time.sleep(0.05)

    def output(self):
        text, errors = self.process.communicate()
        if self.sampler.ident:
            self.sampler.join()
        if self.process.returncode != 0:
            sys.exit(f"cpu: {' '.join(self.process.args)}: {errors.strip()[-2000:] or self.process.returncode}")
        return text


def members(session):
    """Processes of the session."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == session:
                yield int(pid)
        except OSError:
            pass  # it has ended


def proportional_bytes(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0  # it has ended


def run(command, sampled=False):
    watched = Watched(command, sampled)
    text = watched.output()
    return text, watched.peak


def train(options, arguments, steps, sampled=False):
    """Ours: tokens/s of a steady step, and the peak of memory."""
    with tempfile.TemporaryDirectory() as folder:
        text, peak = run([options.program, "train", "--data", *DATA, "--steps", str(steps + 2), "--profile-steps", str(steps),
                          "--device", "cpu", "-o", os.path.join(folder, "run"), "--json", "--quiet", *arguments], sampled)
        with open(os.path.join(folder, "run", "summary.json")) as file:
            return json.load(file)["tokens_per_s"], peak


def train_ours(options, case, steps, sampled=False):
    model, batch, seq, precision = case
    return train(options, ["--model", folder_of(model), "--ranks", str(PROCESSES), "--strategy", "full_shard", "--precision", precision,
                           "--batch", str(batch), "--seq", str(seq)], steps, sampled)


def train_peer(options, case, steps, sampled=False):
    model, batch, seq, precision = case
    python, bench = options.peer
    text, peak = run([python, bench, "--config", os.path.join(folder_of(model), "config.json"), "--strategy", "fsdp1_full", "--world",
                      str(PROCESSES), "--batch", str(batch), "--seq", str(seq), "--dtype", PEER_DTYPE[precision], "--steps",
                      str(steps), "--warmup", "1"], sampled)
    return json.loads(text)["tokens_per_second"], peak


def gemm_rate(options, case):
    """The sum over cores of what each reaches while the others are at it, too."""
    model, batch, seq, precision = case
    command = [options.gemm_rate, folder_of(model), str(batch), str(seq), precision]
    cores = sorted(os.sched_getaffinity(0))[:PROCESSES]
    started = [subprocess.Popen(["taskset", "-c", str(core), *command], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "OMP_NUM_THREADS": "1"}) for core in cores]
    answers = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"cpu: {' '.join(command)} failed")
    return sum(json.loads(answer)["flops_per_s"] for answer in answers)


# --- llm.c ---------------------------------------------------------------------------------------------


def write_llm_c_inputs(folder):
    """A GPT-2 of 124 M parameters with random weights, and random tokens, as train_gpt2.c reads them."""
    draw = random.Random(1)
    some = array.array("f", (draw.gauss(0, 0.02) for _ in range(65_537)))
    with open(os.path.join(folder, "gpt2_124M.bin"), "wb") as file:
        array.array("i", [20240326, 3, 1024, 50257, 12, 12, 768, 50304] + [0] * 248).tofile(file)
        left = 124_475_904
        while left > 0:
            some[:min(left, len(some))].tofile(file)
            left -= len(some)
    data = os.path.join(folder, "dev", "data", "tinyshakespeare")
    os.makedirs(data)
    tokens = array.array("H", (draw.randrange(50257) for _ in range(100_000)))
    for part in ("train", "val"):
        with open(os.path.join(data, f"tiny_shakespeare_{part}.bin"), "wb") as file:
            array.array("i", [20240520, 1, len(tokens)] + [0] * 253).tofile(file)
            tokens.tofile(file)


def train_llm_c(options, folder, steps):
    """tokens/s of the median of its first steps after the first; it is stopped then."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    process = subprocess.Popen(["stdbuf", "-oL", os.path.abspath(options.llm_c)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    times = []
    for line in process.stdout:
        found = re.match(r"step \d+: train loss .* \(took ([\d.]+) ms\)", line)
        if found:
            times.append(float(found.group(1)) / 1e3)
        if len(times) > steps:
            break
    process.kill()
    process.wait()
    if len(times) <= steps:
        sys.exit("cpu: llm.c's program ended too soon")
    return 4 * 64 / statistics.median(times[1:])


def train_single(options, precision):
    return train(options, ["--model", folder_of("gpt2_124m"), "--ranks", "1", "--strategy", "no_shard", "--precision", precision, "--batch",
                           "4", "--seq", "64"], options.steps)[0]


# --- rounds --------------------------------------------------------------------------------------------


def time_side(options, result, side, function, *arguments):
    print(f"  {side}", file=sys.stderr)
    value, others = undisturbed(function, *arguments, tries=options.tries)
    result.setdefault(side, []).append({"value": value, "others": others})


def measure_round(options, results, case):
    result = results.setdefault(name_of(case), {})
    if "gemm" not in result:  # once: it goes by processor time
        time_side(options, result, "gemm", gemm_rate, options, case)
    if "ours_bytes" not in result:
        result["ours_bytes"] = train_ours(options, case, 2, sampled=True)[1]
    time_side(options, result, "ours", lambda: train_ours(options, case, options.steps)[0])
    if options.peer:
        if "peer_bytes" not in result:
            result["peer_bytes"] = train_peer(options, case, 1, sampled=True)[1]
        time_side(options, result, "peer", lambda: train_peer(options, case, options.peer_steps)[0])


def measure_llm_c_round(options, results, folder):
    """Its program has one precision: the same measurement stands beside both of ours."""
    both = [(precision, results.setdefault(name, {})) for precision, name in LLM_C.items()]
    for precision, result in both:
        time_side(options, result, "ours", train_single, options, precision)
    time_side(options, both[0][1], "peer", train_llm_c, options, folder, 2)
    both[1][1]["peer"] = both[0][1]["peer"]


def is_disturbed(measurement):
    return measurement["others"] > DISTURBED_SHARE


def measure(options, results):
    cases = [case for case in CASES if options.only in name_of(case)]
    with tempfile.TemporaryDirectory() as folder:
        with_llm_c = options.llm_c and any(options.only in name for name in LLM_C.values())
        if with_llm_c:
            write_llm_c_inputs(folder)
        for round_ in range(options.rounds):
            for case in sorted(cases, key=lambda case: len(results.get(name_of(case), {}).get("ours", []))):
                print(f"round {round_ + 1} of {options.rounds}: {name_of(case)}", file=sys.stderr)
                measure_round(options, results, case)
                save(options, results)
            if with_llm_c:
                print(f"round {round_ + 1} of {options.rounds}: beside llm.c", file=sys.stderr)
                measure_llm_c_round(options, results, folder)
                save(options, results)


def save(options, results):
    if options.results:
        with open(options.results, "w") as file:
            json.dump(results, file, indent=1)


# --- the answer ----------------------------------------------------------------------------------------


def median_of(result, side):
    """Over the rounds that were not disturbed, where there are any; None without a round."""
    rounds = result.get(side, [])
    calm = [r for r in rounds if not is_disturbed(r)]
    return statistics.median(r["value"] for r in calm or rounds) if rounds else None


def ratio(a, b):
    return a / b if a is not None and b else None


def judged(name, result):
    """The medians of one case, and what they are worth."""
    ours, peer, gemm = (median_of(result, side) for side in ("ours", "peer", "gemm"))
    known = next((case for case in CASES if name_of(case) == name), None)
    flops = ours * flops_per_token(known[0], known[2]) if known and ours else None
    return {"case": name, "tokens_per_s": ours, "model_flops_per_s": flops, "gemm_flops_per_s": gemm, "gemm_share": ratio(flops, gemm),
            "peer_tokens_per_s": peer, "speed_ratio": ratio(ours, peer), "bytes": result.get("ours_bytes"),
            "peer_bytes": result.get("peer_bytes"), "memory_ratio": ratio(result.get("ours_bytes"), result.get("peer_bytes")),
            "rounds": {side: result[side] for side in ("ours", "peer", "gemm") if side in result}}


def shown(value, form, scale=1.0):
    return "-" if value is None else format(value * scale, form)


def table_of(answers):
    lines = ["| case | tokens/s | model GFLOP/s | GEMM GFLOP/s | share | peer tokens/s | ratio | PSS MiB | peer MiB | ratio | rounds, of them disturbed |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for a in answers:
        rounds = [r for side in ("ours", "peer") for r in a["rounds"].get(side, [])]
        lines.append(f"| {a['case']} | {shown(a['tokens_per_s'], '.0f')} | {shown(a['model_flops_per_s'], '.0f', 1e-9)} | "
                     f"{shown(a['gemm_flops_per_s'], '.0f', 1e-9)} | {shown(a['gemm_share'], '.0%')} | {shown(a['peer_tokens_per_s'], '.0f')} | "
                     f"{shown(a['speed_ratio'], '.2f')} | {shown(a['bytes'], '.0f', 2 ** -20)} | {shown(a['peer_bytes'], '.0f', 2 ** -20)} | "
                     f"{shown(a['memory_ratio'], '.2f')} | {len(a['rounds'].get('ours', []))} + {len(a['rounds'].get('peer', []))}, "
                     f"{sum(map(is_disturbed, rounds))} |")
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("gemm_rate")
    parser.add_argument("--peer", nargs=2)
    parser.add_argument("--llm-c")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--peer-steps", type=int, default=3)
    parser.add_argument("--tries", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--results")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rounds < 0 or options.steps < 1 or options.peer_steps < 1 or options.tries < 1:
        parser.error("rounds, steps and tries are counts")
    return options


def main():
    options = parse()
    results = {}
    if options.results and os.path.exists(options.results):
        with open(options.results) as file:
            results = json.load(file)
    measure(options, results)
    answers = [judged(name, result) for name, result in results.items() if options.only in name]
    print(json.dumps({"schema": "shardscope.cpu_bench/1", "cases": answers}) if options.json else table_of(answers))


if __name__ == "__main__":
    main()
