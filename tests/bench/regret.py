#!/usr/bin/env python3
"""How often the prediction would have picked the wrong strategy on this machine, and how much that would have cost.

usage: regret.py SHARDSCOPE [--pipelines] [--rounds N] [--steps N] [--only TEXT] [--keep FOLDER] [--json]

Calibrates this machine for each model and number of processes, then predicts and really trains every case on the CPU backend.
Cases of one model do the same work: as many tokens a step, in the same order. Rounds are interleaved, so that what else the
machine does meets every case alike; a case's measured step time is the median over its steady steps of all rounds. Printed are, by
model: the error of every prediction, the pick (the case predicted to be fastest), its regret (measured time of the pick over
that of the fastest, minus one) and Kendall's tau between predicted and measured order: over all pairs, and over those whose
measured times differ by more than twice their standard errors. The pick and the fastest are trained again until they do, too. A
calibration or training beside which other processes took more than 3% of the cores is run again, twice at most; what stayed
disturbed is marked with a star.

  --pipelines    pipelines of 4 processes in the place of the 16 cases, with what else the machine did before and after
  --rounds N     how often each case is trained (3)
  --more N       how often the pick and the fastest are trained again at most (4)
  --steps N      steps of each training; the first two are not counted (10)
  --only TEXT    only models and cases whose name contains TEXT
  --keep FOLDER  leaves profiles and run folders there, for `shardscope compare`
  --json         one JSON object on standard output instead of the tables
"""
import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from undisturbed import DISTURBED_SHARE, undisturbed

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.dirname(os.path.dirname(HERE))
DATA = [os.path.join(SOURCES, room) for room in ("core", "sim", "backend", "docs")]

# What a step of every case of a model trains on: sequences of the whole job, and their length.
MODELS = {
    "gpt2_5m": {"sequences": 8, "seq": 256},
    "llama_10m": {"sequences": 8, "seq": 128},
}

# Processes, sequences of each in a micro-batch, options. Accumulation follows from the work.
CASES = {
    "gpt2_5m": [
        (1, 8, ["--strategy", "no_shard"]),
        (1, 2, ["--strategy", "no_shard"]),
        (2, 4, ["--strategy", "zero1"]),
        (2, 4, ["--strategy", "full_shard", "--checkpointing", "full"]),
        (2, 1, ["--strategy", "full_shard"]),
        (2, 2, ["--strategy", "shard_grad_op", "--wrap", "none"]),
        (4, 2, ["--strategy", "hybrid_shard", "--mesh", "replicate=2,shard=2"]),
        (4, 1, ["--strategy", "no_shard"]),
    ],
    "llama_10m": [
        (1, 8, ["--strategy", "no_shard"]),
        (1, 1, ["--strategy", "no_shard"]),
        (2, 4, ["--strategy", "no_shard", "--wrap", "none"]),
        (2, 4, ["--strategy", "shard_grad_op", "--wrap", "size:2000000"]),
        (2, 2, ["--strategy", "full_shard", "--checkpointing", "full"]),
        (2, 1, ["--strategy", "full_shard"]),
        (4, 2, ["--strategy", "full_shard"]),
        (4, 1, ["--strategy", "hybrid_shard", "--mesh", "replicate=2,shard=2"]),
    ],
}

# Pipelines of 4 processes: 4 stages, and 2 with a sharding inside.
PIPELINES = {
    "gpt2_5m": [
        (4, 1, ["--mesh", "pipeline=4", "--pipeline-schedule", "1F1B"]),
        (4, 1, ["--mesh", "pipeline=2,shard=2", "--pipeline-schedule", "GPipe", "--strategy", "full_shard"]),
    ],
    "llama_10m": [
        (4, 1, ["--mesh", "pipeline=4", "--pipeline-schedule", "InterleavedZeroBubble"]),
        (4, 1, ["--mesh", "pipeline=2,shard=2", "--pipeline-schedule", "1F1B", "--strategy", "zero1"]),
    ],
}


def stages_of(options):
    """Of a pipeline the number of its ranks, which share the sequences; else 1."""
    axes = dict(axis.split("=") for axis in options[options.index("--mesh") + 1].split(",")) if "--mesh" in options else {}
    return int(axes.get("pipeline", 1))


def cases_of(model, only, pipelines=False):
    """Every case as one record."""
    work = MODELS[model]
    for ranks, batch, options in (PIPELINES if pipelines else CASES)[model]:
        accumulate = work["sequences"] * stages_of(options) // (ranks * batch)
        values = [o for i, o in enumerate(options) if i % 2 == 1]
        name = f"{ranks} x {batch} x {accumulate} {' '.join(values)}"
        if only in f"{model} {name}":
            yield {"model": model, "case": name, "ranks": ranks, "rounds": [],
                   "arguments": ["--ranks", str(ranks), "--batch", str(batch), "--accumulate", str(accumulate), "--seq",
                                 str(work["seq"])] + options}


