"""Opens traces of ours in HolisticTraceAnalysis and compares its figures with ours, by our definitions and by its own.

Usage: hta_check.py WRITE_SAMPLE_TRACES   (the program of that name, built beside the tests)

Needs HolisticTraceAnalysis 0.5.0 (pip install HolisticTraceAnalysis==0.5.0). Exits with 77 ("skipped") where it, or that
version of it, is not installed.
"""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile

VERSION = "0.5.0"
SKIPPED = 77
TOLERANCE_US = 0.01  # HTA adds microseconds as doubles


def skip_unless_installed():
    try:
        found = importlib.metadata.version("HolisticTraceAnalysis")
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found != VERSION:
        print(f"skipped: HolisticTraceAnalysis {VERSION} is needed, found {found}")
        sys.exit(SKIPPED)


def figures(folder, is_whole):
    """HTA's temporal breakdown and overlap, by rank: of all steps to the nanosecond, or as it comes."""
    from hta.trace_analysis import TraceAnalysis

    # HTA rounds to whole microseconds by default, which would hide a wrong nanosecond.
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1" if is_whole else "0"
    analysis = TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=is_whole)
    breakdown = analysis.get_temporal_breakdown(visualize=False)
    overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")
    return {
        int(row["rank"]): {
            "span_us": row["kernel_time(us)"],
            "compute_us": row["compute_time(us)"],
            "non_compute_us": row["non_compute_time(us)"],
            "idle_us": row["idle_time(us)"],
            "overlap_percent": overlap.loc[row["rank"], "comp_comm_overlap_pctg"],
        }
        for _, row in breakdown.iterrows()
    }


def differences(expected, found):
    tolerance = {"overlap_percent": 0.006}  # HTA rounds percentages to two decimals
    for key, value in expected.items():
        if not abs(found[key] - value) <= tolerance.get(key, TOLERANCE_US):
            yield f"{key}: ours {value}, HTA {found[key]}"


def main():
    skip_unless_installed()
    wrong, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        expected = json.loads((pathlib.Path(folder) / "expected.txt").read_text())
        for rules in ("own", "hta"):
            found = figures(folder, rules == "own")
            for rank, ours in expected[rules].items():
                compared += 1
                wrong += [f"{rules}, rank {rank}: {text}" for text in differences(ours, found[int(rank)])]
    for text in wrong:
        print(text)
    print(f"{compared} breakdowns, {len(wrong)} differences")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
