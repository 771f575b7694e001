"""PostgreSQL and MySQL → an Iceberg table: the load, then changes, Calve against Debezium's engine.

    make bench-databases BENCH="--rows 10000000 --rounds 1 --only mysql"

In each round a table of eight columns is loaded again; then changes are made while nobody reads, and worked off. Calve
writes an Iceberg table and ends (`calve run --once`, start-up included). Debezium's embedded engine only hands its
records, as JSON, to a consumer that counts them; its end is not measured. They take turns on the same server, which is
not counted in the CPU seconds, as the same one works for both. Spark compares Calve's table with sums of the database.
In the end Calve streams while changes are made at a steady rate: `lag` is the time from a commit of the database, as it
is sent, to the snapshot that has it; ten seconds in which the JVM warms up do not count. With `--tls` all connections
have TLS.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from bench import lake
from bench.calve_run import calve_run
from bench.debezium import Debezium
from bench.lag import lag
from bench.measure import CPU, Figures, Results, medians, parser, ratio, take_turns
from bench.orders import LAKE_SUMS, Orders
from bench.report import Report
from kit.running import Calve, until
from services.certificates import Authority, give_tls
from services.mysql import MySql
from services.postgres import PASSWORD, Postgres

LOAD_TIMES = 5.0
CHANGE_TIMES = {"postgres": 3.0, "mysql": 2.0}
"""How many times Debezium's rate Calve's shall be."""
LAG_SECONDS = 2.0
YAML = """
bench:
  source:
    {kind}:
      host: 127.0.0.1
      port: {port}
      username: {user}
      password: {password}
      ssl_mode: {tls}
      allow_cleartext_password: true
{where}
  sink:
    - iceberg:
        table_identifier: "shop.${{getMetadata(\\"table_name\\")}}"
        auto_create: true
        schema_evolution: true
{more}"""
STEADY = """\
        flush_interval: {flush}
        commit_interval: {commit}
"""
SERVERS: dict[str, Callable[[], Postgres | MySql]] = {
    "postgres": partial(Postgres, wal_sender_timeout="60s"),  # the server's default; that of tests cuts Debezium off
    "mysql": MySql,
}
USERS = {"postgres": "postgres", "mysql": "root"}
WHERE = {
    "postgres": "      database: postgres\n      tables: {include: [public.orders]}",
    "mysql": "      tables: {include: [shop.orders]}",
}
CONNECTORS = {
    "postgres": {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "slot.name": "debezium",
        "publication.name": "debezium",
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.orders",
    },
    "mysql": {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.server.id": "5400",
        "database.include.list": "shop",
        "table.include.list": "shop.orders",
        "include.schema.changes": "false",
        "snapshot.locking.mode": "none",
        "driver.allowPublicKeyRetrieval": "true",
    },
}

TLS = {"postgres": ("database.sslmode", "require"), "mysql": ("database.ssl.mode", "required")}


class Contest:
    """Both contenders on one server.

    Args:
        kind: Of the server.
        server: It runs.
        orders: Its table.
        place: Where folders go.
        chosen: The options of the command.

    Attributes:
        changed: Makes the changes of a round, once; returns how many inserts, updates and deletes.
    """

    def __init__(self, kind: str, server: Postgres | MySql, orders: Orders, place: Path, chosen: Namespace) -> None:
        self._kind, self._server, self._orders, self._place = kind, server, orders, place
        self._folder = place
        self._debezium: Debezium | None = None
        self._has_tls = chosen.tls
        self.changed: Callable[[int], list[int]] = cache(lambda number: orders.change(chosen.changes))

    def yaml(self, more: str = "") -> str:
        """Return the pipeline of the documentation, with more settings of its sink."""
        kind = self._kind
        tls = "require" if self._has_tls else "disable"
        access = {"port": self._server.port, "user": USERS[kind], "password": PASSWORD, "tls": tls}
        return YAML.format(kind=kind, where=WHERE[kind], more=more, **access)

    def load_calve(self, number: int) -> Figures:
        """Load the table into a new one."""
        self._forget("calve_bench")
        self._folder = self._place / f"calve-{number}"
        found = calve_run(self._folder, self.yaml(), self._orders.count)
        self.check()
        return found

    def load_debezium(self, number: int) -> Figures:
        """Let a new engine read the table."""
        self._forget("debezium")
        access = {"hostname": "127.0.0.1", "port": str(self._server.port), "user": USERS[self._kind]}
        given = {f"database.{name}": value for name, value in {**access, "password": PASSWORD}.items()}
        given |= [TLS[self._kind]] if self._has_tls else []
        self._debezium = Debezium(self._place / f"debezium-{number}", {**CONNECTORS[self._kind], **given})
        return self._debezium.run([self._orders.count, 0, 0, 0])

    def change_calve(self, number: int) -> Figures:
        """Apply the changes of a round."""
        found = calve_run(self._folder, self.yaml(), sum(self.changed(number)))
        self.check()
        return found

    def change_debezium(self, number: int) -> Figures:
        """Let the engine read the changes of a round."""
        assert self._debezium
        return self._debezium.run([0, *self.changed(number)])

    def lag(self, rate: int, seconds: int, more: str) -> Figures:
        """Stream changes at a steady rate."""
        calve = Calve(self._folder, self.yaml(more))
        calve.start()
        try:
            calve.until(lambda: calve.status("bench").get("state") in ("waiting", "running"), "it has started")
            found = lag(self._folder, self._orders, rate, seconds)
            calve.stop()
        finally:
            calve.end()
        self.check()
        return found

    def check(self) -> None:
        """Compare Calve's table with the database."""
        found = lake.read_by_spark(self._folder / "lakehouse" / "shop" / "orders", LAKE_SUMS, reads=1)["sums"]
        if found != (expected := self._orders.sums()):
            raise SystemExit(f"wrong output: {LAKE_SUMS} are {found} instead of {expected}")

    def _forget(self, slot: str) -> None:
        """Drop a slot, so that the server does not keep its log for an earlier round."""
        if not isinstance(self._server, Postgres):
            return
        run, which = self._server.run, f"from pg_replication_slots where slot_name = '{slot}'"
        until(lambda: not run(f"select 1 {which} and active"), f"nobody uses the slot {slot}")
        run(f"select pg_drop_replication_slot(slot_name) {which}")


