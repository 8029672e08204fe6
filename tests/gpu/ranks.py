#!/usr/bin/env python3
"""Several ranks on one GPU: losses of every strategy beside those of one rank, the same bits twice, a rank that is killed
or hangs, one that is restarted, a run that resumes, device memory beside what is predicted. Writes REPORT/ranks.json after every figure; times mean nothing. RANKS="memory": only what has this word in its name."""
import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

from bench import OutOfTime, write_tokens

TOLERANCE = 1e-5  # of losses in float32, relative
MEMORY_TOLERANCE = 0.02
GLOBAL_BATCH, SEQ = 4, 16
BEYOND_DEADLINE_S = 5
BEYOND_DEADLINE_DRY_S = 60  # on a machine that does much else
RANK_LOST = 4  # exit code

STRATEGIES = {"no_shard": (2, 4), "zero1": (2, 4), "shard_grad_op": (2, 4), "full_shard": (2, 4), "hybrid_shard": (4,)}
# Never seen on a GPU: strategy, ranks, further keys of the job.
SETTINGS = (("hybrid_shard_zero2", 4, {}), ("no_shard", 1, {"offload": "optimizer"}), ("zero1", 2, {"offload": "optimizer"}),
            ("full_shard", 1, {"offload": "all"}), ("full_shard", 2, {"offload": "all"}),
            ("full_shard", 2, {"prefetch": "backward_post", "checkpointing": "selective", "wrap": "blocks:0+1"}))
# Schedule, strategy inside a stage, mesh, checkpointing: two stages of one layer each.
PIPELINES = (("InterleavedZeroBubble", "no_shard", {"pipeline": 2}, "none"),
             ("InterleavedZeroBubble", "full_shard", {"pipeline": 2, "shard": 2}, "none"),
             ("ZBVZeroBubble", "no_shard", {"pipeline": 2}, "none"),
             ("ZBVZeroBubble", "no_shard", {"pipeline": 2}, "full"),
             ("DualPipeV", "no_shard", {"pipeline": 2}, "none"),
             ("Interleaved1F1B", "no_shard", {"pipeline": 2}, "none"),
             ("LoopedBFS", "no_shard", {"pipeline": 2}, "none"),
             ("GPipe", "no_shard", {"pipeline": 2}, "none"), ("1F1B", "no_shard", {"pipeline": 2}, "none"),
             ("1F1B", "no_shard", {"pipeline": 2, "replicate": 2}, "none"),
             ("1F1B", "zero1", {"pipeline": 2, "shard": 2}, "none"),
             ("1F1B", "shard_grad_op", {"pipeline": 2, "shard": 2}, "none"),
             ("1F1B", "full_shard", {"pipeline": 2, "shard": 2}, "none"))
# Four stages of these, of which the first and the last have no layer.
TWO_STAGES_A_RANK = ("Interleaved1F1B", "LoopedBFS", "ZBVZeroBubble", "DualPipeV")


class DeviceMemory:
    """What the driver says is in use on the first GPU, by all processes; None where there is no driver."""

    def __init__(self):
        self.driver = None
        try:
            driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return
        context, device = ctypes.c_void_p(), ctypes.c_int()
        if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
            return
        if driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device):
            return
        self.driver, self.context = driver, context

    def used(self):
        if self.driver is None:
            return None
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.cuCtxSetCurrent(self.context)  # of this thread
        if self.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
            return None
        return total.value - free.value


