"""Looks up dead-letter tables in their catalog, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.exceptions import NoSuchTableError

from calve.catalog.lookup import look_up
from calve.catalog.storage import for_executors
from calve.dead_letters.table import LetterTable, LoadLetters, newest_in
from calve.errors import SettingsError, SourceUnavailableError, UnsupportedError

__all__ = ["tables_of"]

_KNOWN = ("rest", "glue", "hive")
_STEP = "observe"


def tables_of(properties: Mapping[str, str]) -> LoadLetters | None:
    """Return a function that looks up tables in a catalog, or None without properties.

    Args:
        properties: As in `catalog:` of a sink.

    Raises:
        SettingsError: Only Spark can read catalogs of this type.
    """
    if not properties:
        return None
    kind = properties.get("type", "")
    if kind == "hadoop":
        return lambda identifier: _in_folders(properties, identifier)
    if kind not in _KNOWN:
        raise SettingsError(
            f"calve dlq cannot read a catalog of type {kind or '(none)'}",
            step="settings",
            target="--catalog",
            hint=f"Supported: {', '.join(_KNOWN)} and hadoop. Without --catalog, the current table is read from "
            "SQLite, and any other table as of the pipeline's last commit",
        )
    return lambda identifier: _asked(properties, identifier)


def _in_folders(properties: Mapping[str, str], identifier: str) -> LetterTable | None:
    folder = "/".join([properties.get("warehouse", "").rstrip("/"), *identifier.split("."), "metadata"])
    try:
        location = newest_in(folder)
    except OSError as error:
        raise _unanswered(identifier, error) from error
    return LetterTable(location, identifier, for_executors(properties)) if location else None


def _asked(properties: Mapping[str, str], identifier: str) -> LetterTable | None:
    try:
        table = look_up(properties, identifier)
    except NoSuchTableError:
        return None
    except UnsupportedError:
        raise
    except Exception as error:  # each kind of catalog raises errors of its own libraries
        raise _unanswered(identifier, error) from error
    return LetterTable(table.location, identifier, table.storage)


def _unanswered(identifier: str, error: Exception) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"The catalog does not return the table {identifier}: {error}",
        step=_STEP,
        target=identifier,
        hint="Check --catalog; it needs the properties of `catalog:` of the sink",
    )