def run(program, *arguments):
    done = subprocess.run([program, *arguments, "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"regret: shardscope {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def model_folder(model):
    return os.path.join(HERE, "models", model)


def calibrate(program, model, ranks, folder):
    """The profile of this machine with so many processes; measured with the largest micro-batch that they can have."""
    path = os.path.join(folder, f"{model}.{ranks}.json")
    work = MODELS[model]
    if not os.path.exists(path):
        _, others = undisturbed(run, program, "calibrate", "--ranks", str(ranks), "--model", model_folder(model), "--batch",
                                str(work["sequences"] // ranks), "--seq", str(work["seq"]), "--model-only", "-o", path)
        if others > DISTURBED_SHARE:
            print(f"calibration of {ranks} processes: others took {others * 100:.0f}% of the cores", file=sys.stderr)
    return path


def train(program, case, profile, steps, folder):
    """Predicts and trains; the median of the steps after the first two."""
    run(program, "train", "--model", model_folder(case["model"]), "--data", *DATA, "--steps", str(steps), "--profile-steps",
        str(steps - 2), "--cluster", profile, "-o", folder, *case["arguments"])
    with open(os.path.join(folder, "predicted", "summary.json")) as file:
        case["predicted"] = json.load(file)["step_time_ns"] / 1e9
    with open(os.path.join(folder, "summary.json")) as file:
        return json.load(file)["step_time_ns"] / 1e9


def noise_of(rounds):
    """Standard error of the median over the rounds that were not disturbed; of one round it is not known."""
    seconds = [round_["seconds"] for round_ in rounds if not is_disturbed(round_)] or [round_["seconds"] for round_ in rounds]
    if len(seconds) < 2:
        return math.inf
    return math.sqrt(math.pi / 2) * statistics.stdev(seconds) / math.sqrt(len(seconds))


def differ(one, other):
    """Whether the machine's own noise leaves no doubt of which of two measured cases is faster."""
    noise = math.hypot(noise_of(one["rounds"]), noise_of(other["rounds"]))
    return abs(measured_of(one["rounds"]) - measured_of(other["rounds"])) > 2 * noise


def tau_of_sure(cases):
    """Kendall's tau over the pairs that differ, and how many these are."""
    pairs = [(one, other) for one, other in itertools.combinations(cases, 2) if differ(one, other)]
    products = [(one["predicted"] - other["predicted"]) * (one["measured"] - other["measured"]) for one, other in pairs]
    score = sum((product > 0) - (product < 0) for product in products)
    return (score / len(pairs) if pairs else None), len(pairs)


def kendall_tau(pairs):
    """Tau-a: concordant minus discordant pairs over all pairs; a tie on either side counts as neither."""
    score = count = 0
    for i, (x, y) in enumerate(pairs):
        for u, v in pairs[:i]:
            product = (x - u) * (y - v)
            score += (product > 0) - (product < 0)
            count += 1
    return score / count if count else 1.0


def regret_of(cases):
    """Of the case that is predicted to be fastest."""
    pick = min(cases, key=lambda case: case["predicted"])
    return pick["measured"] / min(case["measured"] for case in cases) - 1, pick


def is_disturbed(round_):
    return round_["others"] > DISTURBED_SHARE


def measured_of(rounds):
    """The median over the rounds that were not disturbed, where there are any."""
    calm = [round_ for round_ in rounds if not is_disturbed(round_)]
    return statistics.median(round_["seconds"] for round_ in calm or rounds)


def judge(model, cases):
    """Every case with its error, and what the ranking of the model's cases is worth."""
    for case in cases:
        case["measured"] = measured_of(case["rounds"])
        case["error"] = case["predicted"] / case["measured"] - 1
    regret, pick = regret_of(cases)
    fastest = min(cases, key=lambda case: case["measured"])
    sure_tau, sure_pairs = tau_of_sure(cases)
    return {"regret_is_sure": pick is fastest or differ(pick, fastest), "kendall_tau_of_sure": sure_tau, "sure_pairs": sure_pairs,
            "model": model, "cases": cases, "pick": pick["case"], "regret_share": regret,
            "kendall_tau": kendall_tau([(case["predicted"], case["measured"]) for case in cases]),
            "mean_abs_error_share": statistics.mean(abs(case["error"]) for case in cases)}


def text_of(group):
    width = max(len(case["case"]) for case in group["cases"])
    lines = [f"{group['model']}: processes x sequences x micro-batches, strategy",
             f"  {'case':{width}}  predicted   measured   error  rounds"]
    for case in sorted(group["cases"], key=lambda case: case["measured"]):
        rounds = " ".join(f"{r['seconds'] * 1e3:.0f}" + "*" * is_disturbed(r) for r in case["rounds"])
        mark = "  <- pick" if case["case"] == group["pick"] else ""
        lines.append(f"  {case['case']:{width}}  {case['predicted'] * 1e3:6.1f} ms  {case['measured'] * 1e3:6.1f} ms  "
                     f"{case['error'] * 100:+5.1f}%  {rounds}{mark}")
    sure = "" if group["regret_is_sure"] else " (within the noise)"
    tau = "-" if group["kendall_tau_of_sure"] is None else f"{group['kendall_tau_of_sure']:.2f}"
    lines.append(f"  regret {group['regret_share'] * 100:.1f}%{sure}, Kendall tau {group['kendall_tau']:.2f}, {tau} over the "
                 f"{group['sure_pairs']} pairs that differ by more than the noise, mean error "
                 f"{group['mean_abs_error_share'] * 100:.1f}%\n")
    return "\n".join(lines)


def json_of(groups, elapsed_s):
    cases = [case for group in groups for case in group["cases"]]
    answer = {"schema": "shardscope.regret/1", "groups": [], "cases": len(cases),
              "worst_regret_share": max(group["regret_share"] for group in groups),
              "least_kendall_tau": min(group["kendall_tau"] for group in groups),
              "mean_abs_error_share": statistics.mean(abs(case["error"]) for case in cases), "elapsed_s": elapsed_s}
    for group in groups:
        answer["groups"].append({**group, "cases": [
            {"case": case["case"], "ranks": case["ranks"], "predicted_ns": round(case["predicted"] * 1e9),
             "measured_ns": round(case["measured"] * 1e9), "error_share": case["error"],
             "rounds": [{"step_time_ns": round(r["seconds"] * 1e9), "others_share": r["others"]} for r in case["rounds"]]} for case in group["cases"]]})
    return answer


def settle(options, cases, train_again):
    """Trains the pick and the fastest of one model again until their order is sure."""
    for _ in range(options.more):
        for case in cases:
            case["measured"] = measured_of(case["rounds"])
        pick, fastest = regret_of(cases)[1], min(cases, key=lambda case: case["measured"])
        if pick is fastest or differ(pick, fastest):
            return
        train_again(pick)
        train_again(fastest)


def measure(options, folder):
    cases = [case for model in MODELS for case in cases_of(model, options.only, options.pipelines)]
    if not cases:
        sys.exit(f"regret: no case contains \"{options.only}\"")

    def train_once(case):
        profile = calibrate(options.program, case["model"], case["ranks"], folder)
        number = len(case["rounds"]) + 1
        print(f"round {number}: {case['model']} {case['case']}", file=sys.stderr)
        seconds, others = undisturbed(train, options.program, case, profile, options.steps,
                                      os.path.join(folder, f"{cases.index(case)}.{number}"))
        case["rounds"].append({"seconds": seconds, "others": others})

    for _ in range(options.rounds):
        for case in cases:
            train_once(case)
    groups = {model: [case for case in cases if case["model"] == model] for model in MODELS}
    groups = {model: group for model, group in groups.items() if group}
    for group in groups.values():
        settle(options, group, train_once)
    return [judge(model, group) for model, group in groups.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--pipelines", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--more", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rounds < 1 or options.steps < 3:
        sys.exit("regret: at least 1 round of 3 steps")
    begin, load = time.monotonic(), os.getloadavg()
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        groups = measure(options, options.keep)
    else:
        with tempfile.TemporaryDirectory() as folder:
            groups = measure(options, folder)
    answer = json_of(groups, time.monotonic() - begin)
    answer["load_before"], answer["load_after"] = load, os.getloadavg()
    if options.json:
        print(json.dumps(answer))
        return
    for group in groups:
        print(text_of(group))
    print(f"{answer['cases']} cases: worst regret {answer['worst_regret_share'] * 100:.1f}%, least tau "
          f"{answer['least_kendall_tau']:.2f}, mean error {answer['mean_abs_error_share'] * 100:.1f}%; "
          f"{answer['elapsed_s']:.0f} s in all; processes that wanted a core in the minute before: {load[0]:.1f} at the begin, "
          f"{answer['load_after'][0]:.1f} at the end")


if __name__ == "__main__":
    main()
