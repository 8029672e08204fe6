#!/usr/bin/env python3
"""recordings.py SHARDSCOPE -o FOLDER: records the training scripts of examples/recording/scripts.json one after another, predicts them
on a cluster, and writes FOLDER/recordings.json and FOLDER/recordings.md, a table: exit code, step time, peaks of memory beside PyTorch's own, what was
unknown and what was invented. A row that is there already is not recorded again, unless --only names it.

Scripts of other repositories are read at their commits from --sources (default: FOLDER/sources), where they are cloned if they are missing.
Where --python lacks a package, only the scripts that need it fail."""
import argparse
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/recording"
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
           "HF_HUB_DISABLE_TELEMETRY": "1", "OMP_NUM_THREADS": "1"}
ALWAYS_INVENTED = "results of large operators were not computed"
MEBI = 2**20
KINDS = ("allocated", "active", "reserved")


def capture(command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def clone(sources, folder):
    """Each repository at its commit, but where it is already."""
    for name, source in sources.items():
        place = folder / name
        if place.exists():
            continue
        for command in (["init", "-q", place], ["-C", place, "fetch", "-q", "--depth", "1", source["repository"], source["commit"]],
                        ["-C", place, "checkout", "-q", "FETCH_HEAD"]):
            if subprocess.run(["git", *map(str, command)]).returncode != 0:
                shutil.rmtree(place, ignore_errors=True)  # else the next run would take it for a clone
                sys.exit(f"recordings.py: {source['repository']}: cannot be fetched; clone it to {place}")


def python_facts(python):
    """Versions of what the scripts use, and where TRL keeps its own."""
    code = ("import importlib.metadata as m, importlib.util as u, json\n"
            "names = 'torch transformers accelerate deepspeed peft trl bitsandbytes torchao lightning torchvision triton timm diffusers gymnasium'.split()\n"
            "print(json.dumps([{n: v for n in names for v in [next((d.version for d in m.distributions(name=n)), None)] if v},"
            " next(iter(getattr(u.find_spec('trl'), 'submodule_search_locations', None) or []), '')]))")
    done = capture([python, "-c", code])
    if done.returncode != 0:
        sys.exit(f"recordings.py: {python}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def own_folder(work, inputs, case, places):
    """Where the script runs: the inputs by their names, and nothing of other scripts."""
    folder = work / "run" / "here"
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    for one in inputs.iterdir():
        (folder / one.name).symlink_to(one)
    (folder.parent / "data").symlink_to(inputs / "data")
    for link in case.get("links", []):
        path = pathlib.Path(link.format(**places))
        (folder / path.name).symlink_to(path)
    return folder


def last_words(text):
    """The line that says why it failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if "Error" in line or line.startswith("error") or "terminate called" in line]
    return (said or lines or ["?"])[-1][:200]


def record(options, case, places, work):
    folder, run = own_folder(work, work / "inputs", case, places), work / "recordings" / file_name(case)
    shutil.rmtree(run, ignore_errors=True)
    command = [options.shardscope, "record", "--cluster", options.cluster, "--json", *case.get("record", "").split(), "-o", str(run), "--",
               *[word.format(**places) for word in case["command"].split()]]
    begin = time.monotonic()
    environment = {**os.environ, **OFFLINE, "HF_HOME": str(work / "huggingface")}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        try:
            answer, said = process.communicate(timeout=options.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the script, too
            answer, said = process.communicate()
            said += f"\nerror: it did not end in {options.limit:.0f} s\n"
    code = process.returncode
    work.joinpath("logs").mkdir(exist_ok=True)
    work.joinpath("logs", file_name(case) + ".txt").write_text(said + answer[-20000:])
    return code, said, answer, round(time.monotonic() - begin, 1), run


def logs_of(run):
    """All that was recorded: of each rank."""
    return b"".join(log.read_bytes() for log in sorted(run.glob("events*.txt")))


# Which fields of a kind of line are numbers of texts (docs/recording.md).
TEXTS = {b"op": (0, 1), b"node": (0, 1), b"end": (0,), b"enter": (0, 1), b"kernel": (1,), b"invented": (0, 1), b"asked": (0,)}


def by_thread(log):
    """What each thread did, whatever the others did meanwhile. Texts and locked memory of the host are numbered as they appear, by whichever thread."""
    texts, threads = [], {}
    for line in log.splitlines():
        thread, _, rest = line.partition(b"\t")
        kind, *fields = rest.split(b"\t")
        if thread == b"S":
            texts.append(fields)
        elif kind not in (b"pinned", b"unpinned"):
            named = [texts[int(field)] if i in TEXTS.get(kind, ()) else field for i, field in enumerate(fields)]
            threads.setdefault(thread, []).append((kind, named))
    return threads


def first_difference(log, other):
    """Number and both texts of the first line that is another one."""
    pairs = itertools.zip_longest(log.splitlines(), other.splitlines(), fillvalue=b"")
    number, one, two = next((i, one, two) for i, (one, two) in enumerate(pairs, 1) if one != two)
    return f"line {number}: {one.decode()[:80]!r}, {two.decode()[:80]!r}"


def repeated(options, case, places, work):
    """The script as often as --repeat says: how many runs ended well, how many logs equal that of the first run, how many of them thread by thread,
    and where one differs."""
    codes, first, equal, by_threads, differs = [], None, 0, 0, None
    for _ in range(options.repeat):
        _, _, _, _, run = record(options, case, places, work)
        settings = run / "recording.json"
        codes.append(json.loads(settings.read_text())["exit_code"] if settings.exists() else None)
        log = logs_of(run)
        first = log if first is None else first
        equal += log == first
        by_threads += log == first or by_thread(log) == by_thread(first)
        if log != first and differs is None:
            differs = first_difference(first, log)
        shutil.rmtree(run, ignore_errors=True)
    return {"times": options.repeat, "ended": codes.count(0), "like_the_first": equal, "like_by_thread": by_threads, "differs": differs}


def file_name(case):
    return "".join(letter if letter.isalnum() else "_" for letter in f"{case['from']} {case['name']}")


def row_of(options, case, places, work):
    code, said, answer, wall, run = record(options, case, places, work)
    row = {"name": case["name"], "from": case["from"], "record": case.get("record", ""), "wall_s": wall, "program_exit_code": code}
    settings = run / "recording.json"
    if not settings.exists():
        return row | {"exit_code": None, "why": last_words(said)}
    row["exit_code"] = json.loads(settings.read_text())["exit_code"]
    if row["exit_code"] != 0:
        row["why"] = last_words(said)
    begin = time.monotonic()
    done = capture([options.shardscope, "simulate", "--recording", str(run), "--cluster", options.cluster, "--json"])
    row["simulate_s"] = round(time.monotonic() - begin, 2)
    if not done.stdout.strip():
        return row | {"why": last_words(done.stderr)}
    figures = json.loads(done.stdout)
    made = figures["recording"]
    peaks = {f"peak_{kind}_bytes": max(step["memory"][f"peak_{kind}_bytes"] for step in figures["steps"]) for kind in KINDS}
    # Written out, where the first recording's own answer says the same.
    if not options.keep:
        shutil.rmtree(run, ignore_errors=True)
    return row | {"steps": made["steps"], "step_time_ns": figures["step_time_ns"], "kernels": made["kernels"], "time": figures["time"],
                  **peaks, "reported": made["peaks"],
                  "ended": made["ended"], "kernels_of_no_operator": made["kernels_of_no_operator"],
                  "tuning_kernels": made["tuning_kernels"], "unknown_functions": made["unknown_functions"],
                  "invented": made["invented"],
                  "assumed": [text for text in figures["assumed"] if not text.startswith(ALWAYS_INVENTED)]}


def mebibytes(row, kind):
    """Ours; PyTorch's own beside it where it is another."""
    ours, reported = row[f"peak_{kind}_bytes"], row["reported"]
    text = f"{ours / MEBI:,.1f}"
    if reported is None:
        return text + " (PyTorch: ?)"
    other = reported[f"{kind}_bytes"]
    return text if other == ours else f"{text} (PyTorch {other / MEBI:,.1f})"


def doubts_of(row):
    parts = []
    if row["unknown_functions"]:
        parts.append("functions: " + ", ".join(row["unknown_functions"]))
    if row["kernels_of_no_operator"]:
        parts.append(f"{row['kernels_of_no_operator']} of {row['kernels']} kernels of no operator")
    if row["tuning_kernels"]:
        parts.append(f"{row['tuning_kernels']} launches of tuning left out")
    return "; ".join(parts) or "nothing"


def invented_of(row):
    return "; ".join(text.replace(".default", "").replace("aten.", "") for text in row["invented"][:2]) + (
        f"; {len(row['invented']) - 2} more" if len(row["invented"]) > 2 else "") or "nothing read"


def alike(row):
    """Of the recordings of --repeat."""
    again = row.get("repeated")
    if not again:
        return ""
    by_threads = again.get("like_by_thread", again["like_the_first"])
    return f"{again['like_the_first']} of {again['times']}" + (f" ({by_threads} by thread)" if by_threads > again["like_the_first"] else "")


def table(rows, versions, cluster):
    lines = ["Packages: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + f". Cluster: {cluster}.", "",
             "| script | of | `record` with | exit | alike | s | steps | kernels | ms a step | allocated MiB | reserved MiB | unknown | invented |",
             "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|---|"]
    for row in rows:
        start = f"| {row['name']} | {row['from']} | {row['record']} | {'-' if row['exit_code'] is None else row['exit_code']} | {alike(row)} | {row['wall_s']:.0f} |"
        if "steps" not in row:
            lines.append(f"{start} | | | | | {row['why']} | |")
            continue
        lines.append(f"{start} {row['steps']} | {row['kernels']:,} | {row['step_time_ns'] / 1e6:,.2f} | {mebibytes(row, 'allocated')} | "
                     f"{mebibytes(row, 'reserved')} | {doubts_of(row)} | {invented_of(row)} |")
    return "\n".join(lines) + "\n"


class Rows:
    """What recordings.json and recordings.md in a folder say, in the order of scripts.json."""

    def __init__(self, work, keys, versions, cluster):
        self.work, self.keys, self.versions, self.cluster = work, keys, versions, cluster
        self.file = work / "recordings.json"
        kept = json.loads(self.file.read_text())["rows"] if self.file.exists() else []
        self.by_key = {(row["from"], row["name"]): row for row in kept}

    def put(self, key, row):
        self.by_key[key] = row
        ordered = [self.by_key[one] for one in self.keys if one in self.by_key]
        self.file.write_text(json.dumps({"versions": self.versions, "cluster": self.cluster, "rows": ordered}, indent=1))
        (self.work / "recordings.md").write_text(table(ordered, self.versions, self.cluster))


def is_asked_for(options, key, rows):
    if options.repeat and key not in rows:
        return False
    if options.only:
        return any(word in " ".join(key) for word in options.only)
    return key not in rows or options.repeat > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shardscope")
    parser.add_argument("-o", "--output", required=True, help="a folder")
    parser.add_argument("--python", default=os.environ.get("SHARDSCOPE_TORCH_PYTHON", "python3"), help="one that has torch and the packages")
    parser.add_argument("--sources", help="a folder of clones: accelerate, pytorch_examples, nanoGPT")
    parser.add_argument("--cluster", default="h100_sxm")
    parser.add_argument("--limit", type=float, default=300, help="seconds a script (default: 300)")
    parser.add_argument("--only", nargs="+", help="scripts whose name or origin holds one of these words")
    parser.add_argument("--repeat", type=int, default=0, help="instead record each script of the table so many times, and compare these logs byte by byte")
    parser.add_argument("--keep", action="store_true", help="keep the run folders")
    options = parser.parse_args()
    options.shardscope, work = os.path.abspath(options.shardscope), pathlib.Path(options.output).resolve()
    known = json.loads((EXAMPLES / "scripts.json").read_text())
    sources = pathlib.Path(options.sources).resolve() if options.sources else work / "sources"
    clone(known["sources"], sources)
    versions, trl = python_facts(options.python)
    places = {"python": options.python, "examples": str(EXAMPLES), "gpu": str(ROOT / "tests/gpu/scripts"), "trl": trl,
              **{name: str(sources / name) for name in known["sources"]}}
    if not (work / "inputs").exists():
        (work / "inputs").mkdir(parents=True)
        subprocess.run([options.python, EXAMPLES / "inputs.py"], cwd=work / "inputs", check=True)
    rows = Rows(work, [(case["from"], case["name"]) for case in known["cases"]], versions, options.cluster)
    for case in known["cases"]:
        key = (case["from"], case["name"])
        if not is_asked_for(options, key, rows.by_key):
            continue
        if options.repeat:
            rows.put(key, rows.by_key[key] | {"repeated": repeated(options, case, places, work)})
            print(f"{key[0]}: {key[1]}: {rows.by_key[key]['repeated']}", flush=True)
            continue
        row = row_of(options, case, places, work)
        rows.put(key, row)
        print(f"{key[0]}: {key[1]}: exit {row['exit_code']}, {row['wall_s']} s, "
              + (f"{row['step_time_ns'] / 1e6:.2f} ms a step" if "steps" in row else row["why"]), flush=True)
    return 0 if all(row["exit_code"] == 0 and "steps" in row for row in rows.by_key.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
