from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from calve.cli.letters import tables_of
from calve.dead_letters.reader import DeadLetter, entries, names, read, stores_at, summarise
from calve.dead_letters.replay.selection import ReplaySelection
from calve.dead_letters.table import LETTERS, LetterTable, note, note_name
from calve.errors import SettingsError, SourceError, SourceUnavailableError

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)


def row(task: str, number: int, **changed: Any) -> dict[str, Any]:
    default = {"timestamp": MOMENT, "pipeline": "p", "sink": "iceberg", "table": "a.b", "code": "NO_KEY", "field": ""}
    told = {"reason": "why", "event": f"{task}{number}", "metadata": '{"n":1}', "task": task, "number": number}
    return {**default, **told, **changed}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("ops")
    return catalog.create_table("ops.dead", LETTERS)


def rows(*given: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(given), schema_to_pyarrow(LETTERS))


def noted(tmp_path: Path, table: Table) -> str:
    folder = tmp_path / "dlq"
    folder.mkdir(exist_ok=True)
    told = note(LetterTable(table.metadata_location, "ops.dead"), (str(tmp_path / "catalog.db"), "lake"))
    (folder / note_name("ops.dead")).write_text(json.dumps(told))
    return str(folder)


def test_an_entry_of_a_table_is_as_one_of_a_file(tmp_path: Path, table: Table) -> None:
    table.append(rows(row("t", 0), row("t", 1, event="/wA=", event_encoding="base64", table="")))
    _, place = stores_at([noted(tmp_path, table)])
    (_, line), (second, _) = read(place)
    assert isinstance(second, DeadLetter)
    assert second.original() == b"\xff\x00"
    assert json.loads(line) == {
        "timestamp": "2026-01-02T03:04:05.678Z", "pipeline": "p", "sink": "iceberg", "table": "a.b", "code": "NO_KEY",
        "field": "", "reason": "why", "event": "t0", "metadata": {"n": 1}, "task": "t", "number": 0,
    }  # fmt: skip


def test_a_table_on_sqlite_is_read_as_it_is_now_and_any_other_as_it_was_noted(tmp_path: Path, table: Table) -> None:
    folder = noted(tmp_path, table)
    table.append(rows(row("t", 0)))
    assert summarise("p", stores_at([folder])).counts == {("a.b", "NO_KEY"): 1}
    (tmp_path / "catalog.db").unlink()
    assert summarise("p", stores_at([folder])).counts == {}


def test_the_key_of_an_entry_outlives_that_its_file_is_written_anew(tmp_path: Path, table: Table) -> None:
    for task in ("b", "a"):
        table.append(rows(*(row(task, number) for number in range(3))))
    table.overwrite(table.scan().to_arrow().sort_by([("number", "descending")]))
    _, place = stores_at([noted(tmp_path, table)])
    assert names(place) == ["a", "b"]
    assert [(one.line, one.start, one.end) for one in entries(place, "b")] == [(0, 0, 1), (1, 1, 2), (2, 2, 3)]
    assert isinstance(place, LetterTable)
    found = [(number, json.loads(line)["event"]) for number, line in place.lines("b", [(0, 1), (2, 3)])]
    assert found == [(0, "b0"), (2, "b2")]


def test_an_entry_whose_event_is_withheld_is_known_before_it_is_sent(tmp_path: Path, table: Table) -> None:
    withheld = row("t", 1, event=None, metadata='{"withheld_bytes": 0, "key": "k"}')
    table.append(rows(row("t", 0), withheld, row("t", 2, event=None), row("t", 3, event=None, metadata="[x")))
    table.append(rows({**withheld, "task": None}))
    _, place = stores_at([noted(tmp_path, table)])
    selection = ReplaySelection("p", {"iceberg": 0})
    contents = [entry.content for entry in entries(place, "t")]
    assert [isinstance(content, DeadLetter) and selection.matches(content) for content in contents] == [
        True, False, True, True,
    ]  # fmt: skip