def contest(kind: str, chosen: Namespace, place: Path) -> dict[str, Results]:
    """Run everything on one server; return the results by what was measured."""
    server = SERVERS[kind]()
    if chosen.tls:
        give_tls(server, Authority(place / "authority"))
    with server:
        CPU.leave_out(server.pid)
        orders = Orders(server, chosen.rows)
        one = Contest(kind, server, orders, place, chosen)
        load = {"calve": one.load_calve, "debezium": one.load_debezium}
        change = {"calve": one.change_calve, "debezium": one.change_debezium}
        found: dict[str, Results] = {what: {name: [] for name in load} for what in ("load", "changes")}
        for number in range(chosen.rounds):
            for what, runs in (("load", load), ("changes", change)):
                print(f"{kind}, {what}:", flush=True)
                for name, figures in take_turns(runs, 1, first=number).items():
                    found[what][name] += figures
        if chosen.seconds:
            print(f"{kind}, lag:", flush=True)
            more = STEADY.format(flush=chosen.flush, commit=chosen.commit)
            found["lag"] = take_turns({"calve": lambda _: one.lag(chosen.rate, chosen.seconds, more)}, 1)
        orders.close()
        return found


def compare(kind: str, found: dict[str, Results], report: Report) -> None:
    """Compare with the targets."""
    for what, least in (("load", LOAD_TIMES), ("changes", CHANGE_TIMES[kind])):
        times = ratio(found[what], "events/s", "calve", "debezium")
        report.target(f"{kind}, {what}: times the rate of Debezium's engine", times, least=least)
    if "lag" in found:
        report.target(f"{kind}, lag: p99 s", medians(found["lag"])["calve"]["p99 s"], most=LAG_SECONDS)


def main() -> None:
    options = parser(__doc__, rounds=2)
    options.add_argument("--rows", type=int, default=1_000_000, help="of the table that is loaded (default 1,000,000)")
    options.add_argument("--changes", type=int, default=500_000, help="of each round (default 500,000)")
    options.add_argument("--only", nargs="+", choices=list(SERVERS), default=list(SERVERS))
    options.add_argument("--tls", action="store_true", help="encrypt all connections to the databases")
    options.add_argument("--rate", type=int, default=5_000, help="changes a second, of the lag")
    options.add_argument("--seconds", type=int, default=40, help="how long changes are made for the lag; 0: not")
    options.add_argument("--flush", default="100ms", help="flush_interval of Calve for the lag")
    options.add_argument("--commit", default="500ms", help="commit_interval of Calve for the lag")
    chosen = options.parse_args()
    report = Report("databases", f"{chosen.rows:,} rows, {chosen.changes:,} changes")
    whole: Results = {}
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as place:
        for kind in chosen.only:
            found = contest(kind, chosen, Path(place) / kind)
            compare(kind, found, report)
            whole |= {f"{kind}, {what}, {who}": each for what, one in found.items() for who, each in one.items()}
    report.bars(whole, "CPU s/M")


if __name__ == "__main__":
    main()
