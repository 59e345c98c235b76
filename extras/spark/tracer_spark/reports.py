"""Sums over all machines of a set. Each is aggregated where the rows are; one row a name is moved and shown."""

from pyspark.sql import functions as F


def duration(column):
    """Returns the sum of durations, which 64 bits may not hold for many machines."""
    return F.sum(F.col(column).cast("decimal(38, 0)"))


def report(table):
    """Counts the calls of each function, and how long they took, as `tracemerge report` does."""
    calls = table("calls", "function string, place string, ending string, duration bigint, own bigint, waiting bigint")
    columns = [
        F.count("*").alias("calls"),
        duration("duration").alias("total_ns"),
        duration("own").alias("self_ns"),
        F.min("duration").alias("min_ns"),
        F.max("duration").alias("max_ns"),
        F.count_if(F.col("ending") == "cut").alias("without_leave"),
    ]
    return calls.groupBy("function", "place").agg(*columns).orderBy(F.desc("total_ns"), "function", "place")


def stats(table):
    """Counts the messages by the places that trace them, and the records of calls by function, as `tracemerge stats`."""
    records = table(
        "records", "kind string, template string, place string, function string, level string, message string"
    )
    records = records.where(F.col("kind").isin("message", "lock", "enter", "leave", "stack"))
    is_call = F.col("kind").isin("enter", "leave") & F.col("function").isNotNull()
    # Without a site, messages that differ in numbers are of one sort.
    text = F.regexp_replace("message", "[0-9]+", "#")
    sort = F.when(is_call, F.col("function")).otherwise(F.coalesce("template", text))
    counted = records.withColumn("sort", sort).groupBy("sort", "place", "level").agg(F.count("*").alias("count"))
    return counted.orderBy(F.desc("count"), "sort", "place")


def spans(table):
    """Counts the spans of each name, and how long they took, as `tracemerge spans` does."""
    spans = table("spans", "name string, ending string, duration bigint, busy bigint, idle bigint, polls bigint")
    columns = [
        F.count("*").alias("spans"),
        duration("duration").alias("wall_total_ns"),
        F.max("duration").alias("wall_max_ns"),
        duration("busy").alias("busy_total_ns"),
        F.max("busy").alias("busy_max_ns"),
        duration("idle").alias("idle_total_ns"),
        F.sum("polls").alias("polls"),
        F.count_if(F.col("ending") == "cancelled").alias("cancelled"),
        F.count_if(F.col("ending") == "open").alias("open"),
    ]
    return spans.groupBy("name").agg(*columns).orderBy(F.desc("wall_total_ns"), "name")


def losses(table):
    """Counts the lost records of each machine by reason."""
    losses = table("losses", "host string, reason string, records bigint")
    counted = losses.groupBy("host", "reason").agg(F.sum("records").alias("records"), F.count("*").alias("places"))
    return counted.orderBy(F.desc("records"), "host", "reason")


ALL = {"report": report, "stats": stats, "spans": spans, "losses": losses}
