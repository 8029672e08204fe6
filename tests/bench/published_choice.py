#!/usr/bin/env python3
"""How often the prediction picks the best of the settings that one source measured of the same job, and what a wrong pick costs.

usage: published_choice.py SHARDSCOPE PUBLISHED_RUNS.csv [--json]

A job is what one source ran with several settings: the same model, sequence, GPUs and sequences of a step. Its rows are predicted
by `shardscope validate`; the pick is the fastest predicted. Printed are, over all jobs: how often the pick is the fastest
measured, its regret (measured time of the pick over that of the fastest, minus one) in the mean and at worst, Kendall's tau over
pairs that differ by more than NOISE, by how much the errors of two settings of a job differ, and how many of the pairs that
`plan` would tell apart (predicted to differ by more than BAND) are in the order that was measured. Rows with the same settings are
runs of one case: their median counts.
"""
import argparse
import csv
import itertools
import json
import math
import statistics
import subprocess
import sys

NOISE = 0.02  # of a step time: what differs by less is taken for equal
BAND = math.expm1(1.645 * math.sqrt(2) * 0.025)  # sim/prediction/band.h: the model's own error of two steps, at 90%
JOB = ("source", "model", "params_b", "hidden", "layers", "heads", "ffn", "vocab", "seq", "gpu", "gpus", "gpus_per_node", "global_batch")
SETTINGS = ("strategy", "tp", "pp", "dp_shard", "micro_batch", "grad_accum", "precision", "act_ckpt", "offload", "compile", "attn")


def cases_by_job(table, answer):
    """Cases of jobs that have several: (settings, predicted, measured), in seconds; and how many rows have no prediction."""
    rows, left_out = {}, 0
    for row, said in zip(table, answer["rows"]):
        left_out += said["skipped"] is not None
        if not said["measured_ns"] or not said["predicted_ns"]:
            continue
        settings = rows.setdefault(tuple(row.get(key, "") for key in JOB), {})
        settings.setdefault(tuple(row.get(key, "") for key in SETTINGS), []).append(
            (said["predicted_ns"] / 1e9, said["measured_ns"] / 1e9))
    jobs = {job: [(name, *(statistics.median(figures) for figures in zip(*runs))) for name, runs in settings.items()]
            for job, settings in rows.items()}
    return {job: cases for job, cases in jobs.items() if len(cases) > 1}, left_out


def regret_of(cases):
    pick = min(cases, key=lambda case: case[1])
    return pick[2] / min(case[2] for case in cases) - 1


def pairs_of(jobs):
    """Two settings of one job: by how much the second is predicted and measured to be slower, as logarithms."""
    for cases in jobs.values():
        for one, other in itertools.combinations(cases, 2):
            yield math.log(other[1] / one[1]), math.log(other[2] / one[2])


def judge(jobs):
    regrets = [regret_of(cases) for cases in jobs.values()]
    pairs = list(pairs_of(jobs))
    sure = [(predicted, measured) for predicted, measured in pairs if abs(measured) > math.log(1 + NOISE)]
    told = [predicted * measured > 0 for predicted, measured in pairs if abs(predicted) > math.log(1 + BAND)]
    score = sum(math.copysign(1, predicted * measured) if predicted else 0 for predicted, measured in sure)
    return {"jobs": len(jobs), "cases": sum(len(cases) for cases in jobs.values()),
            "picked_best": sum(regret <= 0 for regret in regrets), "within_noise": sum(regret <= NOISE for regret in regrets),
            "mean_regret_share": statistics.mean(regrets), "worst_regret_share": max(regrets), "pairs": len(sure),
            "told_apart": len(told), "told_rightly_share": sum(told) / len(told) if told else None,
            "kendall_tau": score / len(sure) if sure else None,
            "error_of_difference_share": math.sqrt(statistics.mean((p - m) ** 2 for p, m in pairs))}


def text_of(name, judged):
    tau = "-" if judged["kendall_tau"] is None else f"{judged['kendall_tau']:.2f}"
    return (f"{name}: {judged['jobs']} jobs of {judged['cases']} cases; best picked {judged['picked_best']}, within {NOISE * 100:.0f}% "
            f"{judged['within_noise']}; regret {judged['mean_regret_share'] * 100:.1f}% in the mean, "
            f"{judged['worst_regret_share'] * 100:.1f}% at worst; tau {tau} over {judged['pairs']} pairs; errors of two "
            f"settings differ by {judged['error_of_difference_share'] * 100:.1f}%; {judged['told_apart']} pairs told apart"
            + (f", {judged['told_rightly_share'] * 100:.1f}% rightly" if judged["told_apart"] else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("table")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    done = subprocess.run([options.program, "validate", options.table, "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"published_choice: {done.stderr.strip()}")
    with open(options.table, newline="") as file:
        table = list(csv.DictReader(file))
    jobs, left_out = cases_by_job(table, json.loads(done.stdout))
    if not jobs:
        sys.exit(f"published_choice: {options.table}: no source measured two settings of one job")
    groups = {source: {job: cases for job, cases in jobs.items() if job[0] == source} for source in sorted({job[0] for job in jobs})}
    answer = {"schema": "shardscope.published_choice/1", "all": judge(jobs), "rows_without_prediction": left_out,
              "by_source": [{"source": source, **judge(group)} for source, group in groups.items()]}
    if options.json:
        print(json.dumps(answer))
        return
    for source, group in groups.items():
        print(text_of(source, judge(group)))
    print(text_of("all", answer["all"]))
    print(f"{left_out} rows have no prediction")


if __name__ == "__main__":
    main()
