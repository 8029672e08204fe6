"""The desktop application of Shardscope, which the command `shardscope-gui` starts."""

from __future__ import annotations

import os
from typing import NoReturn

from shardscope import _launch, _program


def main() -> NoReturn:
    """`shardscope-gui`: predictions are made by the program of the package shardscope."""
    _launch.main_of(os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "shardscope-gui"), "shardscope-gui",
                    {_program.VARIABLE: _program.find_program()})
