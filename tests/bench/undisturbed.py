"""Measuring where other processes may take the cores: who else was busy meanwhile, and once more if it was too much."""
import os
import time

DISTURBED_SHARE = 0.03  # of the cores, taken by other processes


def busy_seconds():
    """Processor time of all cores that was not idle, and what of it our finished children had."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    own = os.times()
    return ((user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"),
            own.children_user + own.children_system)


def share_of_others(before, after, elapsed_s):
    """Of the cores' time, what neither we nor our children took."""
    return ((after[0] - before[0]) - (after[1] - before[1])) / (elapsed_s * os.cpu_count())


def undisturbed(function, *arguments, tries=3):
    """Calls it, again (`tries` times at most) where others took part in it; what it returned last, and the share that they had then."""
    for _ in range(tries):
        begin, before = time.monotonic(), busy_seconds()
        result = function(*arguments)
        others = share_of_others(before, busy_seconds(), time.monotonic() - begin)
        if others <= DISTURBED_SHARE:
            break
    return result, others
