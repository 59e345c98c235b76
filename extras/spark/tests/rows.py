"""The rows of a data set as three readers have them, compared in the order of the merge, each with all of its columns.

The readers are Spark, by the records that `tracer-spark order` has written; DuckDB, which reads the set itself and sorts
its rows by the same keys; and `tracemerge`, by the lines of JSON of the set.
"""

import collections
import glob
import itertools
import re

import duckdb
import pyarrow
import pyarrow.compute as compute
import pyarrow.json
import pyarrow.parquet
from tracer_spark import order

# The columns of a set, and those by which a line of JSON has them.
COLUMNS = ["wall", "ticks", "host", "boot", "pid", "exe", "run", "tid", "thread", "kind", "level", "target", "place"]
COLUMNS += ["template", "message", "function", "depth", "span", "record"]
IN_JSON = ["ticks", "pid", "tid", "thread", "kind", "level", "target", "place", "template", "message", "function", "error_ns"]
# The columns that only the ordered rows have.
ADDED = ["reference_ticks", "error_ns"]
BATCH = 1 << 16

TEXT, INTEGER = pyarrow.string(), pyarrow.int64()
TYPES = {"wall": pyarrow.timestamp("us", "UTC"), **dict.fromkeys(["ticks", "pid", "tid", "depth", "span", "record"], INTEGER)}
SCHEMA = pyarrow.schema([(name, TYPES.get(name, TEXT)) for name in COLUMNS] + [(name, INTEGER) for name in ADDED])


def by_spark(ordered, sizes):
    """Yields the ordered rows. Adds the number of rows of each range to `sizes`."""
    number = lambda path: int(re.search(r"range=(\d+)", path)[1])
    paths = sorted(glob.glob(f"{ordered}/day=*/range=*/*.parquet"), key=lambda path: (number(path), path))
    for path in paths:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(BATCH, columns=[*COLUMNS, *ADDED]):
            sizes[number(path)] += len(batch)
            yield pyarrow.Table.from_batches([batch]).select(SCHEMA.names).cast(SCHEMA)


def by_duckdb(path, ordered, temporary):
    """Yields the rows of the set, sorted by the keys of the order."""
    engine = duckdb.connect(config={"temp_directory": temporary, "memory_limit": "2GB"})
    engine.execute("set timezone = 'UTC'")
    keys = ", ".join(f"k.{key}" for key in order.ORDER)
    columns = ", ".join([f"r.{name}" for name in COLUMNS] + [f"k.{name}" for name in ADDED])
    found = engine.sql(
        f"select {columns} from '{path}/records/**/*.parquet' r "
        f"join read_parquet('{ordered}/**/*.parquet', hive_partitioning = false) k using (host, boot, run, record) "
        f"order by {keys}"
    )
    for batch in found.to_arrow_reader(BATCH):
        yield pyarrow.Table.from_batches([batch]).cast(SCHEMA)


def by_tracemerge(lines):
    """Yields the lines of JSON as rows of a set."""
    types = {name: INTEGER if name in ADDED else TYPES.get(name, TEXT) for name in IN_JSON if name != "place"}
    types = pyarrow.schema({**types, "file": TEXT, "line": INTEGER})
    parse = pyarrow.json.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore")
    for batch in pyarrow.json.open_json(lines, parse_options=parse):
        table = pyarrow.Table.from_batches([batch])
        place = compute.binary_join_element_wise(table["file"], table["line"].cast(TEXT), ":")
        yield table.append_column("place", place).select(IN_JSON)


def in_batches(tables):
    """Yields the same rows in tables of BATCH rows."""
    rest, rows = [], 0
    for table in tables:
        rest.append(table)
        rows += len(table)
        while rows >= BATCH:
            whole = pyarrow.concat_tables(rest)
            yield whole.slice(0, BATCH).combine_chunks()
            rest, rows = [whole.slice(BATCH)], rows - BATCH
    if rows:
        yield pyarrow.concat_tables(rest).combine_chunks()


def as_in_json(table):
    """Returns the columns that lines of JSON have, where an error that nothing limits is null."""
    error = table["error_ns"]
    limited = compute.if_else(compute.equal(error, order.LARGEST), None, error)
    table = table.set_column(table.column_names.index("error_ns"), "error_ns", limited)
    return table.drop_columns("ticks").rename_columns({"reference_ticks": "ticks"}).select(IN_JSON)


def without_readings(table):
    """Returns a table without the texts of readings: a merge puts the ticks of the reference also into these."""
    is_reading = compute.is_in(table["kind"], pyarrow.array(["run", "clock"]))
    message = compute.if_else(is_reading, None, table["message"])
    return table.set_column(table.column_names.index("message"), "message", message)


def require_equal(found, expected, readers, at):
    """Raises an error that names the first row in which two tables differ, if they do."""
    if found.equals(expected):
        return
    for number, (row, other) in enumerate(itertools.zip_longest(found.to_pylist(), expected.to_pylist())):
        if row != other:
            raise AssertionError(f"row {at + number} is {row} by {readers[0]}, and {other} by {readers[1]}")
    raise AssertionError(f"{readers[0]} has columns of the types {found.schema}, and {readers[1]} {expected.schema}")


def compare(path, ordered, lines, temporary):
    """Compares all rows. Returns the number of rows of each range."""
    sizes, count = collections.Counter(), 0
    streams = [by_spark(ordered, sizes), by_duckdb(path, ordered, temporary), by_tracemerge(lines)]
    none = SCHEMA.empty_table()
    for spark, engine, merged in itertools.zip_longest(*map(in_batches, streams)):
        spark, engine = (none if table is None else table for table in (spark, engine))
        merged = as_in_json(none) if merged is None else merged
        require_equal(spark, engine, ("Spark", "DuckDB"), count)
        require_equal(without_readings(as_in_json(spark)), without_readings(merged), ("Spark", "tracemerge"), count)
        count += len(spark)
    return sizes
