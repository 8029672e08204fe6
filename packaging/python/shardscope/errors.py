"""What can go wrong, each with the program's own line."""

from __future__ import annotations


class ShardscopeError(Exception):
    """A failure. Its text is one line: where, what, and the way out."""

    exit_code = 3

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


class BadInput(ShardscopeError, ValueError):
    """A file, an option or a model that cannot be used (exit code 2)."""

    exit_code = 2


class OutsideFailure(ShardscopeError):
    """Something outside failed: a disk, a device, a missing program (exit code 3)."""


class RankLost(ShardscopeError):
    """A rank died or hung (exit code 4)."""

    exit_code = 4


class NotFinite(ShardscopeError):
    """A loss or a gradient norm is not finite (exit code 5)."""

    exit_code = 5


class DoesNotFit(AssertionError):
    """`assert_fits` found a configuration that does not fit."""


BY_EXIT_CODE: dict[int, type[ShardscopeError]] = {2: BadInput, 4: RankLost, 5: NotFinite}
