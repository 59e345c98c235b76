"""The command `tracer-spark`."""

import argparse
import os
import sys

from pyspark.sql import SparkSession

from tracer_spark import order, reports


def parser():
    commands = argparse.ArgumentParser(
        prog="tracer-spark", description="Orders and reports data sets of tracemerge, of any number of machines."
    )
    commands.add_argument("--master", help="the cluster [default: that of spark-submit, or all processors of this machine]")
    setting = lambda text: tuple(text.split("=", 1))
    commands.add_argument("--conf", type=setting, action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark")
    commands.add_argument("--tracemerge", default="tracemerge", help="the command on each executor [default: tracemerge]")
    within = commands.add_subparsers(dest="command", required=True, metavar="COMMAND")
    ordered = within.add_parser("order", help="write the records of all machines in one order, by day and range of time")
    ordered.add_argument("set", help="the data set")
    ordered.add_argument("output", help="the directory to write, which must not exist")
    ordered.add_argument("--rows", type=int, default=4_000_000, help="the records of a range [default: 4000000]")
    for name, of in reports.ALL.items():
        report = within.add_parser(name, help=of.__doc__.splitlines()[0])
        report.add_argument("set", help="the data set")
        report.add_argument("--top", type=int, default=20, help="the number of rows [default: 20]")
        report.add_argument("--json", metavar="DIR", help="write all rows as lines of JSON to a directory that does not exist")
    return commands


def session(master=None, settings=()):
    """Returns a session whose times are in UTC, on the cluster of spark-submit, or on this machine by default."""
    builder = SparkSession.builder.appName("tracer-spark")
    if master or "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master or "local[*]")
    for key, value in settings:
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


def table_of(spark, path):
    """Returns a function for the tables of a set; a table in which no run has rows is empty."""
    order.refuse_runs_twice(spark, path)

    def table(name, columns):
        exists = order.exists(spark, f"{path}/{name}")
        return order.table(spark, path, name) if exists else spark.createDataFrame([], columns)

    return table


def main(arguments=None):
    options = parser().parse_args(arguments)
    spark = session(options.master, options.conf)
    if not order.exists(spark, f"{options.set}/runs"):
        sys.exit(f"tracer-spark: {options.set} is no data set: it has no table of runs; tracemerge dataset add makes one")
    try:
        if options.command == "order":
            order.write(spark, options.set, options.output, options.tracemerge, options.rows)
            return
        rows = reports.ALL[options.command](table_of(spark, options.set))
    except order.Refused as error:
        sys.exit(f"tracer-spark: {error}")
    if options.json:
        rows.write.json(options.json)
    else:
        rows.show(options.top, truncate=False)
