#!/usr/bin/env python3
"""Whether two builds of shardscope answer alike: --json of the commands in same_answers.txt, key by key.

    same_answers.py BEFORE AFTER [FILE]

BEFORE and AFTER are two programs; each runs in the repository that it was built in, three folders above it. FILE holds other commands,
one a line. Prints which keys changed, are new or are gone; the exit code is 1 if any value changed."""
import collections
import json
import pathlib
import re
import subprocess
import sys


HOW_LONG_IT_TOOK = {".elapsed_s"}


def values(node, key=""):
    """(key path, value) of every leaf; entries of a list count as one."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from values(value, f"{key}.{name}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from values(value, f"{key}[{index}]")
    elif key not in HOW_LONG_IT_TOOK:
        yield key, node


def answer(program, command):
    repository = pathlib.Path(program).resolve().parents[3]
    return subprocess.run([program, *command, "--json"], cwd=repository, capture_output=True, text=True, timeout=600)


def shown(keys):
    counts = collections.Counter(re.sub(r"\[\d+\]", "[]", key) for key in keys)
    return ", ".join(f"{key} ({count})" for key, count in counts.most_common(8)) or "none"


def compare(before, after):
    """A line about two answers, and whether a value changed."""
    if before.returncode != after.returncode:
        return f"exit code {before.returncode} -> {after.returncode}", True
    if before.stdout == after.stdout:
        return "the same" if before.stdout else f"refused by both with {before.returncode}", False
    old, new = (dict(values(json.loads(run.stdout))) for run in (before, after))
    changed = [key for key in old if key in new and old[key] != new[key]]
    if not changed and old.keys() == new.keys():
        return "the same", False
    return (f"changed: {shown(changed)}; new: {shown(new.keys() - old.keys())}; gone: {shown(old.keys() - new.keys())}",
            bool(changed))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    file = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else pathlib.Path(__file__).with_suffix(".txt"))
    any_changed = False
    for line in file.read_text().splitlines():
        command = line.split()
        text, changed = compare(*(answer(program, command) for program in sys.argv[1:3]))
        any_changed = any_changed or changed
        print(f"{line}\n    {text}")
    sys.exit(1 if any_changed else 0)


main()
