"""The log of the simulated device (docs/recording.md describes its lines)."""
import ctypes

_device = ctypes.CDLL(None)
_is_there = hasattr(_device, "shardscope_log")
if _is_there:
    _device.shardscope_text.restype = ctypes.c_uint
    _device.shardscope_clock_ns.restype = ctypes.c_long


def line(*fields):
    if _is_there:
        _device.shardscope_log("\t".join(map(str, fields)).encode())


def text(value):
    return _device.shardscope_text(str(value).encode()) if _is_there else 0


def next_group(members):
    """The global ranks of the communicator that NCCL makes next."""
    if _is_there:
        _device.shardscope_next_group(len(members), (ctypes.c_int * len(members))(*members))
    line("group", ",".join(map(str, members)))


def clock_ns():
    """Of the virtual time; -1: time is not modelled."""
    return _device.shardscope_clock_ns() if _is_there else -1


def sleep(seconds):
    _device.shardscope_sleep(ctypes.c_long(int(seconds * 1e9)))
