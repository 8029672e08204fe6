"""Optimizers that update the host's memory in code of their own, which is no operator of torch's."""
import functools

from .operators import is_tensor, told


class _Told:
    """DeepSpeed's extension: cpu_adam reads and writes parameters, both moments, and reads gradients."""

    def __init__(self, extension):
        self._extension = extension
        self.adam_update = told(extension.adam_update, lambda _: "deepspeed::adam_update", self._tensors)

    def __getattr__(self, name):
        return getattr(self._extension, name)

    @staticmethod
    def _tensors(_, arguments, options):
        tensors = [value for value in arguments if is_tensor(value)]
        gradient = 1  # parameters, gradients, both moments
        return tensors, tensors[:gradient] + tensors[gradient + 1:]


def watch_deepspeed(module):
    optimizer = module.DeepSpeedCPUAdam
    make = optimizer.__init__

    @functools.wraps(make)
    def make_told(self, *arguments, **options):
        make(self, *arguments, **options)
        self.ds_opt_adam = _Told(self.ds_opt_adam)

    optimizer.__init__ = make_told
