# Runs each query in DuckDB, and prints its rows as JSON, one line for each query: query.py QUERY...
import json
import sys

import duckdb

for query in sys.argv[1:]:
    rows = duckdb.sql(query).fetchall()
    print(json.dumps([[value if isinstance(value, (int, float, str, bool)) else str(value) for value in row] for row in rows]))
