"""Calls that torch does not know as operators, told as such: with the tensors that they are given."""
import functools

from . import log

_SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64", "int64": "i64", "int32": "i32",
          "bool": "bool", "uint8": "u8", "int8": "i8"}


def is_tensor(value):
    return hasattr(value, "untyped_storage") and hasattr(value, "is_cuda")


def _described(tensors):
    """As the observer describes an operator's."""
    texts = []
    for tensor in tensors:
        kind = _SHORT.get(str(tensor.dtype).removeprefix("torch."), str(tensor.dtype))
        place = "" if tensor.is_cuda else tensor.device.type + ":"
        text = f"{place}{kind}[{','.join(map(str, tensor.shape))}]"
        if not tensor.is_contiguous():
            text += "/" + ",".join(map(str, tensor.stride()))
        texts.append(text)
    return log.text(";".join(texts))


def told(run, name_of, tensors_of):
    """`run`, told as an operator `name_of(first argument)` that reads and writes `tensors_of(first argument, others, options)`."""
    @functools.wraps(run)
    def told_run(first, *arguments, **options):
        read, written = tensors_of(first, arguments, options)
        log.line("op", log.text(name_of(first)), _described(read), -1, 0)
        try:
            return run(first, *arguments, **options)
        finally:
            log.line("end", _described(written))
    return told_run
