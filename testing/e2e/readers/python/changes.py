"""Prints the changes of rows that python-mysql-replication reads from a relay, to its end.

Arguments: the relay's port, GTID to begin after, account and password there; port, account and
password of a server of the group, which is asked for the names of columns.
"""

import sys

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

KINDS = {WriteRowsEvent: "insert", UpdateRowsEvent: "update", DeleteRowsEvent: "delete"}


def connection(port, user, password):
    return {"host": "127.0.0.1", "port": int(port), "user": user, "passwd": password}


def values(row):
    row = row.get("values") or row["after_values"]
    return " ".join(f"{name}={value}" for name, value in row.items())


def main(arguments):
    stream = BinLogStreamReader(
        connection_settings=connection(arguments[0], arguments[2], arguments[3]),
        ctl_connection_settings=connection(*arguments[4:7]),
        server_id=4711,
        is_mariadb=True,
        auto_position=arguments[1],
        only_events=list(KINDS),
        use_column_name_cache=True,
        enable_logging=False,
    )
    for event in stream:
        for row in event.rows:
            print(KINDS[type(event)], f"{event.schema}.{event.table}", values(row))
    stream.close()


main(sys.argv[1:])
