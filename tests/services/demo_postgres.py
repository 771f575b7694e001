"""`make demo-postgres`: a PostgreSQL with two tables that are written all the time, and the Iceberg tables that follow."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from services.postgres import PASSWORD, Postgres
from services.process import wait_until

SECONDS = 12
YAML = """\
shop:
  source:
    postgres:
      host: 127.0.0.1
      port: {port}
      database: postgres
      username: postgres
      password: {password}
  sink:
    - iceberg:
        table_identifier: "shop.${{getMetadata(\\"table_name\\")}}"
        auto_create: true
        schema_evolution: true
        write_mode: merge-on-read
        commit_interval: 2s
        flush_interval: 1s
"""
TABLES = (
    "create table customers (id int primary key, name text, since timestamptz default now())",
    "create table orders (id bigint primary key, customer int, total numeric(10,2), state text)",
    "insert into customers select g, 'customer ' || g from generate_series(1, 1000) g",
    "insert into orders select g, g % 1000, g % 977 + 0.5, 'new' from generate_series(1, 20000) g",
)
CHANGES = (
    "insert into orders values ({new}, {customer}, {total}, 'new')",
    "update orders set state = 'paid' where id = {old}",
    "update orders set total = total + 1 where customer = {customer}",
    "delete from orders where id = {old}",
    "update customers set name = 'renamed {new}' where id = {customer}",
)
SUMS = {"customers": "select count(*), sum(id) from customers", "orders": "select count(*), sum(total) from orders"}


def write(server: Postgres, enough: threading.Event) -> None:
    """Change rows until it is enough."""
    chance = random.Random(1)
    with server.connect() as connection:
        for new in range(20_001, 1_000_000):
            if enough.is_set():
                return
            old, customer, total = (
                chance.randrange(1, new),
                chance.randrange(1, 1001),
                chance.randrange(1, 99_900) / 100,
            )
            connection.query(chance.choice(CHANGES).format(new=new, old=old, customer=customer, total=total))
            time.sleep(0.005)


def in_postgres(server: Postgres) -> dict[str, list[str | None]]:
    """Give rows and a sum of each table."""
    return {name: server.run(sql)[0] for name, sql in SUMS.items()}


def in_iceberg(folder: Path) -> dict[str, list[str | None]]:
    """Give the same of the Iceberg tables, read by PyIceberg."""
    place = folder / "lakehouse"
    catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=str(place))
    found: dict[str, list[str | None]] = {}
    for name, column in (("customers", "id"), ("orders", "total")):
        if catalog.table_exists(f"shop.{name}"):
            rows = catalog.load_table(f"shop.{name}").scan(selected_fields=(column,)).to_arrow()
            found[name] = [str(len(rows)), str(sum(rows[column].to_pylist()))]
    return found


def show(server: Postgres, folder: Path) -> None:
    """Print both."""
    database, lake = in_postgres(server), in_iceberg(folder) if (folder / "lakehouse/catalog.db").exists() else {}
    for name in SUMS:
        print(
            f"  {name:10} PostgreSQL {' '.join(map(str, database[name])):24} Iceberg {' '.join(map(str, lake.get(name, ['-'])))}"
        )


def main() -> None:
    """Run the demo; the folder with the YAML and the tables stays."""
    folder = Path(tempfile.mkdtemp(prefix="calve-demo-postgres-"))
    with Postgres() as server:
        server.run(*TABLES)
        (folder / "shop.yaml").write_text(YAML.format(port=server.port, password=PASSWORD))
        print(f"PostgreSQL listens on port {server.port}; the pipeline is {folder}/shop.yaml:\n")
        print((folder / "shop.yaml").read_text())
        enough = threading.Event()
        writer = threading.Thread(target=write, args=(server, enough))
        writer.start()
        command = [sys.executable, "-m", "calve", "run", "shop.yaml", "--metrics-port", "0"]
        calve = subprocess.Popen(command, cwd=folder)
        try:
            wait_until(
                lambda: len(list(folder.glob("lakehouse/shop/*/metadata"))) == len(SUMS), "both tables are there"
            )
            for _ in range(SECONDS // 3):
                time.sleep(3)
                print("rows and sums, while writes go on:")
                show(server, folder)
            enough.set()
            writer.join()
            print("the writes have ended; waiting for the last commit")
            wait_until(lambda: in_postgres(server) == in_iceberg(folder), "the Iceberg tables equal the database")
            show(server, folder)
            print("\nThe Iceberg tables equal the database.")
        finally:
            enough.set()
            calve.send_signal(signal.SIGTERM)
            calve.wait(60)
    print(f"The tables are in {folder}/lakehouse.")


if __name__ == "__main__":
    main()
