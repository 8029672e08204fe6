"""The log of the simulated device (docs/recording.md describes its lines)."""
import ctypes

_device = ctypes.CDLL(None)
_is_there = hasattr(_device, "shardscope_log")
if _is_there:
    _device.shardscope_text.restype = ctypes.c_uint


def line(*fields):
    if _is_there:
        _device.shardscope_log("\t".join(map(str, fields)).encode())


def text(value):
    return _device.shardscope_text(str(value).encode()) if _is_there else 0


def next_group(members):
    """The global ranks of the communicator that NCCL makes next."""
    if _is_there:
        _device.shardscope_next_group(len(members))
    line("group", ",".join(map(str, members)))
