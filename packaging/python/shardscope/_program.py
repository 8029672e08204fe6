"""Finds and runs the program. Nothing is computed here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

from shardscope.errors import BY_EXIT_CODE, OutsideFailure

PROGRAM = "shardscope"
VARIABLE = "SHARDSCOPE"  # names another program, as for the desktop application
OUT_OF_PATIENCE_S = 10.0


class Done(NamedTuple):
    """What a run of the program printed."""

    code: int
    output: str
    errors: str


def own_folder() -> str:
    """Where this package lies."""
    return os.path.dirname(os.path.abspath(__file__))


def _is_elf(path: str) -> bool:
    """The program itself, and not the starter of this package, which would start itself."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def find_program() -> str:
    """The program of the variable SHARDSCOPE, else of the wheel, else of PATH."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    carried = os.path.join(own_folder(), "bin", PROGRAM)
    if os.path.exists(carried):
        return carried
    for folder in os.get_exec_path():
        path = os.path.join(folder, PROGRAM)
        if os.access(path, os.X_OK) and _is_elf(path):
            return path
    raise OutsideFailure(f"shardscope: the program is neither in this package nor in PATH; install the wheel, or name it in {VARIABLE}")


def _stop(process: subprocess.Popen[str]) -> None:
    """As Ctrl-C in a terminal: the program leaves everything whole; one that does not end is killed."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=OUT_OF_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _failure(done: Done, verb: str) -> Exception:
    lines = [line for line in done.errors.splitlines() if line.strip()]
    line = lines[-1] if lines else f"shardscope {verb}: ended with code {done.code} and said nothing"
    return BY_EXIT_CODE.get(done.code, OutsideFailure)(line)


def run(arguments: Sequence[str], cwd: str | None = None) -> Done:
    """Runs the program to its end. Ctrl-C ends it and is raised again."""
    program = find_program()
    try:
        # A session of its own: a terminal's Ctrl-C comes to us, and we hand it on once.
        process = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, encoding="utf-8", errors="replace", cwd=cwd, start_new_session=True)
    except OSError as error:
        raise OutsideFailure(f"shardscope: {program}: {error.strerror}") from error
    try:
        output, errors = process.communicate()
    except BaseException:
        _stop(process)
        raise
    return Done(process.returncode, output, errors)


def ask(verb: str, arguments: Sequence[str], answers: Sequence[int] = (0,)) -> dict[str, Any]:
    """The object that `shardscope VERB ... --json` prints. Exit codes other than `answers` are raised."""
    done = run([verb, *arguments, "--json", "--quiet"])
    if done.code == 130:
        raise KeyboardInterrupt
    if done.code not in answers or not done.output:
        raise _failure(done, verb)
    try:
        value = json.loads(done.output)
    except ValueError as error:
        raise OutsideFailure(f"shardscope {verb}: printed something that is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise OutsideFailure(f"shardscope {verb}: printed no JSON object")
    return value


def text_of(verb: str, arguments: Sequence[str], answers: Sequence[int] = (0,)) -> str:
    """What `shardscope VERB ...` prints for people."""
    done = run([verb, *arguments, "--quiet", "--color", "never"])
    if done.code not in answers:
        raise _failure(done, verb)
    return done.output
