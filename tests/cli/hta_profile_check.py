"""Trains on two ranks, profiles a window, opens its traces in HolisticTraceAnalysis and compares its figures with ours.

Usage: hta_profile_check.py SHARDSCOPE MODEL HTA_CHECK   (the program, a model's folder, tests/traces/hta_check.py)

Needs HolisticTraceAnalysis in the version that HTA_CHECK names; exits with 77 ("skipped") where it is not installed.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

STRATEGIES = ("no_shard", "zero1", "shard_grad_op", "full_shard")


def hta_check(path):
    spec = importlib.util.spec_from_file_location("hta_check", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def profiled(shardscope, model, strategy, folder):
    """Folder with the traces of one window."""
    (folder / "text.txt").write_text("the quick brown fox jumps over a lazy dog\n" * 400)
    job = {"model": str(model), "data": "text.txt", "tokens": "text", "steps": 8, "batch": 1, "seq": 64, "threads": 1,
           "strategy": strategy, "ranks": 2, "save_model": False, "profile": {"start": 5, "steps": 2}, "output": strategy}
    (folder / f"{strategy}.json").write_text(json.dumps(job))
    subprocess.run([shardscope, "train", folder / f"{strategy}.json", "--quiet"], check=True, cwd=folder)
    return folder / strategy / "profiles" / "5-6"


def ours(shardscope, folder, definitions):
    """Our figures in HTA's terms, by rank: its non-compute time holds exposed communication and exposed copies."""
    report = subprocess.run([shardscope, "report", folder, "--definitions", definitions, "--json"], check=True,
                            capture_output=True, text=True)
    return {
        rank["rank"]: {
            "span_us": rank["span_ns"] / 1000,
            "compute_us": rank["compute_ns"] / 1000,
            "non_compute_us": (rank["exposed_communication_ns"] + rank["exposed_copy_ns"]) / 1000,
            "idle_us": rank["idle_ns"] / 1000,
            "overlap_percent": 100 * rank["overlap_ns"] / rank["communication_ns"],
        }
        for rank in json.loads(report.stdout)["ranks"]
    }


def main():
    shardscope, model, check = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), hta_check(sys.argv[3])
    check.skip_unless_installed()
    wrong, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for strategy in STRATEGIES:
            window = profiled(shardscope, model, strategy, pathlib.Path(folder))
            # HTA takes every .json in a folder for a trace.
            (window / "comparison.json").unlink()
            for definitions in ("own", "hta"):
                found = check.figures(window, definitions == "own")
                for rank, figures in ours(shardscope, window, definitions).items():
                    compared += 1
                    wrong += [f"{strategy}, {definitions}, rank {rank}: {text}"
                              for text in check.differences(figures, found[rank])]
    for text in wrong:
        print(text)
    print(f"{compared} breakdowns, {len(wrong)} differences")
    sys.exit(1 if wrong or compared == 0 else 0)


if __name__ == "__main__":
    main()
