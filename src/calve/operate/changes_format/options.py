"""The options of `calve_changes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from calve.errors import SettingsError
from calve.settings.problems import unknown

__all__ = ["ChangesOptions", "changes_options"]


@dataclass(frozen=True)
class ChangesOptions:
    """The options of a DataFrame of changes.

    Attributes:
        table: `namespace.table`, with the name of a catalog of the session before it or without.
        catalog: The name of a catalog of the session.
        identifier_columns: The columns that identify a row.
        start_snapshot_id: The changes begin after this snapshot.
        end_snapshot_id: The last snapshot.
        max_snapshots: The most snapshots of a batch of a stream.
        folder: Where rows wait until Spark has read them.
    """

    table: str
    catalog: str | None = None
    identifier_columns: tuple[str, ...] = ()
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    max_snapshots: int | None = None
    folder: str | None = None


def changes_options(texts: Mapping[str, str]) -> ChangesOptions:
    """Return the options that are given as texts.

    Raises:
        SettingsError: One is unknown, wrong or missing.
    """
    names = [field.name for field in fields(ChangesOptions)]
    for name in texts:
        if name not in names:
            raise _fault(unknown("option", name, names), "")
    if not texts.get("table"):
        raise _fault("table is missing", 'Add .option("table", "namespace.table")')
    columns = tuple(name.strip() for name in texts.get("identifier_columns", "").split(",") if name.strip())
    most = _number(texts, "max_snapshots")
    if most is not None and most < 1:
        raise _fault(f"max_snapshots is {most}", "It is 1 or more")
    return ChangesOptions(
        texts["table"],
        texts.get("catalog"),
        columns,
        _number(texts, "start_snapshot_id"),
        _number(texts, "end_snapshot_id"),
        most,
        texts.get("folder"),
    )


def _number(texts: Mapping[str, str], name: str) -> int | None:
    text = texts.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        hint = "SELECT snapshot_id FROM namespace.table.snapshots" if name.endswith("_id") else "It is 1 or more"
        raise _fault(f"{name} is {text!r}, and not a whole number", hint) from None


def _fault(problem: str, hint: str) -> SettingsError:
    return SettingsError(f"calve_changes: {problem}", step="settings", target="calve_changes", hint=hint)
