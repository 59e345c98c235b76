"""A set of many machines in Spark equals the merge of their traces, also if a worker is killed meanwhile.

The cluster consists of processes of their own. `TRACEMERGE` is the command; `MACHINES` and `RECORDS`, of each, make a
larger test.
"""

import collections
import contextlib
import glob
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path[:0] = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))]

import rows
import traces
from tracer_spark import cli, order, reports

TRACEMERGE = os.path.abspath(os.environ.get("TRACEMERGE", "target/debug/tracemerge"))
MACHINES = int(os.environ.get("MACHINES", 200))
RECORDS = int(os.environ.get("RECORDS", 40))
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.maxResultSize": "64m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # Folders are listed by the driver, and not by a job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.warehouse.dir": tempfile.gettempdir(),
}


def command(*arguments):
    """Returns the output of the command. The traces report losses, and so the status is 1."""
    done = subprocess.run([TRACEMERGE, *arguments], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return done.stdout


class Killer(threading.Thread):
    """Kills an executor once some, but not all, of the `tasks` that write have ended."""

    def __init__(self, spark, tasks):
        super().__init__(daemon=True)
        self.context, self.tasks, self.killed, self.is_over = spark.sparkContext, tasks, None, False

    def executors(self):
        """Returns the ids of the processes that run the tasks of this application."""
        found = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
        lines = (line.split(None, 1) for line in found.splitlines() if "CoarseGrainedExecutorBackend" in line)
        return [int(pid) for pid, args in lines if f"--app-id {self.context.applicationId} " in f"{args} "]

    def run(self):
        tracker = self.context.statusTracker()
        while self.killed is None and not self.is_over:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            writing = [stage for stage in stages if stage and stage.numTasks == self.tasks]
            if any(0 < stage.numCompletedTasks < stage.numTasks for stage in writing):
                self.killed = min(self.executors())
                os.kill(self.killed, signal.SIGKILL)
            time.sleep(0.01)


class Sets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        cls.folders = traces.write_all(f"{cls.place.name}/traces", MACHINES, RECORDS)
        cls.set = f"{cls.place.name}/traces.set"
        for machine, folder in cls.folders.items():
            command("dataset", "add", "-q", "--machine", machine, cls.set, folder)
        cls.spark = cli.session("local-cluster[2,1,1024]", SETTINGS.items())
        cls.spark.sparkContext.setLogLevel("OFF")

    @classmethod
    def tearDownClass(cls):
        cls.spark.stop()
        cls.place.cleanup()

    def counted(self, name):
        return reports.ALL[name](cli.table_of(self.spark, self.set)).collect()

    def view(self, *arguments, folders=None):
        folders = self.folders.values() if folders is None else folders
        return json.loads(command(*arguments, "--json", "--all-runs", "-o", "-", *folders))

    def assert_near(self, found, expected):
        """Checks that counts are equal, and durations up to a millionth.

        A set goes through all readings of a run's clocks, and a report through the first and the last ones of its boot.
        """
        self.assertEqual(set(found), set(expected))
        for name, sums in found.items():
            for key, number in sums.items():
                if key.endswith("_ns"):
                    self.assertAlmostEqual(number / expected[name][key], 1, delta=1e-6, msg=f"{name} {key}")
                else:
                    self.assertEqual(number, expected[name][key], f"{name} {key}")

    def test_the_order_is_that_of_a_merge_though_a_worker_is_killed(self):
        out, lines = f"{self.place.name}/ordered", f"{self.place.name}/set.jsonl"
        records = self.spark.read.parquet(f"{self.set}/records").count()
        ranges = 12
        killer = Killer(self.spark, ranges)
        killer.start()
        began = time.time()
        order.write(self.spark, self.set, out, TRACEMERGE, -(-records // ranges))
        print(f"{records} records in {time.time() - began:.1f} s")
        killer.is_over = True
        killer.join()
        self.assertIsNotNone(killer.killed)
        began = time.time()
        command("-q", "--format", "jsonl", "-o", lines, self.set)
        sizes = rows.compare(self.set, out, lines, f"{self.place.name}/temporary")
        count = sum(sizes.values())
        print(f"{count} rows are the same by Spark, DuckDB and tracemerge: {time.time() - began:.1f} s")
        self.assertEqual(count, records)
        # Half of the records are of one machine, and no range has many more than the others.
        self.assertEqual(len(sizes), ranges)
        self.assertLess(max(sizes.values()), 2 * records / ranges)

    def test_calls_are_those_of_the_report_of_each_machine(self):
        expected = collections.defaultdict(collections.Counter)
        for folder in self.folders.values():
            for row in self.view("report", "--rows", "all", folders=[folder])["functions"]:
                sums = expected[row["function"], row["place"]]
                sums.update({key: row[key] for key in ("calls", "total_ns", "self_ns")})
                sums["max_ns"] = max(sums["max_ns"], row["max_ns"])
        found = {
            (row.function, row.place): {key: int(row[key]) for key in ("calls", "total_ns", "self_ns", "max_ns")}
            for row in self.counted("report")
        }
        self.assert_near(found, expected)
        # In a merge, durations are by the clock of the first machine, and machines may set theirs.
        calls = {(row["function"], row["place"]): row["calls"] for row in self.view("report", "--rows", "all")["functions"]}
        self.assertEqual({key: sums["calls"] for key, sums in found.items()}, calls)

    def test_messages_are_those_of_stats(self):
        stats = self.view("stats", "--rows", "all")
        found = collections.Counter()
        for row in self.counted("stats"):
            found[row["sort"]] += row["count"]
        self.assertEqual(found, {row["message"]: row["count"] for row in stats["by_sort"]})
        self.assertEqual(sum(found.values()), stats["messages"])

    def test_spans_are_those_of_each_machine(self):
        keys = ["spans", "wall_total_ns", "polls", "cancelled", "open"]
        expected = collections.defaultdict(collections.Counter)
        for folder in self.folders.values():
            for row in self.view("spans", folders=[folder])["names"]:
                expected[row["name"]].update({key: row[key] for key in keys})
        found = {row["name"]: {key: int(row[key]) for key in keys} for row in self.counted("spans")}
        self.assert_near(found, expected)

    def test_losses_are_those_of_the_traces(self):
        found = {row.host: (row.reason, row.records, row.places) for row in self.counted("losses")}
        files = {name: len(os.listdir(folder)) for name, folder in self.folders.items()}
        expected = {name: ("full", (int(name[2:]) + 1) * count, count) for name, count in files.items()}
        self.assertEqual(found, expected)

    def refused(self, arguments, path):
        """Returns the message with which a job refuses a set, after a check that `tracemerge` refuses it, too."""
        report = subprocess.run([TRACEMERGE, "report", path], capture_output=True, text=True)
        self.assertEqual((report.returncode, report.stdout), (2, ""), report.stderr)
        self.assertRegex(report.stderr, "has run .* twice, in ")
        with self.assertRaises(SystemExit) as ended:
            cli.main(arguments)
        return str(ended.exception.code)

    def test_a_set_that_has_a_run_twice_is_refused(self):
        place = f"{self.place.name}/twice"
        os.mkdir(place)
        jobs = [[name, f"{place}/both"] for name in reports.ALL]
        jobs.append(["--tracemerge", TRACEMERGE, "order", f"{place}/both", f"{place}/ordered"])
        # The first machine of both sets has two runs, whose files become one.
        for name, machines in {"first": ["m-009", "m-001"], "second": ["m-009", "m-002"]}.items():
            for machine in machines:
                command("dataset", "add", "-q", "--machine", machine, f"{place}/{name}", self.folders[machine])
        command("dataset", "compact", "-q", f"{place}/second")
        for name in ["first", "second"]:
            shutil.copytree(f"{place}/{name}", f"{place}/both", dirs_exist_ok=True)
        for job in jobs:
            found = self.refused(job, f"{place}/both")
            self.assertRegex(found, "has run 0000000a-1036 of m-009 twice, in .*/0000000a-1036-0.parquet and in .*/compact-")
        command("dataset", "compact", "-q", f"{place}/both")
        self.assertFalse(os.path.exists(f"{place}/ordered"))
        with contextlib.redirect_stdout(io.StringIO()):
            for job in jobs:
                cli.main(job)
        records = self.spark.read.parquet(f"{self.set}/records").where("host in ('m-001', 'm-002', 'm-009')")
        self.assertEqual(self.spark.read.parquet(f"{place}/ordered").count(), records.count())

    def test_a_copy_of_a_file_is_refused(self):
        folder = glob.glob(f"{self.set}/records/day=*/machine=m-001")[0]
        order_it = ["--tracemerge", TRACEMERGE, "order", self.set, f"{self.place.name}/never"]
        for name in ["copy", "00000002-1004", "00000002-1004-7", "00000002-1004-1"]:
            copy = f"{folder}/{name}.parquet"
            shutil.copyfile(f"{folder}/00000002-1004-0.parquet", copy)
            # The number of rows shows that the next number is that of a copy, too.
            for job in [order_it] if name.endswith("-1") else [order_it, ["stats", self.set]]:
                self.assertIn(f"/{name}.parquet", self.refused(job, self.set))
            os.remove(copy)

    def test_a_set_is_read_without_settings(self):
        row = self.spark.read.parquet(f"{self.set}/records").schema
        types = {field.name: field.dataType.simpleString() for field in row}
        self.assertEqual([types[key] for key in ("wall", "ticks", "pid", "host")], ["timestamp", "bigint", "bigint", "string"])
        self.assertEqual(set(types.values()), {"timestamp", "bigint", "string", "date"})
        sums = self.spark.read.parquet(f"{self.set}/records").selectExpr("count(*)", "sum(ticks % 1000003)").first()
        for name, read in READERS.items():
            with self.subTest(name):
                self.assertEqual(read(f"{self.set}/records"), tuple(sums))


def by_pandas(path):
    import pandas

    ticks = pandas.read_parquet(path, columns=["ticks"]).ticks
    return (len(ticks), int((ticks % 1000003).sum()))


def by_polars(path):
    import polars

    ticks = polars.scan_parquet(path).select("ticks").collect()["ticks"]
    return (len(ticks), int((ticks % 1000003).sum()))


READERS = {"pandas": by_pandas, "polars": by_polars}

if __name__ == "__main__":
    unittest.main()
