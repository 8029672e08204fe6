"""The commands `shardscope` and `shardscope-gui` of the wheels: they become the programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NoReturn

from shardscope import _program
from shardscope.errors import ShardscopeError


def main_of(program: str, name: str, variables: Mapping[str, str]) -> NoReturn:
    """Becomes `program`. It finds its sister in PATH, where this Python's commands are."""
    beside = os.path.dirname(os.path.abspath(sys.argv[0]))
    os.environ["PATH"] = os.pathsep.join([*os.get_exec_path(), beside])
    for variable, value in variables.items():
        os.environ.setdefault(variable, value)
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        print(f"{name}: {program}: {error.strerror}", file=sys.stderr)
    sys.exit(3)


def main() -> NoReturn:
    """`shardscope`."""
    try:
        program = _program.find_program()
    except ShardscopeError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    main_of(program, "shardscope", {})
