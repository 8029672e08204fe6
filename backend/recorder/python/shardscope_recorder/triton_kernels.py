"""Kernels of Triton, which torch.compile writes and packages bring: each is told as an operator, with the tensors that it
is given. What they are launched for while they are tuned is told apart."""
import functools
import inspect

from . import log
from .operators import is_tensor, told


def _of_inductor(kernel, arguments, options):
    """By the names that Inductor gives: in_ptr0, out_ptr0, in_out_ptr0."""
    read, written = [], []
    for name, value in zip(kernel.triton_meta.get("signature", {}), arguments):
        if not is_tensor(value):
            continue
        if not name.startswith("out_ptr"):
            read.append(value)
        if not name.startswith("in_ptr"):
            written.append(value)
    return read, written


def _of_a_script(kernel, arguments, options):
    """Which of them it writes is not known: each counts once."""
    return [], [value for value in (*arguments, *options.values()) if is_tensor(value)]


def watch_inductor(module):
    tuner = module.CachingAutotuner
    tuner.run = told(tuner.run, lambda kernel: kernel.fn.__name__, _of_inductor)


def watch_triton(module):
    function = module.JITFunction
    function.run = told(function.run, lambda kernel: kernel.fn.__name__, _of_a_script)


def _aside(run):
    """`run`, whose launches are no part of the script's steps."""
    @functools.wraps(run)
    def aside(*arguments, **options):
        log.line("tuning", "begin")
        try:
            return run(*arguments, **options)
        finally:
            log.line("tuning", "end")
    return aside


def leave_out_benchmarks(module):
    """Of Inductor (torch._inductor.runtime.benchmarking) and of Triton (triton.testing)."""
    if hasattr(module, "do_bench"):
        module.do_bench = _aside(module.do_bench)
    for _, one in inspect.getmembers(module, inspect.isclass):
        if "benchmark_gpu" in vars(one):
            one.benchmark_gpu = _aside(one.benchmark_gpu)
