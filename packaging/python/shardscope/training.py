"""Records two steps of a training script, and lays them beside their prediction when it ends.

    with shardscope.recorded("runs/x"):
        train()

Steps are counted by the optimizer. Each rank leaves its trace; rank 0 leaves the settings that it found, and compares.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Optional, TextIO

from shardscope import _program
from shardscope._recording import Recording, join_ranks, rank_and_world
from shardscope.answers import TracedComparison
from shardscope.errors import ShardscopeError
from shardscope.verbs import compare

DONE_OR_NO = (0, 1)


def _say(line: str) -> None:
    print(f"shardscope: {line}", file=sys.stderr, flush=True)


class Recorded:
    """A part of a training script of which a few steps are recorded. `comparison` is there at the end, on rank 0."""

    def __init__(self, folder: str | os.PathLike[str], *, steps: int = 2, skip: int = 2, cluster: str | os.PathLike[str] | None = None,
                 compare: bool = True, output: Optional[TextIO] = None) -> None:
        if steps < 1 or skip < 1:
            raise ValueError(f"steps={steps}, skip={skip}: both are at least 1 (the first step makes the optimizer's states)")
        self.folder = os.path.abspath(os.fspath(folder))
        self.steps, self.skip, self.cluster = steps, skip, cluster
        self.comparison: TracedComparison | None = None
        self._compare, self._output = compare, output
        self._recording: Recording | None = None
        self._open = ExitStack()

    def __enter__(self) -> Recorded:
        os.makedirs(self.folder, exist_ok=True)
        self._recording = Recording(self.folder, self.steps, self.skip)
        self._open.enter_context(self._recording)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()
        if kind is None:
            self._finish()

    def _finish(self) -> None:
        recording = self._recording
        assert recording is not None
        rank, _ = rank_and_world()
        if not recording.is_complete:
            if rank == 0:
                _say(f"{self.folder}: the training ended after {recording.steps_seen} steps, and {self.skip + self.steps} were needed; "
                     "nothing was compared; train longer, or give smaller skip= and steps=")
            return
        join_ranks()
        if rank != 0:
            return
        for note in recording.notes:
            _say(note)
        if recording.settings is None:
            _say(f"{self.folder}: traces are recorded, nothing is predicted: {recording.no_settings}")
        elif self._compare:
            self._lay_beside()

    def _lay_beside(self) -> None:
        options = ["--trace", self.folder] + ([f"--cluster={os.fspath(self.cluster)}"] if self.cluster is not None else [])
        try:
            self.comparison = compare(trace=self.folder, cluster=self.cluster)
            print(_program.text_of("compare", options, DONE_OR_NO), file=self._output or sys.stdout, flush=True)
        except ShardscopeError as error:  # the training is done, and its result is worth more than the comparison
            _say(f"{self.folder}: traces are recorded and were not compared: {error}")


def recorded(folder: str | os.PathLike[str], *, steps: int = 2, skip: int = 2, cluster: str | os.PathLike[str] | None = None,
             compare: bool = True) -> Recorded:
    """Records `steps` steps of the optimizer after the first `skip`, on every rank, into `folder`; compares at the end.

    `cluster` is whose times are predicted (default: the GPU that was calibrated here, else h100_sxm). With `compare=False`
    the traces are left for `shardscope compare --trace FOLDER`.
    """
    return Recorded(folder, steps=steps, skip=skip, cluster=cluster, compare=compare)


def _bases() -> tuple[type, ...]:
    """Base classes of callbacks of the libraries that are in use."""
    places = (("transformers", "TrainerCallback"), ("lightning.pytorch", "Callback"), ("pytorch_lightning", "Callback"))
    return tuple(getattr(sys.modules[module], name) for module, name in places if module in sys.modules)


class ShardscopeCallback:
    """`recorded` as a callback of transformers' Trainer, or of Lightning: `Trainer(callbacks=[ShardscopeCallback("runs/x")])`.

    Import transformers or lightning before you make one.
    """

    def __new__(cls, *_: Any, **__: Any) -> ShardscopeCallback:
        bases = _bases()
        made: ShardscopeCallback = object.__new__(type(cls.__name__, (cls, *bases), {}) if bases else cls)
        return made

    def __init__(self, folder: str | os.PathLike[str], *, steps: int = 2, skip: int = 2,
                 cluster: str | os.PathLike[str] | None = None) -> None:
        self.recorded = Recorded(folder, steps=steps, skip=skip, cluster=cluster)
        self._is_open = False

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Of the Trainer."""
        if not self._is_open:
            self.recorded.__enter__()
            self._is_open = True

    def on_train_start(self, *_: Any, **__: Any) -> None:
        """Of Lightning."""
        self.on_train_begin()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Of both."""
        if self._is_open:
            self._is_open = False
            self.recorded.__exit__(None, None, None)

    def on_exception(self, *_: Any, **__: Any) -> None:
        """Of Lightning: the training failed, and nothing is compared."""
        if self._is_open:
            self._is_open = False
            self.recorded._open.close()