def processes_with(word, variable=None):
    """Numbers of the processes with `word` among their arguments, and `variable` ("RANK=1") in their environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            has_word = word.encode() in (folder / "cmdline").read_bytes().split(b"\0")
            if has_word and (variable is None or variable.encode() in (folder / "environ").read_bytes().split(b"\0")):
                found.append(int(folder.name))
        except OSError:
            continue  # it has ended
    return [pid for pid in found if pid != os.getpid()]


class RanksBench:
    def __init__(self, options):
        self.options, self.report = options, options.report
        self.device = "cpu" if options.dry else "cuda"
        self.steps = 5 if options.dry else 50
        self.timeout_s = 5 if options.dry else 10
        self.beyond_s = BEYOND_DEADLINE_DRY_S if options.dry else BEYOND_DEADLINE_S
        self.deadline = time.monotonic() + options.limit_s
        self.folder = options.report / "ranks"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.memory = DeviceMemory() if not options.dry else None
        self.result = {"schema": "shardscope.gpu_ranks/1", "device": self.device, "steps": self.steps, "losses": [], "pipelines": [],
                       "same_bits_twice": None, "lost_ranks": [], "resumed": [], "memory": [], "failed": []}

    def save(self):
        part = self.report / "ranks.json.part"
        part.write_text(json.dumps(self.result, indent=1))
        part.rename(self.report / "ranks.json")

    def guarded(self, what, action):
        """A fact that does not hold, or cannot be seen, costs that fact alone."""
        if os.environ.get("RANKS", "") not in what:
            return
        try:
            why = "no time was left" if self.deadline - time.monotonic() < 5 else action()
        except OutOfTime:
            why = "no time was left"
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:600]
        if why:
            self.result["failed"].append({"what": what, "why": why})
        self.save()

    def command(self, name, strategy, ranks, **more):
        """Of `train` with `ranks` ranks that have the same global batch, whatever their number; the run's folder."""
        run = self.folder / name
        job = {"model": str(self.options.bundle / "models" / "gpt2_dry"), "data": str(self.folder / "tokens.bin"),
               "tokens": "uint16", "batch": GLOBAL_BATCH // ranks, "seq": SEQ, "steps": self.steps, "precision": "fp32",
               "strategy": strategy, "ranks": ranks, "device": self.device, "save_model": False, "clip": 1.0,
               "timeout": f"{self.timeout_s} s", "deterministic": True, **more}
        if strategy.startswith("hybrid_shard"):
            job["mesh"] = {"replicate": 2, "shard": ranks // 2}
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(job))
        return [self.options.programs / "shardscope", "train", file, "--json", "--quiet", "-o", run], run

    def train(self, name, strategy, ranks, options=(), variables=(), **more):
        command, run = self.command(name, strategy, ranks, **more)
        command += options
        limit = min(90, self.deadline - time.monotonic())
        if limit < 3:
            raise OutOfTime()
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=os.environ | dict(variables))
        if done.returncode != 0:
            raise RuntimeError(f"{name}: exit code {done.returncode}: {done.stderr.strip()[-400:]}")
        lines = (run / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines], json.loads(done.stdout)

    def check_losses(self, strategy, ranks, expected, settings={}):
        name = "_".join([f"{strategy}.{ranks}", *settings])
        losses, _ = self.train(name, strategy, ranks, **settings)
        if len(losses) != self.steps or len(expected) != self.steps:
            return f"{len(losses)} and {len(expected)} steps instead of {self.steps}"
        most = max(abs(ours - theirs) / abs(theirs) for ours, theirs in zip(losses, expected))
        self.result["losses"].append({"strategy": strategy, "ranks": ranks, "settings": settings, "last_loss": losses[-1],
                                      "largest_relative_difference": most, "passed": most <= TOLERANCE})
        return None if most <= TOLERANCE else f"losses differ by {most:.3g} of one rank's, more than {TOLERANCE}"

    def check_pipeline(self, schedule, strategy, mesh, checkpointing, expected):
        """Losses of one rank, and live bytes on the device as predicted."""
        copies = mesh.get("shard", 1) * mesh.get("replicate", 1)
        name = f"{schedule}.{strategy}.{copies}.{checkpointing}"
        stages = {"stages_per_rank": 2, "stages": "0,1,1,0"} if schedule in TWO_STAGES_A_RANK else {}
        cluster = [] if self.options.dry else ["--cluster", "h100_sxm"]  # a GPU's, which no CPU job takes
        losses, output = self.train(name, strategy, 2 * copies, options=cluster, mesh=mesh, batch=1,
                                    accumulate=GLOBAL_BATCH // copies, checkpointing=checkpointing,
                                    pipeline={"schedule": schedule, **stages})
        most = max(abs(ours - theirs) / abs(theirs) for ours, theirs in zip(losses, expected, strict=True))
        predicted, profiled = (output[side] and output[side]["memory"]["peak_allocated_bytes"]
                               for side in ("predicted", "profiled"))
        unpredicted = self.options.dry and predicted is None  # without a profile of this machine
        passed = most <= TOLERANCE and (unpredicted or predicted == profiled)
        self.result["pipelines"].append({"schedule": schedule, "strategy": strategy, "mesh": mesh,
                                         "checkpointing": checkpointing, "largest_relative_difference": most, "peak_allocated_bytes": profiled,
                                         "predicted_peak_allocated_bytes": predicted, "passed": passed})
        return None if passed else f"losses differ by {most:.3g}; {predicted} B predicted, {profiled} B profiled"

    def check_same_bits(self):
        first, _ = self.train("first", "full_shard", 2)
        second, _ = self.train("second", "full_shard", 2)
        self.result["same_bits_twice"] = first == second
        return None if first == second else "two runs of the same job have different losses"

    def check_lost_rank(self, name, sent, bound_s):
        """The job ends with its exit code in time, names rank 1, and leaves nothing running."""
        command, run = self.command(name, "full_shard", 2, steps=9000000)
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            self.wait_for_steps(job, run)
            os.kill(processes_with(str(run), "RANK=1")[0], sent)
            begin = time.monotonic()
            _, said = job.communicate(timeout=bound_s + 20)
            elapsed = time.monotonic() - begin
        finally:
            job.kill()
        left = processes_with(str(run))
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        passed = job.returncode == RANK_LOST and elapsed <= bound_s and "rank 1" in said and not left
        self.result["lost_ranks"].append({"how": name, "exit_code": job.returncode, "elapsed_s": round(elapsed, 2),
                                          "bound_s": bound_s, "left_running": len(left), "said": said.strip()[-600:],
                                          "passed": passed})
        return None if passed else f"exit code {job.returncode} after {elapsed:.1f} s, {len(left)} left: {said[-300:]}"

    def check_resumed(self, kind):
        """A run that was saved half-way goes on with the bits of one that was not."""
        whole, _ = self.train("whole", "full_shard", 2)
        checkpoint, name = {"every": 2, "kind": kind}, f"resumed.{kind}"
        shutil.rmtree(self.folder / name, ignore_errors=True)
        self.train(name, "full_shard", 2, checkpoint=checkpoint, steps=self.steps // 2)
        losses, _ = self.train(name, "full_shard", 2, options=["--resume"], checkpoint=checkpoint)
        passed = losses == whole
        self.result["resumed"].append({"how": kind, "passed": passed})
        return None if passed else f"{losses} are not {whole}"

    def check_restarted(self):
        """A rank is lost in step 2, whose operations are walked, and the job starts again from step 1."""
        whole, _ = self.train("whole", "full_shard", 2)
        shutil.rmtree(self.folder / "restarted", ignore_errors=True)
        losses, _ = self.train("restarted", "full_shard", 2, options=["--max-restarts", "1"], checkpoint={"every": 1},
                               variables=[("SHARDSCOPE_FAULT", "kill,rank=1,step=2")])
        passed = losses == whole
        self.result["resumed"].append({"how": "restarted", "passed": passed})
        return None if passed else f"{losses} are not {whole}"

    def wait_for_steps(self, job, run):
        until = min(time.monotonic() + 60, self.deadline)
        metrics = run / "metrics.jsonl"
        while not metrics.exists() or metrics.read_text().count("\n") < 3:
            if job.poll() is not None or time.monotonic() > until:
                job.kill()
                raise RuntimeError(f"no step was finished: {job.communicate()[1].strip()[-400:]}")
            time.sleep(0.05)

    def peak_used(self, name, ranks):
        """Most bytes in use beyond those before, while a job trains; bytes of its arena and outside it, as predicted."""
        before, most, ended = self.memory.used(), [0], threading.Event()

        def watch():
            while not ended.wait(0.02):
                most[0] = max(most[0], self.memory.used() - before)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            _, output = self.train(name, "full_shard", ranks, model=str(self.options.bundle / "models" / "gpt2_124m"), seq=64)
        finally:
            ended.set()
            watcher.join()
        memory = (output["predicted"] or output["profiled"])["memory"]
        return most[0], memory["arena_bytes"] + memory["outside_bytes"]

    def check_memory(self):
        """Each rank: what the calibration says that a process and its NCCL take, and the arena that is predicted."""
        before = self.memory.used()  # this process's context, which the calibration sees, too
        profile = self.folder / "hardware.json"
        self.command("full_shard.2", "full_shard", 2)  # writes the job
        done = subprocess.run([self.options.programs / "shardscope", "calibrate", "--device", self.device, "--ranks", "2",
                               "--job", self.folder / "full_shard.2.json", "--model-only", "--json", "-o", profile],
                              capture_output=True, text=True, timeout=min(120, max(3, self.deadline - time.monotonic())))
        if done.returncode != 0:
            raise RuntimeError(f"calibrate: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
        figures = json.loads(profile.read_text())
        nccl = parse_bytes(figures["communicator_memory"]["value"])
        context = parse_bytes(figures["context_memory"]["value"]) - before // 2
        measured, arena = self.peak_used("memory.2", 2)
        predicted = 2 * (context + nccl + arena)
        error = predicted / measured - 1
        self.result["memory"].append({"ranks": 2, "context_bytes": context, "nccl_bytes": nccl, "predicted_bytes": predicted,
                                      "measured_bytes": measured, "error_share": error})
        return None if abs(error) <= MEMORY_TOLERANCE else f"predicted {predicted} B, measured {measured} B"

    def run(self):
        self.save()
        write_tokens(self.folder / "tokens.bin", (self.steps + 1) * GLOBAL_BATCH * SEQ + 1)
        expected = []
        self.guarded("one rank", lambda: expected.extend(self.train("one_rank", "no_shard", 1)[0]))
        for strategy, ranks, settings in SETTINGS:
            self.guarded(f"losses of {strategy} on {ranks} with {settings}",
                         lambda: self.check_losses(strategy, ranks, expected, settings))
        for schedule, strategy, mesh, checkpointing in PIPELINES:
            self.guarded(f"pipeline {schedule} with {strategy} on {mesh}, checkpointing {checkpointing}",
                         lambda: self.check_pipeline(schedule, strategy, mesh, checkpointing, expected))
        self.guarded("the same bits twice", self.check_same_bits)
        self.guarded("a rank that is killed",
                     lambda: self.check_lost_rank("killed", signal.SIGKILL, self.beyond_s))
        self.guarded("a rank that hangs",
                     lambda: self.check_lost_rank("hung", signal.SIGSTOP, self.timeout_s + self.beyond_s))
        for kind in ("sharded", "full", "local"):
            self.guarded(f"a run that resumes from {kind}", lambda: self.check_resumed(kind))
        self.guarded("a rank that is restarted", self.check_restarted)
        if self.memory is not None:
            self.guarded("memory of the device", self.check_memory)
        # Last: the strategies were seen on a GPU before (docs/measured/2026-11-26_h200.md).
        for strategy, numbers in STRATEGIES.items():
            for ranks in numbers:
                self.guarded(f"losses of {strategy} on {ranks}", lambda: self.check_losses(strategy, ranks, expected))


def parse_bytes(text):
    """"9.5 MiB" and its likes, as profiles write them."""
    number, unit = text.split()
    units = ("B", "kB", "MB", "GB", "TB"), ("B", "KiB", "MiB", "GiB", "TiB")
    return round(float(number) * (1024 ** units[1].index(unit) if unit in units[1] else 1000 ** units[0].index(unit)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--report", type=pathlib.Path, required=True)
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    for name in ("bundle", "programs", "report"):
        setattr(options, name, getattr(options, name).resolve())
    bench = RanksBench(options)
    bench.run()
    print(json.dumps(bench.result["failed"]))
    return 1 if bench.result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
