"""Random tables of MySQL and MariaDB for `fuzz.databases`: types, keys, generated columns, indexes, partitions, DDL."""

from __future__ import annotations

import random
from dataclasses import dataclass

from fuzz.statements import SEPARATOR, transaction
from services.mysql import MARIADB, Kind
from sources.mysql.edges import EDGES

__all__ = ["MysqlTable"]

OWN = {
    MARIADB.name: {
        "uuid": ("'00000000-0000-0000-0000-00000000000a'",),
        "inet6": ("'::1'", "'2001:db8::ff00:42:8329'"),
        "varchar(300) compressed": ("repeat('c', 299)", "''"),
        "blob compressed": ("repeat('b', 4000)",),
    }
}
"""Types that only one kind of server has."""
TYPES = {kind: tuple(value for value in values if "repeat" not in value) for kind, values in EDGES.items()}
"""Types and values, without the longest: rounds should be many. Every column has NULL too."""
KEYS = {
    "int": [str(number) for number in range(20)],
    "bigint unsigned": ["18446744073709551615", *map(str, range(20))],
    "varchar(20)": ["''", "'a'", "'A'", "'a '", "'ä'", *(f"'k{number}'" for number in range(14))],
    "varchar(20) character set latin1 collate latin1_bin": ["'a'", "'A'", *(f"'ü{number}'" for number in range(14))],
    "binary(4)": [f"x'{number:02x}00'" for number in range(20)],
    "decimal(9,2)": [f"{number}.50" for number in range(-5, 15)],
    "datetime(3)": [f"'2024-03-31 02:00:{number:02}.125'" for number in range(20)],
    "enum('a','b','c')": ["'a'", "'b'", "'c'"],
}
"""Types of keys, and the values that they have."""
ROWS = 12
WIDER = {
    "tinyint": "int",
    "smallint": "int",
    "int": "bigint",
    "varchar(10)": "varchar(40)",
    "text": "longtext",
    "datetime(3)": "datetime(6)",
    "decimal(5,0)": "decimal(7,0)",
    "float": "double",
    "bigint": "varchar(30)",
    "double": "int",
    "char(5)": "varchar(3)",
}


def quoted(name: str) -> str:
    return f"`{name}`"


@dataclass
class Column:
    """A column of a random table."""

    name: str
    kind: str

    @property
    def sql(self) -> str:
        return f"{quoted(self.name)} {self.kind}"


