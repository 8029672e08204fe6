"""The script's own clocks in virtual time (`--time model`): what it measures is the simulated device's time, and that of a
host whose calls are counted. Python's own libraries and other threads keep the real clocks, since they wait for real things."""
import functools
import sys
import threading
import time

from . import log

_PER_SECOND = 1_000_000_000


def _is_the_scripts(frame):
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package not in sys.stdlib_module_names and threading.current_thread() is threading.main_thread()


def _virtual(real, starts_ns, in_seconds):
    @functools.wraps(real)
    def clock():
        if not _is_the_scripts(sys._getframe(1)):
            return real()
        now = starts_ns + log.clock_ns()
        return now / _PER_SECOND if in_seconds else now
    return clock


def _virtual_sleep(real):
    @functools.wraps(real)
    def sleep(seconds):
        if seconds > 0 and _is_the_scripts(sys._getframe(1)):
            log.sleep(seconds)
        real(seconds)
    return sleep


def start():
    if log.clock_ns() < 0:
        return
    for name in ("time", "perf_counter", "monotonic"):
        starts_ns = getattr(time, name + "_ns")()
        for one, in_seconds in ((name, True), (name + "_ns", False)):
            setattr(time, one, _virtual(getattr(time, one), starts_ns, in_seconds))
    time.sleep = _virtual_sleep(time.sleep)
