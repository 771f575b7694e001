"""Only what nobody can need is an orphan."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from calve.errors import SettingsError
from calve.maintenance.orphans import check_age, removable, remove_orphans

NOW = timedelta(0)
NAME = "/t/data/p-0123abcd-{:08d}-abcdef-0-00000-0-00000.parquet"


def marks(**batches: int) -> dict[str, str]:
    return {
        f"calve.mark.{name.replace('_', '@')}": json.dumps({"state": "0123abcd-0000", "batch": batch})
        for name, batch in batches.items()
    }


def test_a_file_of_a_batch_that_the_table_has_not_yet_is_kept_however_old() -> None:
    found = [NAME.format(batch) for batch in (1, 2, 3)]
    assert list(removable(found, marks(p=2))) == found[:2]


@pytest.mark.parametrize("rest", ["0-00000-0-00000.parquet", "1-g00003-abc-00000.parquet", "new.parquet"])
def test_whatever_tasks_add_to_the_name_of_a_batch_it_is_known(rest) -> None:
    found = [f"/t/data/my-pipe-0123abcd-{batch:08d}-abcdef-{rest}" for batch in (2, 3)]
    assert list(removable(found, {"calve.mark.my-pipe": marks(p=2)["calve.mark.p"]})) == found[:1]


def test_files_of_a_pipeline_that_left_no_mark_are_kept() -> None:
    assert list(removable([NAME.format(1)], marks(q=2))) == []
    other = {"calve.mark.p": json.dumps({"state": "ffffffff-0000", "batch": 9})}
    assert list(removable([NAME.format(1)], other)) == []


def test_of_two_branches_the_one_that_is_behind_says_what_is_kept() -> None:
    found = [NAME.format(batch) for batch in (1, 2, 3)]
    assert list(removable(found, marks(p=3, p_audit=1))) == found[:1]


def test_only_what_iceberg_writes_is_an_orphan() -> None:
    letters = ["/t/data/dlq/2026-p-00000001.ndjson", "/t/data/notes.txt", "/t/metadata/v1.json"]
    others = ["/t/data/other.parquet", "/t/metadata/1-m0.avro", "/t/metadata/3.metadata.json", "/t/data/x.puffin"]
    assert list(removable([*letters, *others], {})) == others


def test_an_age_that_endangers_files_in_flight_must_be_forced() -> None:
    with pytest.raises(SettingsError) as refused:
        check_age(timedelta(days=2), force=False)
    assert "--force" in refused.value.hint
    check_age(timedelta(days=2), force=True)
    check_age(None, force=False)


@pytest.mark.spark
def test_removal_keeps_staged_files_dead_letters_and_tables_inside_and_the_staged_ones_are_committed_later(
    kept,
) -> None:
    table = kept()
    table.change({1: ("x", 1), 2: ("y", 2)})
    staged = table.stage({1: ("y", 10)}, [2])
    data = table.home / "data"
    left = data / "p-0123abcd-00000001-fedcba-0-00000-0-00000.parquet"
    kept_files = [data / "dlq" / "p-00000001.ndjson", table.home / "inner" / "data" / "theirs.parquet"]
    for path in (left, *kept_files):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert remove_orphans(table.bench, None).files == 0  # three days
    asked = remove_orphans(table.bench, NOW, dry_run=True)
    assert (asked.files, left.exists()) == (1, True)
    done = remove_orphans(table.bench, NOW)
    assert (done.files, done.kept) == (1, len(staged))
    assert not left.exists()
    assert all(path.exists() for path in kept_files)
    assert all(Path(file.file_path).exists() for file in staged)
    table.commit(staged)
    assert table.rows() == table.oracle
