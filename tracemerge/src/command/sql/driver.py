# Answers queries by DuckDB's module: python3 -I -c PROGRAM DATABASE LENGTH. Standard input has definitions of this
# length, and then the queries. Each row is printed as an object of JSON, in a line of its own.
# Without arguments, it ends after it has loaded the module.
import json
import signal
import sys

import duckdb

ROWS_AT_ONCE = 1000


def put(text):
    sys.stdout.buffer.write(text.encode(errors="replace") + b"\n")


def select(connection, query):
    # An error in the query has the words and the positions of the query alone.
    connection.sql(query)
    connection.execute(f"select to_json(q)::varchar from ({query}\n) as q")
    while rows := connection.fetchmany(ROWS_AT_ONCE):
        for (row,) in rows:
            put(row)


def run(connection, statement):
    query = statement.query.rstrip("; \t\r\n")
    if statement.type == duckdb.StatementType.SELECT:
        return select(connection, query)
    done = connection.execute(query)
    names = [column[0] for column in done.description or []]
    if not names or names == ["Count"] and duckdb.ExpectedResultType.CHANGED_ROWS in statement.expected_result_type:
        return
    for row in done.fetchall():
        put(json.dumps({name: str(value) for name, value in zip(names, row)}))


def main(database, length):
    text = sys.stdin.buffer.read()
    definitions, queries = text[:length].decode(), text[length:].decode()
    connection = duckdb.connect(database)
    connection.execute(definitions)
    for statement in connection.extract_statements(queries):
        run(connection, statement)


if len(sys.argv) > 1:
    # An interrupt ends a query at once, also inside the module.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except (duckdb.Error, UnicodeDecodeError) as error:
        sys.stdout.flush()
        sys.exit(str(error))
    except BrokenPipeError:
        sys.exit("its reader wants no more rows")