class MysqlTable:
    """One table `name` with the key `id`, `part`, and some columns of random types.

    Args:
        name: Its name.
        chance: What is random.
        server: The kind of server.
    """

    def __init__(self, name: str, chance: random.Random, server: Kind) -> None:
        self.name, self._chance, self._server = name, chance, server
        self._types = {**TYPES, **OWN.get(server.name, {})}
        names = ["c{}", "C{}", "a b{}", "ä{}", "order{}", "c.{}"]
        self._columns = [Column(chance.choice(names).format(at), self._kind()) for at in range(chance.randint(1, 5))]
        self._key_type = chance.choice(list(KEYS))
        odd = ["unique", "nullable", "double", "none", "none", "none"]
        others = ["id, part", "part, id", "prefix", *(["generated"] if server != MARIADB else [])]
        self._key = chance.choice(["id"] if chance.random() < 0.5 else odd if chance.random() < 0.4 else others)
        self._is_parted = self._key in ("id, part", "part, id") and chance.random() < 0.6
        self._added = 0

    def creation(self) -> list[str]:
        """See `Table`."""
        fields = [column.sql for column in self._columns]
        if self._chance.random() < 0.4:
            how = self._chance.choice(["stored", "virtual"])
            fields.insert(self._chance.randint(0, len(fields)), f"made bigint as (part + 1) {how}")
        if self._server == MARIADB and self._chance.random() < 0.2:
            fields.append("hidden int invisible default 5")
        kind = {"prefix": "varchar(20)", "double": "double"}.get(self._key, self._key_type)
        is_free = self._key in ("nullable", "none")
        key = f"id {kind}{'' if is_free else ' not null'}"
        parts = ""
        if self._is_parted:
            parts = self._chance.choice(
                [
                    " partition by hash (part) partitions 3",
                    " partition by range (part) (partition p0 values less than (10), partition p1 values less than maxvalue)",
                ]
            )
        body = ", ".join([key, "part int not null default 1", *fields, *self._keys(), *self._indexes()])
        engine = self._chance.choice(["", " row_format = compressed" if self._server == MARIADB else "", ""])
        made = f"create table {self.name} ({body}) charset = {self._chance.choice(['utf8mb4', 'utf8mb4', 'latin1'])}"
        return [f"{made}{engine}{parts}", *(self._insert() for _ in range(ROWS))]

    def change(self) -> list[str]:
        """See `Table`."""
        kinds = [self._insert, self._update, self._delete, self._move, self._shift, self._transaction, self._alter]
        return [self._chance.choices(kinds, (8, 8, 4, 4, 1, 5, 2))[0]()]

    def touch(self) -> list[str]:
        """See `Table`; the names of columns follow statements here."""
        return []

    def _kind(self) -> str:
        return self._chance.choice(list(self._types))

    def _keys(self) -> list[str]:
        match self._key:
            case "unique" | "nullable":
                return ["unique key u (id)"]
            case "prefix":
                return ["primary key (id(3))"]
            case "generated":
                return ["g int as (part * 2) stored not null", "primary key (id, g)"]
            case "none":
                return []
        return [f"primary key ({self._key if self._key != 'double' else 'id'})"]

    def _indexes(self) -> list[str]:
        """Indexes, some with columns that the server hides."""
        indexes = []
        for column in self._columns:
            is_text = (
                column.kind.startswith(("char", "varchar", "text", "tinytext")) and "compressed" not in column.kind
            )
            if is_text and self._chance.random() < 0.3:
                indexes.append(f"key ({quoted(column.name)}(2))")
            elif is_text and "set" not in column.kind and self._chance.random() < 0.2:
                indexes.append(f"fulltext key ({quoted(column.name)})" if not self._is_parted else "key (part)")
            elif column.kind == "text" and self._server == MARIADB and not self._is_parted:
                indexes.append(f"unique key ({quoted(column.name)})")
            elif column.kind in ("int", "bigint") and self._server != MARIADB and self._chance.random() < 0.5:
                indexes.append(f"key (({quoted(column.name)} div 2))")
        return indexes

    def _value(self, column: Column) -> str:
        return self._chance.choice((*self._types.get(column.kind, ("1", "'x'")), "null"))

    def _id(self) -> str:
        if self._key == "prefix":
            return self._chance.choice(KEYS["varchar(20)"])
        return self._chance.choice(KEYS["int" if self._key == "double" else self._key_type])

    def _insert(self) -> str:
        names = ", ".join(["id", "part", *(quoted(column.name) for column in self._columns)])
        rows = [
            ", ".join([self._id(), str(self._chance.choice((1, 11, 25))), *map(self._value, self._columns)])
            for _ in range(self._chance.choice((1, 1, 3)))
        ]
        values = f"into {self.name} ({names}) values {', '.join(f'({row})' for row in rows)}"
        kind = self._chance.choice(["insert", "insert", "insert", "replace", "insert ignore", "odku"])
        if kind != "odku":
            return f"{kind} {values}"
        column = self._chance.choice(self._columns)
        return f"insert {values} on duplicate key update {quoted(column.name)} = {self._value(column)}"

    def _where(self) -> str:
        return self._chance.choice([f"id = {self._id()}", f"part = {self._chance.choice((1, 11, 25))}", "part > 5"])

    def _update(self) -> str:
        columns = self._chance.sample(self._columns, self._chance.randint(1, min(2, len(self._columns))))
        sets = ", ".join(f"{quoted(column.name)} = {self._value(column)}" for column in columns)
        return f"update {self.name} set {sets} where {self._where()}"

    def _delete(self) -> str:
        return f"delete from {self.name} where id = {self._id()}"

    def _move(self) -> str:
        part = self._chance.choice(["", ", part = 1", ", part = 11"])
        return f"update ignore {self.name} set id = {self._id()}{part} where id = {self._id()}"

    def _shift(self) -> str:
        up = self._chance.choice(("+", "-"))
        return f"update {self.name} set part = part {up} 1 order by part {'desc' if up == '+' else 'asc'}"

    def _transaction(self) -> str:
        kinds = [self._insert, self._update, self._delete, self._move, self._shift]
        settings = [] if self._chance.random() < 0.7 else [self._session()]
        return SEPARATOR.join([*settings, transaction(self._chance, kinds)])

    def _session(self) -> str:
        """What an application may set for its session."""
        of_server = (
            "binlog_row_value_options = 'PARTIAL_JSON'" if self._server != MARIADB else "check_constraint_checks = 0"
        )
        return "set " + self._chance.choice(
            [
                "sql_mode = 'STRICT_ALL_TABLES'",
                "time_zone = '-05:00'",
                "names latin1",
                "binlog_row_image = 'MINIMAL'",
                of_server,
            ]
        )

    def _alter(self) -> str:
        self._added += 1
        column, new = self._chance.choice(self._columns), f"n{self._added}"
        what = self._chance.choice(
            ["add", "add", "default", "rename", "drop", "index", "modify", "empty", "truncate", "charset"]
        )
        head = f"alter table {self.name}"
        if what in ("add", "default"):
            kind = "int" if what == "default" else self._kind()
            self._columns.append(Column(new, kind))
            where = self._chance.choice(["", " first", f" after {quoted(column.name)}"])
            return f"{head} add {quoted(new)} {kind}{' default 7' if what == 'default' else ''}{where}"
        if what == "rename":
            old, column.name = column.name, new
            return f"{head} change {quoted(old)} {column.sql}"
        if what == "drop" and len(self._columns) > 1:
            self._columns.remove(column)
            return f"{head} drop {quoted(column.name)}"
        if what == "modify" and column.kind in WIDER:
            column.kind = WIDER[column.kind]
            return f"{head} modify {column.sql}"
        if what == "empty" and self._is_parted:
            return f"{head} truncate partition p1"
        if what == "truncate":
            return f"truncate table {self.name}"
        if what == "charset" and (self._server == MARIADB or all(each.kind.isascii() for each in self._columns)):
            return f"{head} convert to character set utf8mb4"  # MySQL 8.0.15 damages other labels of enumerations
        return f"{head} add key ({quoted(column.name)})"
