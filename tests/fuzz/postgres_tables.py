"""Random tables of PostgreSQL for `fuzz.databases`: types, keys, identities, partitions, inheritance, generated columns."""

from __future__ import annotations

import random
from typing import Any

from calve.sources.postgres.settings import PostgresSettings
from calve.sources.tables import Tables
from fuzz.statements import transaction
from services.postgres import Postgres
from sources.mysql.follow import postgres_settings

__all__ = ["PostgresDialect", "PostgresTable"]

TYPES = {
    "int": ("0", "7", "-2147483648"),
    "bigint": ("1", "9223372036854775807"),
    "text": ("''", "'a,b'", "'NULL'", "repeat('x', 3000)"),
    "varchar(9)": ("'v'", "'{}'"),
    "boolean": ("true", "false"),
    "numeric(8,2)": ("1.50", "-999999.99"),
    "numeric": ("1.10", "1.1"),
    "float8": ("'-0'", "0", "'NaN'", "1.5", "'Infinity'"),
    "date": ("'2024-02-29'", "'0001-01-01'"),
    "timestamp": ("'2024-01-02 03:04:05.6'", "'1969-12-31 23:59:59'"),
    "uuid": ("'00000000-0000-0000-0000-00000000000a'",),
    "int[]": ("'{1,NULL}'", "'{}'"),
    "text[]": ("'{a,\"b,c\"}'",),
}
"""Types and values; every column has NULL too."""
ROWS = 12
IDS = 20


class PostgresTable:
    """One table `name` with the columns `id`, `part` and some of random types.

    Args:
        name: Its name.
        chance: What is random.
    """

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name, self._chance = name, chance
        self._columns = {f"c{number}": chance.choice(list(TYPES)) for number in range(chance.randint(1, 4))}
        self._is_parted = chance.random() < 0.3
        self._key = chance.choice(["id", "id", "id, part", "deferrable", "index", "generated", "none"])
        self._identity = chance.choice(["default", "default", "full", "nothing", "own"])
        self._added = 0

    def creation(self) -> list[str]:
        """See `Table`."""
        fields = [f"{name} {kind}" for name, kind in self._columns.items()]
        if self._chance.random() < 0.3:
            fields.append("made int generated always as (id + 1) stored")
        parts = " partition by range (part)" if self._is_parted else ""
        made = [f"create table {self.name} (id int not null, part int not null default 1, {', '.join(fields)}){parts}"]
        if self._is_parted:
            made += [
                f"create table {self.name}_{at} partition of {self.name} for values from ({at * 10}) to ({at * 10 + 10})"
                for at in range(2)
            ]
        elif self._chance.random() < 0.2:
            made += [
                f"create table {self.name}_child () inherits ({self.name})",
                f"insert into {self.name}_child values (1)",
            ]
        return [*made, *self._keys(), *self._identities(), *(self._insert() for _ in range(ROWS))]

    def change(self) -> list[str]:
        """See `Table`."""
        kinds = [self._insert, self._update, self._delete, self._move, self._shift, self._transaction, self._alter]
        return [self._chance.choices(kinds, (8, 8, 4, 4, 2, 4, 1))[0]()]

    def touch(self) -> list[str]:
        """See `Table`."""
        return [f"update {self.name} set part = part"]

    def _keys(self) -> list[str]:
        key = "id, part" if self._is_parted and self._key in ("id", "deferrable") else self._key
        late = " deferrable initially deferred" if self._key == "deferrable" else ""
        if self._key == "none":
            return []
        if self._key == "index":
            columns = "id, part" if self._is_parted else "id"
            return [f"create unique index {self.name}_u on {self.name} ({columns})",
                    f"alter table {self.name} replica identity using index {self.name}_u"]  # fmt: skip
        if self._key == "generated":
            return [f"alter table {self.name} add g int generated always as (id % 7) stored, add primary key (id, g)"]
        return [f"alter table {self.name} add primary key ({key if key != 'deferrable' else 'id'}){late}"]

    def _identities(self) -> list[str]:
        names = [f"{self.name}_0", f"{self.name}_1"] if self._is_parted else [self.name]
        if self._identity == "own":
            names = names[-1:]
        if self._identity == "default" or (self._key == "index" and self._identity != "full"):
            return []
        return [
            f"alter table {name} replica identity {'nothing' if self._identity == 'nothing' else 'full'}"
            for name in names
        ]

    def _value(self, name: str) -> str:
        return self._chance.choice((*TYPES[self._columns[name]], "null"))

    def _row(self) -> str:
        part = self._chance.choice((1, 11)) if self._is_parted else 1
        return ", ".join([str(self._chance.randrange(IDS)), str(part), *map(self._value, self._columns)])

    def _insert(self) -> str:
        return f"insert into {self.name} (id, part, {', '.join(self._columns)}) values ({self._row()})"

    def _where(self) -> str:
        return f"id % {self._chance.randint(1, 6)} = {self._chance.randrange(3)}"

    def _update(self) -> str:
        name = self._chance.choice(list(self._columns))
        return f"update {self.name} set {name} = {self._value(name)} where {self._where()}"

    def _delete(self) -> str:
        return f"delete from {self.name} where id = {self._chance.randrange(IDS)}"

    def _move(self) -> str:
        part = f", part = {self._chance.choice((1, 11))}" if self._is_parted else ""
        return (
            f"update {self.name} set id = {self._chance.randrange(IDS)}{part} where id = {self._chance.randrange(IDS)}"
        )

    def _shift(self) -> str:
        return f"update {self.name} set id = id {self._chance.choice('+-')} 1"

    def _transaction(self) -> str:
        kinds = [self._insert, self._update, self._delete, self._move, self._shift]
        return transaction(self._chance, kinds)

    def _alter(self) -> str:
        self._added += 1
        name, new = self._chance.choice(list(self._columns)), f"n{self._added}"
        what = self._chance.choice(["add", "default", "rename", "drop", "index", "truncate"])
        if what == "add":
            self._columns[new] = self._chance.choice(list(TYPES))
            return f"alter table {self.name} add {new} {self._columns[new]}"
        if what == "default":
            self._columns[new] = "int"
            return f"alter table {self.name} add {new} int default {self._chance.choice(('7', 'random() * 9'))}"
        if what == "truncate":
            return f"truncate {self.name}{self._chance.choice(('', '_0', '_1')) if self._is_parted else ''}"
        if what == "rename":
            self._columns = {new if one == name else one: kind for one, kind in self._columns.items()}
            return f"alter table {self.name} rename {name} to {new}"
        if what == "drop" and len(self._columns) > 1:
            del self._columns[name]
            return f"alter table {self.name} drop {name}"
        return f"create index on {self.name} ({name})"


