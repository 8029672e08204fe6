#!/usr/bin/env python3
"""When `plan` shows its first way and each better one, and how long it goes on after Ctrl-C.

    plan_screen.py SHARDSCOPE [--interrupt N [--within SECONDS]] -- PLAN_OPTION...

Runs `SHARDSCOPE plan PLAN_OPTION...` with standard error on a pseudo terminal and prints a line for each better way that is shown. With
--interrupt N it then runs the plan N times more, each stopped by SIGINT at another moment within SECONDS (as long as the first run took),
and prints the time from the signal to the end beside the best way of the answer. Times are wall time from the start of the process."""
import argparse
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

BEST = re.compile(r"best so far (\S+ \S+) a step: ([^\r\x1b]*)")


def run(program, options, interrupt_after=None):
    """Shown ways as (seconds, step time, text), seconds of the whole run, from the signal on, and what was printed."""
    ours, theirs = pty.openpty()
    begin = time.monotonic()
    process = subprocess.Popen([program, "plan", *options, "--json"], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    out = process.stdout.fileno()
    shown, printed, sent, open_ends = [], b"", None, {ours, out}
    while open_ends:
        now = time.monotonic() - begin
        if interrupt_after is not None and sent is None and now >= interrupt_after:
            process.send_signal(signal.SIGINT)
            sent = time.monotonic() - begin
        wait = 1 if interrupt_after is None or sent else max(0, interrupt_after - now)
        for end in select.select(list(open_ends), [], [], wait)[0]:
            try:
                data = os.read(end, 65536)
            except OSError:  # the other side of the terminal is closed
                data = b""
            if not data:
                open_ends.discard(end)
            elif end == out:
                printed += data
            else:
                for best in BEST.finditer(data.decode(errors="replace")):
                    if not shown or shown[-1][1:] != best.groups():
                        shown.append((time.monotonic() - begin, *best.groups()))
    process.wait()
    end = time.monotonic() - begin
    os.close(ours)
    return shown, end, None if sent is None else end - sent, printed


def best_of(printed):
    """Step time in ms and text of the first place; none where there is no place or no answer."""
    try:
        places = json.loads(printed)["candidates"]
    except (json.JSONDecodeError, KeyError):
        return "no answer"
    return f"{places[0]['step_time_ns'] / 1e6:.1f} ms, {places[0]['text']}" if places else "no place"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--interrupt", type=int, default=0, metavar="N")
    parser.add_argument("--within", type=float, metavar="SECONDS")
    parser.add_argument("options", nargs="+")
    given = parser.parse_args()
    shown, whole, _, printed = run(given.program, given.options)
    for seconds, step, text in shown:
        print(f"{seconds:6.2f} s  {step}: {text}")
    print(f"{whole:6.2f} s  the end: {best_of(printed)}")
    waits = []
    for number in range(given.interrupt):
        moment = (given.within or whole) * (number + 0.5) / given.interrupt
        _, _, after, printed = run(given.program, given.options, moment)
        if after is None:
            continue  # it was faster this time
        waits.append(after)
        print(f"Ctrl-C after {moment:5.2f} s: {after:5.2f} s more, {best_of(printed)}")
    if waits:
        print(f"from Ctrl-C to the end: {sorted(waits)[len(waits) // 2]:.2f} s in the median, {max(waits):.2f} s at most")


main()
