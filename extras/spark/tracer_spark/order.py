"""The order of the records of many machines: that of a merge of their traces by `tracemerge`, record by record.

A clock is that of a boot, or of the runs of a boot that count other ticks: lines between ticks and the wall clock, which
`tracemerge dataset clocks` computes on the executors from the readings in the table `clocks`. Boots that overlap in time
are a group, and their records get the ticks that the first boot of the group had at the same time of day.
"""

import collections
import json
import re
import subprocess
import sys

from pyspark import cloudpickle
from pyspark.sql import functions as F

# Executors need not have this package: they get the functions of this module by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# The columns that name a run.
RUN = ["host", "boot", "run"]
# The columns by which records are in order. `boot_number` is that of the boot in its order, `part` and `row` are those of the row in the files
# of its run. Records that share a reference tick are in the order of their threads' files, as in a merge.
ORDER = ["group", "reference_ticks", "boot_number", "pid", "run", "tid", "ticks", "part", "row"]
CLOCKS = (
    "clock string, began bigint, first bigint, last bigint, first_ticks bigint, last_ticks bigint, shift int, error bigint, "
    "twice array<array<string>>, runs array<array<string>>, to_wall array<array<bigint>>, to_ticks array<array<bigint>>"
)
# A line holds from `from` on and before `until`, in each `bucket` of these values.
LINES = (
    "line_clock string, line_bucket bigint, line_from bigint, line_until bigint, "
    "line_ticks bigint, line_ns bigint, line_rate_ticks bigint, line_rate_ns bigint, line_floor bigint"
)
LARGEST = 2**63 - 1


def exists(spark, path):
    """Returns whether there is a file or a directory of this path, on any file system of Hadoop."""
    found = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(path)
    return found.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).exists(found)


class Refused(Exception):
    """A set may have rows of a run twice. `tracemerge` refuses such a set, too."""


def twice(run, host, files):
    """Returns the error that a set has rows of a run twice, in these files."""
    remedy = "'tracemerge dataset compact' leaves the newest state of each run"
    return Refused(f"the data set has run {run} of {host} twice, in {' and in '.join(sorted(files))}: {remedy}")


def files_of_runs(rows, *columns):
    """Returns these columns, and the files in which the rows of each run are."""
    rows = rows.select(*RUN, F.col("_metadata.file_path").alias("file"), "*").groupBy(RUN)
    return rows.agg(F.collect_set("file").alias("files"), *columns)


def refuse_runs_twice(spark, path):
    """Raises an error if the table of runs has a run twice, as it has if sets with the same run were put together."""
    for row in files_of_runs(spark.read.parquet(f"{path}/runs")).where("size(files) > 1").orderBy(*RUN).take(1):
        raise twice(row.run, row.host, row.files)


def table(spark, path, name):
    """Returns a table of a set.

    Raises an error if a file has another name than the files of runs, which are numbered from 0 in each folder, and the
    compacted ones.
    """
    rows = spark.read.parquet(f"{path}/{name}")
    numbers = collections.defaultdict(set)
    for file in rows.inputFiles():
        folder, _, name = file.rpartition("/")
        found = re.fullmatch(r"([0-9a-f]+-\d+)-(\d+)\.parquet", name)
        if found:
            numbers[folder, found[1]].add(int(found[2]))
        elif not re.fullmatch(r"compact-[0-9a-f]+\.parquet", name):
            raise Refused(f"{file} does not have the name of a file of a data set: it is probably a copy; remove it")
    for (folder, run), found in numbers.items():
        if max(found) >= len(found):
            last = f"{folder}/{run}-{max(found)}.parquet"
            raise Refused(f"{last} is probably a copy, because the files before it are missing: remove it")
    return rows