class PostgresDialect:
    """One server.

    Args:
        server: It runs.
    """

    def __init__(self, server: Postgres) -> None:
        self._server = server

    def run(self, database: str, statement: str) -> list[list[str | None]]:
        """See `Dialect`."""
        return [list(row) for row in self._server.run(statement, database=database)]

    def create(self, database: str) -> None:
        """See `Dialect`."""
        self._server.create_database(database)

    def drop(self, database: str) -> None:
        """See `Dialect`."""
        which = f"from pg_replication_slots where database = '{database}'"
        self._server.run(f"select pg_drop_replication_slot(slot_name) {which}")
        self._server.run(f"drop database if exists {database} with (force)")

    def settings(self, database: str, exclude: list[str]) -> PostgresSettings:
        """See `Dialect`."""
        tables = Tables(include=["public.t?"], exclude=[f"public.{name}" for name in exclude])
        return postgres_settings(self._server, database, tables=tables, no_key="append", on_truncate="compare")

    def table(self, name: str, chance: random.Random) -> PostgresTable:
        """See `Dialect`."""
        return PostgresTable(name, chance)

    def rows(self, database: str, table: str) -> list[dict[str, str | None]]:
        """See `Dialect`."""
        which = f"attrelid = '{table}'::regclass and attnum > 0 and not attisdropped and attgenerated = ''"
        names = [row[0] or "" for row in self.run(database, f"select attname from pg_attribute where {which}")]
        only = (
            "" if self.run(database, f"select 1 from pg_class where relname = '{table}' and relkind = 'p'") else "only"
        )
        found = self.run(database, f"select {', '.join(f'{name}::text' for name in names)} from {only} {table}")
        return [dict(zip(names, row, strict=True)) for row in found]

    def text(self, value: Any) -> str | None:
        """See `Dialect`."""
        match value:
            case bool():
                return str(value).lower()
            case float():
                return (
                    f"{value:.0f}"
                    if value.is_integer()
                    else {"nan": "NaN", "inf": "Infinity"}.get(f"{value}", f"{value}")
                )
            case list():
                return "{" + ",".join(_element(each) for each in value) + "}"
            case None:
                return None
        text = str(value)
        return text.rstrip("0") if "." in text and ":" in text else text


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    return f'"{value}"' if isinstance(value, str) and "," in value else str(value)
