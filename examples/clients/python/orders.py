#!/usr/bin/python3
"""Commits orders, each once, whatever happens to servers (docs/operating/client-errors.md).

    export DB_USER=shop DB_PASSWORD=...
    seq -f order-%g 1000 | ./orders.py db1:3306,db2:3306,db3:3306

Reads unique ids, and prints each when its order is committed. Tables: ../orders.sql. Needs PyMySQL.
"""

import os
import random
import re
import sys
import time

import pymysql

ATTEMPTS = 300
DUPLICATE = 1062
REPEAT_HERE = {1213, 1020, 1205}
# Not here; then what leaves open whether the order is there: not appended, interrupted, killed;
# the server ends, is not reached, does not answer.
REPEAT_ELSEWHERE = {1290, 1047, 1180, 1317, 1927, 1053, 2003, 2006, 2013}


class Shop:
    def __init__(self, servers):
        self.servers, self.server, self.db = servers, servers[0], None

    def take(self, order):
        for _ in range(ATTEMPTS):
            try:
                if self.db is None and self.connect(order):
                    return  # An attempt elsewhere was committed.
                self.db.rollback()
                return self.sell(order)
            except pymysql.MySQLError as error:
                print(f"{self.server}: {order}: {error}", file=sys.stderr)
                if error.args[0] == DUPLICATE:
                    return  # The same.
                if error.args[0] in REPEAT_ELSEWHERE:
                    self.leave(str(error))
                elif error.args[0] not in REPEAT_HERE:
                    raise
            time.sleep(random.uniform(0, 0.1))
        sys.exit(f"{order}: not committed in {ATTEMPTS} attempts")

    def connect(self, order):
        """Connects, and tells whether the order is there."""
        host, port = self.server.rsplit(":", 1)
        db = pymysql.connect(
            host=host, port=int(port), database="shop",
            user=os.environ["DB_USER"], password=os.environ["DB_PASSWORD"],
            connect_timeout=2, read_timeout=10, write_timeout=10,
            init_command="SET wsrep_sync_wait = 1",
        )
        with db.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM orders WHERE id = %s", (order,))
            found = cursor.fetchone()[0]
        self.db = db
        return found > 0

    def sell(self, order):
        with self.db.cursor() as cursor:
            cursor.execute("SELECT pieces FROM sold WHERE item = 1")
            piece = cursor.fetchone()[0] + 1
            cursor.execute("UPDATE sold SET pieces = %s WHERE item = 1", (piece,))
            cursor.execute("INSERT INTO orders (id, piece) VALUES (%s, %s)", (order, piece))
        self.db.commit()

    def leave(self, error):
        """Goes to the server that the error names, or to the next one."""
        self.db = None
        named = re.search(r"Write to '.*' at (\S+:\d+)", error)
        at = self.servers.index(self.server) if self.server in self.servers else -1
        self.server = named[1] if named else self.servers[(at + 1) % len(self.servers)]


shop = Shop(sys.argv[1].split(","))
for line in sys.stdin:
    shop.take(line.strip())
    print(line.strip(), flush=True)
