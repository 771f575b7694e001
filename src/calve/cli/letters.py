"""Tables of dead letters as their catalog has them now, looked up without a JVM."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from calve.commit.storage import for_executors
from calve.errors import SettingsError, SourceUnavailableError
from calve.observe.letter_table import LetterTable, Look, newest_in

__all__ = ["tables_of"]

_KNOWN = ("rest", "glue", "hive")
_STEP = "observe"


def tables_of(properties: Mapping[str, str]) -> Look | None:
    """Give what looks tables up in a catalog; None where no property is given.

    Args:
        properties: As under `catalog:` of a sink.

    Raises:
        SettingsError: Catalogs of this type can only be asked by Spark.
    """
    if not properties:
        return None
    kind = properties.get("type", "")
    if kind == "hadoop":
        return lambda identifier: _in_folders(properties, identifier)
    if kind not in _KNOWN:
        raise SettingsError(
            f"calve dlq cannot ask a catalog of type {kind or '(none)'}",
            step="settings",
            target="--catalog",
            hint=f"It knows {', '.join(_KNOWN)} and hadoop. Leave --catalog out: a table on SQLite is read as it is "
            "now, any other as the pipeline last saw it",
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
        table = load_catalog("calve", **{**properties, **for_executors(properties)}).load_table(identifier)
    except NoSuchTableError:
        return None
    except Exception as error:  # each kind of catalog has errors of its own libraries
        raise _unanswered(identifier, error) from error
    return LetterTable(table.metadata_location, identifier, {**for_executors(properties), **table.io.properties})


def _unanswered(identifier: str, error: Exception) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"The catalog does not tell where the table {identifier} is: {error}",
        step=_STEP,
        target=identifier,
        hint="Check --catalog, which takes what `catalog:` of the sink has",
    )
