#!/usr/bin/env python3
"""Runs the commands of a page: every ```sh block, in order, in one empty folder that holds a copy of examples/.

usage: run_commands.py PAGE PROGRAM EXAMPLES

A block after the line `<!-- not run: REASON -->` is not run. A block that fails is named with file and line.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

NOT_RUN = re.compile(r"<!-- not run: (.+) -->$")


def blocks(page):
    """(line of its first command, text, reason why it is not run or None) of each ```sh block."""
    found, text, start, reason = [], None, 0, None
    for number, line in enumerate(open(page, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if text is None:
            mark = NOT_RUN.match(line)
            if mark:
                reason = mark[1]
            elif line == "```sh":
                text, start = [], number + 1
            elif line:
                reason = None
        elif line == "```":
            found.append((start, "\n".join(text) + "\n", reason))
            text, reason = None, None
        else:
            text.append(line)
    if text is not None:
        sys.exit(f"{page}:{start - 1}: the block is not closed")
    return found


def main():
    page, program, examples = (os.path.abspath(path) for path in sys.argv[1:4])
    name = os.path.basename(page)
    found = blocks(page)
    for start, _, reason in found:
        if reason:
            print(f"{name}:{start}: not run: {reason}")
    wanted = [(start, text) for start, text, reason in found if not reason]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(examples, os.path.join(folder, "examples"))
        # A page goes on where its last block ended, so all blocks are one script; a trap says which one failed.
        script = "set -euo pipefail\nblock=0\ntrap 'echo \"failed in the block at line $block\" >&2' ERR\n"
        script += "".join(f"block={start}\n{text}" for start, text in wanted)
        home = os.path.join(folder, "home")
        os.mkdir(home)
        environment = dict(os.environ, HOME=home, PATH=os.path.dirname(program) + os.pathsep + os.environ["PATH"])
        for variable in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            environment.pop(variable, None)
        result = subprocess.run(["bash"], input=script, text=True, cwd=folder, env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode:
        sys.exit(f"{result.stdout}\n{name}: exit code {result.returncode}")
    print(f"{name}: {len(wanted)} blocks run")


main()
