"""What `shardscope record` adds to a training script from inside Python: names of modules, phases of a step, what a block
of memory is for, and a job whose other ranks are not there. Nothing of the script is changed."""
import importlib.abc
import importlib.util
import sys

from . import clocks, host_optimizers, observer, steps, timed_answers, triton_kernels, world


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls functions with a module as soon as it is imported."""

    def __init__(self, actions):
        self._actions = actions
        self._looking = set()

    def find_spec(self, name, path, target=None):
        if name not in self._actions or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        if spec is None or spec.loader is None:
            return None
        run, actions = spec.loader.exec_module, self._actions[name]

        def exec_module(module):
            run(module)
            for action in actions:
                action(module)

        spec.loader.exec_module = exec_module
        return spec


def start():
    clocks.start()
    actions = {"torch": [observer.load, steps.watch, timed_answers.watch],
               "torch._inductor.runtime.triton_heuristics": [triton_kernels.watch_inductor],
               "torch._inductor.runtime.benchmarking": [triton_kernels.leave_out_benchmarks],
               "triton.runtime.jit": [triton_kernels.watch_triton],
               "triton.testing": [triton_kernels.leave_out_benchmarks],
               "deepspeed.ops.adam.cpu_adam": [host_optimizers.watch_deepspeed]}
    for name, added in world.actions().items():
        actions.setdefault(name, []).extend(added)
    sys.meta_path.insert(0, _AfterImport(actions))