def test_entries_that_were_deleted_before_they_could_be_sent_are_an_error(tmp_path: Path, table: Table) -> None:
    table.append(rows(row("t", 0), row("t", 1)))
    table.delete("number = 1")
    with pytest.raises(SourceError, match=r"The table ops\.dead no longer has the dead letters.*Roll the table back"):
        list(LetterTable(table.metadata_location, "ops.dead").lines("t", [(0, 2)]))


def test_a_row_that_somebody_else_added_is_shown_and_never_sent(tmp_path: Path, table: Table) -> None:
    table.append(rows(row("t", 0), {"code": "THEIRS", "metadata": "[x"}, {"event": "no code"}))
    _, place = stores_at([noted(tmp_path, table)])
    assert sorted(one.code if isinstance(one, DeadLetter) else "" for one, _ in read(place)) == ["", "NO_KEY", "THEIRS"]
    assert names(place) == ["t"]


def test_a_table_that_is_gone_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / note_name("ops.dead")).write_text(
        json.dumps(note(LetterTable(f"{tmp_path}/1.metadata.json", "ops.dead"), None))
    )
    _, place = stores_at([str(tmp_path)])
    with pytest.raises(SourceError, match=r"the table ops\.dead cannot be read: .*Check your permissions"):
        names(place)


def test_a_note_tells_no_secret() -> None:
    storage = {"s3.endpoint": "http://e", "s3.secret-access-key": "s", "s3.access-key-id": "k", "s3.session-token": "t"}
    assert note(LetterTable("s3://b/1.metadata.json", "ops.dead", storage), None)["storage"] == {
        "s3.endpoint": "http://e"
    }


def test_a_table_of_a_catalog_of_folders_is_read_as_it_is_now(tmp_path: Path, table: Table) -> None:
    folder, moved = tmp_path / "dlq", tmp_path / "wh" / "ops" / "dead" / "metadata"
    for path in (folder, moved):
        path.mkdir(parents=True)

    def publish(number: int) -> str:
        target = moved / f"v{number}.metadata.json"
        target.write_bytes(Path(table.metadata_location.removeprefix("file://")).read_bytes())
        return str(target)

    told = note(LetterTable(publish(9), "ops.dead"), None, hadoop=True)
    (folder / note_name("ops.dead")).write_text(json.dumps(told))
    table.append(rows(row("t", 0)))
    assert summarise("p", stores_at([str(folder)])).counts == {}
    publish(10)
    assert summarise("p", stores_at([str(folder)])).counts == {("a.b", "NO_KEY"): 1}
    look = tables_of({"type": "hadoop", "warehouse": str(tmp_path / "wh")})
    assert look
    assert look("ops.dead") == LetterTable(
        f"{moved}/v10.metadata.json", "ops.dead", {"warehouse": str(tmp_path / "wh")}
    )
    assert look("ops.other") is None


def test_what_a_catalog_tells_goes_before_what_was_noted_and_secrets_are_not_noted(
    tmp_path: Path, table: Table
) -> None:
    table.append(rows(row("t", 0), row("t", 1, pipeline="another")))
    now = LetterTable(table.metadata_location, "ops.dead", {"s3.endpoint": "e", "s3.secret-access-key": "secret"})
    folder = tmp_path / "dlq"
    folder.mkdir()
    (folder / note_name("ops.dead")).write_text(json.dumps(note(LetterTable("gone.metadata.json", "ops.dead"), None)))
    assert summarise("p", stores_at([str(folder)], {"ops.dead": now}.get)).counts == {("a.b", "NO_KEY"): 1}
    assert note(now, None)["storage"] == {"s3.endpoint": "e"}
    with pytest.raises(SettingsError, match="type jdbc"):
        tables_of({"type": "jdbc"})
    with pytest.raises(SourceUnavailableError, match=r"ops\.dead"):
        (tables_of({"type": "rest", "uri": "http://127.0.0.1:1"}) or {}.get)("ops.dead")