def shift_of(lines, first, last):
    """Returns the power of two that is the width of the buckets between `first` and `last`: at most 4 a line, and 8."""
    return max(0, (last - first) // (4 * lines + 8)).bit_length()


def in_buckets(clock, lines, shift, first, last):
    """Yields the lines of a clock that hold between `first` and `last`, once for each bucket."""
    ends = [line[0] for line in lines[1:]] + [LARGEST]
    for (start, *line), end in zip(lines, ends):
        low, high = max(start, first), min(end, last + 1)
        if low < high:
            for bucket in range(low >> shift, ((high - 1) >> shift) + 1):
                yield (clock, bucket, start, end, *line)


def clocks(spark, path, tracemerge):
    """Returns a row for each clock. All readings of a boot go to one executor, and none to the driver."""
    readings = table(spark, path, "clocks").groupBy(RUN).agg(F.collect_list("reading").alias("readings"))
    ends = [F.min("ticks").alias("first_ticks"), F.max("ticks").alias("last_ticks"), F.count("*").alias("rows")]
    ends = files_of_runs(table(spark, path, "records"), *ends)
    said = spark.read.parquet(f"{path}/runs").select(*RUN, F.col("records").alias("said"))
    all_runs = readings.join(ends, RUN).join(said, RUN, "left").repartition("boot")

    def of_partition(rows):
        rows = list(rows)
        twice = [[row.run, row.host, *row.files] for row in rows if row.said is not None and row.rows > row.said]
        runs = [
            {"run": [row[key] for key in RUN], "readings": row.readings, "first": row.first_ticks, "last": row.last_ticks}
            for row in rows
        ]
        if not runs:
            return
        text = "\n".join(map(json.dumps, runs))
        done = subprocess.run([tracemerge, "dataset", "clocks"], input=text, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{tracemerge} dataset clocks: {done.stderr.strip()}")
        bounded = lambda lines: [[min(number, LARGEST) for number in line] for line in lines]
        for clock in map(json.loads, done.stdout.splitlines()):
            first, last = clock["period"] or (None, None)
            to_wall, to_ticks = bounded(clock["to_wall"]), bounded(clock["to_ticks"])
            shift = shift_of(len(to_wall), *clock["ticks"])
            name = f"{clock['boot']} {int(clock['is_system'])}"
            error = clock["error_ns"]
            yield (name, clock["began"], first, last, *clock["ticks"], shift, error, twice, clock["runs"], to_wall, to_ticks)

    return spark.createDataFrame(all_runs.rdd.mapPartitions(of_partition), CLOCKS)


def groups(boots):
    """Returns (clock, place, group, reference) for each of (began, clock, first, last).

    A group continues as long as a boot begins before another one has ended, as in a merge.
    """
    found, reference, group, end = [], None, None, None
    for place, (_, clock, first, last) in enumerate(sorted(boots, key=lambda boot: boot[:2])):
        joins = first is not None and end is not None and first <= end
        if not joins:
            reference, group = clock, place
        found.append((clock, place, group, reference))
        end = max(last, end) if joins else last
    return found


def along(x, by, over, up):
    """Returns the SQL of `x * by / over`, rounded up or down. The product has at most 38 digits: it is exact."""
    product = f"(cast({x} as decimal(19, 0)) * cast({by} as decimal(18, 0)))"
    rest = f"({product} % cast({over} as decimal(18, 0)))"
    correction = f"if({rest} > 0, 1, 0)" if up else f"if({rest} < 0, -1, 0)"
    return f"({product} div cast({over} as decimal(18, 0)) + {correction})"


def convert(records, lines, clock, shift, x, result, to_ticks):
    """Adds a column `result`: the value at `x` of the line of the clock in the column `clock`."""
    of, to, by, over = ("ns", "ticks", "rate_ticks", "rate_ns") if to_ticks else ("ticks", "ns", "rate_ns", "rate_ticks")
    holds = f"{clock} = line_clock and shiftright({x}, {shift}) = line_bucket and line_from <= {x} and {x} < line_until"
    value = f"greatest(line_floor, line_{to} + {along(f'({x} - line_{of})', f'line_{by}', f'line_{over}', to_ticks)})"
    joined = records.join(lines, F.expr(holds), "left")
    return joined.withColumn(result, F.expr(value)).drop(*lines.columns)


def or_fail(column, why):
    """Returns a column whose rows without a value fail the job."""
    return F.expr(f"coalesce({column}, raise_error(concat_ws(' ', '{why}: run', run, 'of', host)))")


def positioned(spark, path):
    """Returns the records of a set with the places of their rows."""
    records = table(spark, path, "records")
    part = F.regexp_extract("_metadata.file_name", r"-(\d+)\.parquet$", 1).try_cast("int")
    return records.withColumn("part", part).withColumn("row", F.col("_metadata.row_index")).drop("day", "machine")


def with_order(spark, path, tracemerge):
    """Returns the records of a set, not sorted, with the columns of ORDER, `ns`, the nanoseconds since 1970, and `error_ns`."""
    known = clocks(spark, path, tracemerge).persist()
    # Four values of each boot come to the driver, and the runs that the set has twice.
    found = known.select("began", "clock", "first", "last", "twice").collect()
    for run, host, *files in sorted(run for row in found for run in row.twice):
        raise twice(run, host, files)
    boots = [tuple(row)[:4] for row in found]
    grouped = spark.createDataFrame(groups(boots), "clock string, boot_number int, group int, reference string")
    # The latest time that a clock shows, if it was set back, is a floor of its lines.
    latest = F.expr("greatest(last, array_max(transform(to_wall, line -> line[5])))")
    of_group = known.join(grouped, "clock").groupBy("reference").agg(F.min("first").alias("low"), F.max(latest).alias("high"))
    to_ticks = known.select(F.col("clock").alias("reference"), "to_ticks").join(of_group, "reference")
    to_ticks = to_ticks.where("low is not null")

    def shift(row):
        return shift_of(len(row.to_ticks), row.low, row.high)

    wall_lines = known.rdd.flatMap(lambda row: in_buckets(row.clock, row.to_wall, row.shift, row.first_ticks, row.last_ticks))
    wall_lines = spark.createDataFrame(wall_lines, LINES)
    tick_lines = to_ticks.rdd.flatMap(lambda row: in_buckets(row.reference, row.to_ticks, shift(row), row.low, row.high))
    tick_lines = spark.createDataFrame(tick_lines, LINES)
    shifts = to_ticks.rdd.map(lambda row: (row.reference, shift(row)))
    shifts = spark.createDataFrame(shifts, "reference string, reference_shift int")
    errors = known.select(F.col("clock").alias("reference"), F.col("error").alias("reference_error"))
    runs = known.join(grouped, "clock").join(shifts, "reference", "left").join(errors, "reference", "left")
    # As in the tables of tracemerge: no error of a time of the reference, and the greatest integer if nothing limits it.
    error_ns = F.coalesce(F.col("error") + F.col("reference_error"), F.lit(LARGEST))
    runs = runs.withColumn("error_ns", F.when(F.expr("clock <> reference"), error_ns))
    of_run = ["clock", "boot_number", "group", "reference", "shift", "reference_shift", "error_ns"]
    runs = runs.select(F.explode("runs").alias("name"), *of_run)
    runs = runs.select(*(F.col("name")[n].alias(key) for n, key in enumerate(RUN)), *of_run)
    records = positioned(spark, path).join(F.broadcast(runs), RUN, "left")
    # No record is left out silently.
    records = records.withColumn("clock", or_fail("clock", "the table of clocks has no reading"))
    records = convert(records, wall_lines, "clock", "shift", "ticks", "ns", False)
    records = convert(records, tick_lines, "reference", "reference_shift", "ns", "at_reference", True)
    at_reference = or_fail("at_reference", "no line of the clocks holds for a record")
    at_reference = F.when(F.expr("clock = reference"), F.col("ticks")).otherwise(at_reference)
    records = records.withColumn("reference_ticks", at_reference)
    return records.drop("clock", "reference", "shift", "reference_shift", "at_reference")


def write(spark, path, out, tracemerge, rows_per_range=4_000_000):
    """Writes the records of a set in order, in folders by day and range of time, each with rows in order.

    The number of a range is part of its folder's name: `range=7` has records before those of `range=8`. Records are
    partitioned by their place in the order, not by their machine, so a machine with most of them is in many ranges.
    """
    refuse_runs_twice(spark, path)
    rows = spark.read.parquet(f"{path}/runs").agg(F.sum("records")).first()[0] or 0
    ranges = max(1, -(-rows // rows_per_range))
    records = with_order(spark, path, tracemerge)
    records = records.withColumn("time", F.timestamp_micros(F.expr("ns div 1000")))
    records = records.withColumn("day", F.to_date("time"))
    records = records.repartitionByRange(ranges, *ORDER).withColumn("range", F.spark_partition_id())
    records.sortWithinPartitions("day", "range", *ORDER).write.partitionBy("day", "range").parquet(out, compression="zstd")
