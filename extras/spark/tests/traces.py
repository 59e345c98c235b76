"""Text traces of simulated machines, in version 1 of the format, which has no checksums."""

import datetime
import os
import random

EPOCH = datetime.datetime(1970, 1, 1)
BEGIN = 1_795_187_462_000_000_000


def date(ns):
    """Returns a time in the form of traces."""
    seconds = EPOCH + datetime.timedelta(seconds=ns // 10**9)
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09}Z"


def write(path, number, records, begin=BEGIN, seconds=30, step_back=False):
    """Writes the trace of a machine: two threads, each with calls, polls of spans, messages and a loss.

    Machines have other rates of ticks, other first ticks, and times that share microseconds, and nanoseconds, with each
    other. Readings of the clocks, one each ten seconds, are not on a line.
    """
    draw = random.Random(number)
    # Some counters are slower than a nanosecond, so several nanoseconds share a tick.
    hertz = draw.choice([24_000_000, 1_000_000_000, 2_899_999_123, 3_000_000_000])
    first, pid = draw.randrange(10**6, 10**15), 1000 + number
    start = begin + draw.randrange(0, 10**9)
    ticks_after = lambda ns: first + ns * hertz // 10**9
    run = (
        f'run version=1 id={number + 1:08x} root={number + 1:08x} pid={pid} exe="/bin/app" boot="boot-{number}" '
        f"ticks={first} wall={date(start)} clock=ordered"
    )
    os.makedirs(path)
    for tid in (pid, pid + 1):
        lines = [(first, f"# {run}")]
        for after in range(1, seconds, 10):
            drift = draw.randrange(-2000, 2000) - (5 * 10**9 if step_back and after > 10 else 0)
            at = after * 10**9
            lines.append((ticks_after(at), f"# clock ticks={ticks_after(at)} wall={date(start + at + drift)}"))
        count = records // 2
        for n in range(count):
            # Times are dense, and neighbours often share their ticks.
            at = seconds * 10**9 * (n - n % 3) // count
            at += draw.choice([0, 0, 1, 40, 900])
            kind = n % 10
            text = {
                0: "> app::serve at src/serve.rs:7",
                1: "> span=%d app::poll at src/poll.rs:9" % (tid * 1000 + n // 10),
                4: "< span=%d ended app::poll at src/poll.rs:9" % (tid * 1000 + n // 10),
                8: "< app::serve at src/serve.rs:7",
            }.get(kind, f": request {n} of {number} sent {draw.randrange(100)} bytes")
            lines.append((ticks_after(at), text))
        lines.append((ticks_after(seconds * 10**9 - 1), f"# lost records={number + 1} reason=full"))
        with open(f"{path}/app.trace.{tid}", "w") as out:
            # A thread's ticks never go back.
            highest = 0
            for ticks, text in sorted(lines, key=lambda line: line[0]):
                highest = max(highest, ticks)
                out.write(f"{highest:016x}-{tid:08} {text}\n")
