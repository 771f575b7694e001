"""Random tables of a database, and random changes of them, followed by a source: `make fuzz FUZZ=--databases`.

A round makes a few tables, follows them without Spark, and lets an application write between the runs. The oracle is
`SELECT` on the server: each table has exactly its rows, or was refused or stopped by name. Whatever Calve does, the
application's own statements must go on working: each of them is tried on a database that nobody follows, too.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from calve.errors import CalveError
from calve.sources.database.connection import ServerError
from calve.sources.database.settings import DatabaseSettings
from fuzz.check import Finding
from sources.mysql.follow import Follower, stopped_in

__all__ = ["Dialect", "Table", "of", "of_all"]

RUNS = 4
STATEMENTS = 14
TABLES = 5


class Table(Protocol):
    """A random table of a server."""

    name: str

    def creation(self) -> list[str]:
        """Return the statements that make it, and its first rows."""
        ...

    def change(self) -> list[str]:
        """Return random statements of an application: rows, transactions, now and then DDL."""
        ...

    def touch(self) -> list[str]:
        """Return statements that change no value: a column that was renamed follows with the next change of a row."""
        ...


class Dialect(Protocol):
    """What a round needs of a server."""

    def run(self, database: str, statement: str) -> list[list[str | None]]:
        """Run a statement; raises `ServerError`."""
        ...

    def create(self, database: str) -> None:
        """Make an empty database."""
        ...

    def drop(self, database: str) -> None:
        """Remove a database, and what followed it."""
        ...

    def settings(self, database: str, exclude: list[str]) -> DatabaseSettings:
        """Return the settings of a source of it."""
        ...

    def table(self, name: str, chance: random.Random) -> Table:
        """Return a random table."""
        ...

    def rows(self, database: str, table: str) -> list[dict[str, str | None]]:
        """Return the rows of a table as it is by now, with values as texts."""
        ...

    def text(self, value: Any) -> str | None:
        """Return a value that was read in the form of `rows`."""
        ...


def of(dialect: Dialect, seed: str, number: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Play a round; return what was counted, and what was found."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    played = _Round(dialect, random.Random(f"{seed}-{number}"), f"f{number}", folder)
    try:
        played.play()
    finally:
        for database in played.databases:
            dialect.drop(database)
    if played.findings:
        (folder / "statements.sql").write_text(";\n".join(played.statements))
    return played.counts, played.findings


def of_all(dialects: Sequence[Dialect], seed: str, number: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Play a round of one of several servers, in turn."""
    return of(dialects[number % len(dialects)], seed, number, folder)


class _Round:
    """One database that is followed, and its twin that is not."""

    def __init__(self, dialect: Dialect, chance: random.Random, name: str, folder: Path) -> None:
        self._dialect, self._chance, self._folder = dialect, chance, folder / "source"
        self.databases = name, f"{name}_twin"
        self.statements: list[str] = []
        self.counts: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self._tables = [dialect.table(f"t{number}", chance) for number in range(TABLES)]
        self._refused: list[str] = []

    def play(self) -> None:
        for database in self.databases:
            self._dialect.create(database)
        self._tables = [table for table in self._tables if self._is_created(table)]
        follower = self._followed()
        for _ in range(RUNS if follower else 0):
            for _ in range(STATEMENTS):
                self._apply(self._chance.choice(self._tables).change())
            for table in self._tables:
                self._apply(table.touch())
            self._read(follower)
            self._compare(follower)

    def _is_created(self, table: Table) -> bool:
        """Create a table; return False if it is one that the server does not allow."""
        first, *rest = table.creation()
        is_created = self._apply([first])
        self._apply(rest if is_created else [])
        return is_created

    def _apply(self, statements: list[str]) -> bool:
        """Run statements on both databases: the server must answer the same. Return whether it ran all of them."""
        are_good = True
        for statement in statements:
            self.statements.append(statement)
            first, twin = (self._answer(database, statement) for database in self.databases)
            self.counts["statements"] += 1
            if first != twin:
                self._find("source", f"the application's statement fails: {first}", statement)
            are_good = are_good and not first
        return are_good

    def _answer(self, database: str, statement: str) -> str:
        try:
            self._dialect.run(database, statement)
        except ServerError as error:
            return f"{error.code}"
        return ""

    def _followed(self) -> Follower | None:
        """Begin to follow all tables that are not refused; each refusal names its table."""
        while len(self._refused) < len(self._tables):
            settings = self._dialect.settings(self.databases[0], self._refused)
            follower = Follower(settings, self._folder)
            try:
                follower.read()
            except CalveError as error:
                named = [table.name for table in self._tables if re.search(rf"\.{table.name}\b", error.message)]
                if not named or set(named) <= set(self._refused):
                    self._find("stop", "a refusal without a table", str(error))
                    return None
                self._refused += named
                self.counts["refused"] += len(named)
                shutil.rmtree(self._folder)
                continue
            self._compare(follower)
            return follower
        return None

    def _read(self, follower: Follower) -> None:
        try:
            for _ in range(2):  # what is loaded again is there after the second
                follower.read()
        except (CalveError, AssertionError, ValueError, KeyError) as error:
            self._find("stop", f"{type(error).__name__}", str(error))

    def _compare(self, follower: Follower) -> None:
        stopped = {name.split(".", 1)[1] for name in stopped_in(self._folder)}
        for table in self._tables:
            if table.name in stopped or table.name in self._refused:
                continue
            expected = self._sorted(self._dialect.rows(self.databases[0], table.name))
            found = self._sorted(self._texts(row, expected) for row in self._renamed(follower, table.name))
            self.counts["rows"] += len(expected)
            if expected != found:
                self._find("difference", "a table is not as in the database", self._differing(table, expected, found))
        self.counts["stopped"] += len(stopped)

    def _renamed(self, follower: Follower, name: str) -> list[dict[str, Any]]:
        return follower.renamed(name) if follower.rows.get(name) or follower.histories.get(name) else []

    def _texts(self, row: dict[str, Any], expected: list[str]) -> dict[str, str | None]:
        names = json.loads(expected[0]).keys() if expected else row.keys()
        return {name: self._dialect.text(row.get(name)) for name in names}

    def _sorted(self, rows: Any) -> list[str]:
        return sorted(json.dumps(row, sort_keys=True) for row in rows)

    def _differing(self, table: Table, expected: list[str], found: list[str]) -> str:
        one, other = Counter(expected), Counter(found)
        missing, more = list((one - other).elements())[:3], list((other - one).elements())[:3]
        return f"{table.name}: missing {missing}, too many {more}"

    def _find(self, kind: str, what: str, text: str) -> None:
        self.findings.append(Finding(kind, what, text))
