"""Text traces of simulated machines, in version 1 of the format, which has no checksums."""

import datetime
import os
import random

EPOCH = datetime.datetime(1970, 1, 1)
BEGIN = 1_795_187_462_000_000_000
SECOND = 10**9


def date(ns):
    """Returns a time in the form of traces."""
    seconds = EPOCH + datetime.timedelta(seconds=ns // SECOND)
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{ns % SECOND:09}Z"


class Machine:
    """A machine with a counter of its own.

    Some counters are slower than a nanosecond, so several nanoseconds share a tick. The readings of the clocks, one each
    ten seconds, are not on a line, and the wall clock may be set back.
    """

    def __init__(self, number, begin=BEGIN, seconds=30, is_set_back=False):
        self.draw = random.Random(number)
        self.number, self.seconds, self.is_set_back = number, seconds, is_set_back
        self.hertz = self.draw.choice([24_000_000, SECOND, 2_899_999_123, 3_000_000_000])
        self.first = self.draw.randrange(10**6, 10**15)
        self.start = begin + self.draw.randrange(0, SECOND)
        # The system of each third machine states no error of its wall clock.
        self.error = f" error={1000 + number}" if number % 3 < 2 else ""

    def ticks(self, after):
        return self.first + after * self.hertz // SECOND

    def write(self, folder, records, run=0, threads=2):
        """Writes a run that begins `run` times three seconds after the boot: calls, polls of spans, messages and a loss.

        The times of machines and threads share microseconds, nanoseconds and ticks.
        """
        number, pid, begin = self.number, 1000 + 4 * self.number + 2 * run, 3 * run * SECOND
        about = (
            f'run version=1 id={number + 1:08x} root={number + 1:08x} pid={pid} exe="/bin/app" boot="boot-{number}" '
            f"ticks={self.ticks(begin)} wall={date(self.start + begin)} clock=ordered"
        )
        os.makedirs(folder, exist_ok=True)
        for tid in range(pid, pid + threads):
            lines = [(self.ticks(begin), f"# {about}")]
            # The last reading is at the end of a file.
            for after in [*range(begin // SECOND + 1, self.seconds, 10), *[self.seconds] * (self.seconds > 1)]:
                set_back = 5 * SECOND if self.is_set_back and after > 10 else 0
                wall = self.start + after * SECOND + self.draw.randrange(-2000, 2000) - set_back
                ticks = self.ticks(after * SECOND)
                lines.append((ticks, f"# clock ticks={ticks} wall={date(wall)}{self.error}"))
            count = records // threads
            for n in range(count):
                after = begin + (self.seconds * SECOND - begin) * (n - n % 3) // count
                # Calls do not overlap.
                late = self.draw.choice([0, 0, 1, 40, 900]) * (n % 10 not in (0, 1, 4, 8))
                ticks = self.ticks(after + late)
                span = tid * 10**7 + n // 10
                message = f": request {n} of {number} sent {self.draw.randrange(100)} bytes"
                text = {
                    0: "> app::serve at src/serve.rs:7",
                    1: f"> span={span} app::poll at src/poll.rs:9",
                    4: f"< span={span} ended app::poll at src/poll.rs:9",
                    8: "< app::serve at src/serve.rs:7",
                }.get(n % 10, message)
                lines.append((ticks, text))
            end = self.ticks(self.seconds * SECOND - 1)
            lines.append((end, f"# lost records={number + 1} reason=full"))
            with open(f"{folder}/app{run}.trace.{tid}", "w") as out:
                # A thread's ticks never go back.
                highest = 0
                for ticks, text in sorted(lines, key=lambda line: line[0]):
                    highest = max(highest, ticks)
                    out.write(f"{highest:016x}-{tid:08} {text}\n")


def write_all(folder, machines, records):
    """Writes the traces of so many machines. The first one has half of all records.

    Each tenth has two runs in one boot, each eleventh sets its clock back, each thirteenth is there an hour later, and each
    sixty-seventh has one reading of its clocks only.
    Returns the folders by the machines' names.
    """
    folders = {}
    for number in range(machines):
        name = f"m-{number:03}"
        folders[name] = f"{folder}/{name}"
        begin = BEGIN + (3600 * SECOND if number % 13 == 12 else 0)
        seconds = 1 if number % 67 == 66 else 30
        machine = Machine(number, begin, seconds, is_set_back=number % 11 == 10)
        machine.write(folders[name], records * machines if number == 0 else records)
        if number % 10 == 9 and seconds > 3:
            machine.write(folders[name], records, run=1)
    return folders
