"""Opens the tables of a catalog to read them, without a JVM."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

import pydantic
from pyiceberg.exceptions import NoSuchTableError, ValidationError
from pyiceberg.table import StaticTable

from calve.catalog.lookup import list_tables, look_up
from calve.catalog.sqlite import SqliteCatalog, sqlite_file
from calve.catalog.storage import for_executors
from calve.catalog.variant_files import open_metadata
from calve.errors import CalveError, NoTargetError, SourceUnavailableError, UnsupportedError

__all__ = ["OpenTables"]

_NO_CATALOG_HINT = "Change to the folder of the pipeline, or set the catalog: --pipelines PATH, or --catalog KEY=VALUE"


class OpenTables:
    """The tables of a catalog.

    Args:
        properties: The catalog's properties.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        file = sqlite_file(properties)
        self._sqlite = None if file is None else SqliteCatalog(file, properties)
        self._place = str(file or properties.get("uri", "") or properties.get("type", ""))
        self._file: Path | None = file

    def names(self) -> list[str]:
        """Return the identifiers of all tables, sorted.

        Raises:
            CalveError: The catalog does not answer, or is of a type that only Spark reads.
        """
        if self._sqlite is not None:
            return self._sqlite.identifiers()
        self._check_type()
        try:
            return list_tables(self._properties)
        except Exception as error:  # each kind of catalog raises errors of its own libraries
            raise self._unanswered("", error) from error

    def absence(self) -> str:
        """Return a sentence if the catalog is a local file that does not exist; empty: it exists, or is a server."""
        return f"There is no catalog {self._place}" if self._file is not None and not self._file.is_file() else ""

    def open(self, identifier: str) -> StaticTable:
        """Return a table.

        Raises:
            NoTargetError: There is no such table.
            CalveError: The catalog does not answer, or is of a type that only Spark reads.
        """
        if self._sqlite is not None:
            location, storage = self._sqlite.location(identifier), for_executors(self._properties)
        else:
            location, storage = self._asked(identifier)
        if location is None:
            raise self._missing(identifier)
        try:
            return open_metadata(identifier, location, storage)
        except pydantic.ValidationError as error:
            raise _unreadable(identifier, error) from error
        except Exception as error:
            raise self._unanswered(identifier, error) from error

    def _asked(self, identifier: str) -> tuple[str | None, dict[str, str]]:
        self._check_type()
        try:
            answer = look_up(self._properties, identifier)
        except NoSuchTableError:
            return None, {}
        except ValidationError as error:
            raise _unreadable(identifier, error) from error
        except Exception as error:
            raise self._unanswered(identifier, error) from error
        return answer.location, answer.storage

    def _check_type(self) -> None:
        if (kind := self._properties.get("type", "")) not in ("rest", "glue", "hive"):
            message = f"Without Spark Calve cannot read a catalog of type {kind or '(none)'}"
            hint = "It reads rest, glue, hive, and SQLite; calve changes TABLE prints the rows of any"
            raise UnsupportedError(message, step="catalog", target="--catalog", hint=hint)

    def _missing(self, identifier: str) -> NoTargetError:
        if absent := self.absence():
            return NoTargetError(absent, step="read", target=identifier, hint=_NO_CATALOG_HINT)
        names = self.names()
        near = difflib.get_close_matches(identifier, names, n=1) or names[:1]
        hint = f"Did you mean {near[0]}? calve tables lists all" if near else "No pipeline has written there yet"
        message = f"There is no table {identifier} in the catalog {self._place}"
        return NoTargetError(message, step="read", target=identifier, hint=hint)

    def _unanswered(self, identifier: str, error: Exception) -> CalveError:
        if isinstance(error, CalveError):
            return error
        message = f"The catalog {self._place} does not return {identifier or 'its tables'}: {error}"
        hint = "Check --catalog; it needs the properties of `catalog:` of the sink"
        return SourceUnavailableError(message, step="catalog", target=identifier or self._place, hint=hint)


def _unreadable(identifier: str, error: Exception) -> UnsupportedError:
    """Return the error for metadata that PyIceberg does not know, with what it says of it in one line."""
    what = next((line.strip() for line in str(error).splitlines() if line.startswith("  ")), str(error))
    message = f"Only Spark reads the table {identifier}: {what.partition(' [type=')[0].removeprefix('Value error, ')}"
    return UnsupportedError(message, step="read", target=identifier, hint=f"calve changes {identifier} prints its rows")
