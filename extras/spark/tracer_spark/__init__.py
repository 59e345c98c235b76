"""Orders and reports data sets of tracemerge in Apache Spark."""
