"""What `recorded` does inside a training script: PyTorch's profiler, the allocator's history, and the settings of the run.

Everything is observed through hooks of PyTorch that are removed once the steps are recorded.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Optional

from shardscope._run_settings import Seen, settings_of

TRACE = "rank{rank}.pt.trace.json.gz"
SNAPSHOT = "rank{rank}.snapshot.pickle.gz"


def rank_and_world() -> tuple[int, int]:
    """Of the process group, else of the launcher's variables."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def join_ranks() -> None:
    """Waits until every rank has left its files."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()


def write_gzip(path: str, content: bytes) -> None:
    """Whole or not at all."""
    with gzip.open(path + ".part", "wb", compresslevel=6) as file:
        file.write(content)
    os.replace(path + ".part", path)


class Recording:
    """Records steps `skip` + 1 to `skip` + `steps`, a step ending with each call of the optimizer."""

    def __init__(self, folder: str, steps: int, skip: int) -> None:
        self.folder, self.steps, self.skip = folder, steps, skip
        self.rank, self.world = rank_and_world()
        self.steps_seen = 0
        self.is_complete = False
        self.settings: Optional[dict[str, Any]] = None
        self.no_settings = ""
        self.notes: list[str] = []
        self._seen = Seen()
        self._hooks = ExitStack()
        self._profiler: Any = None
        self._has_history = False

    def __enter__(self) -> Recording:
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._remove_old_files()
        self._hooks.callback(register_optimizer_step_post_hook(self._after_step).remove)
        self._seen.watch(self._hooks)
        if torch.cuda.is_available():
            torch.cuda.memory._record_memory_history(context=None, max_entries=1_000_000)  # type: ignore[no-untyped-call, unused-ignore]
            self._has_history = True
        self._start_profiler()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def _remove_old_files(self) -> None:
        """A recording replaces an earlier one of the same folder."""
        for name in os.listdir(self.folder):
            is_ours = re.fullmatch(r"rank(\d+)\.(pt\.trace\.json|snapshot\.pickle)\.gz", name)
            if is_ours and (int(is_ours[1]) == self.rank or (self.rank == 0 and int(is_ours[1]) >= self.world)):
                os.remove(os.path.join(self.folder, name))
        if self.rank == 0:
            with suppress(FileNotFoundError):
                os.remove(os.path.join(self.folder, "settings.json"))

    def _start_profiler(self) -> None:
        import torch
        from torch.profiler import ProfilerActivity, profile, schedule

        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
        self._profiler = profile(
            activities=activities, record_shapes=True, profile_memory=True, with_flops=True, with_modules=True,
            schedule=schedule(wait=self.skip - 1, warmup=1, active=self.steps, repeat=1), on_trace_ready=self._keep_trace)
        self._profiler.start()

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        if self._profiler is None:
            return
        self.steps_seen += 1
        self._seen.end_step(optimizer)
        self._profiler.step()
        if self.steps_seen == self.skip + self.steps:
            self._stop()
            self._keep_settings(optimizer)
            self.is_complete = True

    def _stop(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop()
        self._hooks.close()
        self._keep_snapshot()

    def _keep_trace(self, profiler: Any) -> None:
        """Without the host's name, so that the trace may be given away."""
        plain = os.path.join(self.folder, f".trace.{self.rank}.json")
        profiler.export_chrome_trace(plain)
        try:
            with open(plain, encoding="utf-8") as file:
                text = re.sub(r'"host_name": "[^"]*"', '"host_name": "host"', file.read())
            write_gzip(os.path.join(self.folder, TRACE.format(rank=self.rank)), text.encode())
        finally:
            os.remove(plain)

    def _keep_snapshot(self) -> None:
        if not self._has_history:
            return
        import torch

        self._has_history = False
        torch.cuda.synchronize()
        plain = os.path.join(self.folder, f".snapshot.{self.rank}.pickle")
        torch.cuda.memory._dump_snapshot(plain)  # type: ignore[no-untyped-call, unused-ignore]
        torch.cuda.memory._record_memory_history(enabled=None)  # type: ignore[no-untyped-call, unused-ignore]
        packed = os.path.join(self.folder, SNAPSHOT.format(rank=self.rank))
        with open(plain, "rb") as source, gzip.open(packed + ".part", "wb") as target:
            shutil.copyfileobj(source, target)
        os.remove(plain)
        os.replace(packed + ".part", packed)

    def _keep_settings(self, optimizer: Any) -> None:
        if self.rank != 0:
            return
        name = os.path.basename(self.folder.rstrip(os.sep))
        try:
            self.settings = settings_of(name, self._seen, optimizer, self.world, self.steps, self.skip, self.notes)
        except LookupError as why:
            self.no_settings = str(why.args[0])
            return
        except Exception as why:  # names behind PyTorch's interface may change; the training goes on
            self.no_settings = f"the settings cannot be found out with this PyTorch ({type(why).__name__}: {why})"
            return
        path = os.path.join(self.folder, "settings.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            file.write("{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in self.settings.items()) + "\n}\n")
        os.replace(path + ".part", path)
