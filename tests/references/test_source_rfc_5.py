"""Sections 5 and 6 of the RFC of the iceberg source: which changes become events, and what is promised."""

from __future__ import annotations

from datetime import timedelta

import pytest

from calve.errors import SettingsError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from kit.statements import missing

STATEMENTS = {
    "added files are INSERTs": "changes/test_file_histories.py::test_the_changes_of_every_snapshot_are_what_the_model_says",
    "rows that a rewrite carries over are no changes; equal rows are counted": """changes/test_table_changes.py::test_equal_rows_are_counted
        changes/test_table_changes.py::test_carry_over_is_exact_to_the_sign_of_a_zero""",
    "an update is one event of its document": "changes/test_table_changes.py::test_of_a_key_that_is_not_unique_the_old_rows_come_first",
    "snapshots in their order": "sources/iceberg/test_positions.py::test_several_tables_come_in_the_order_of_their_commits_each_with_its_place",
    "first all rows, then the changes since then": "sources/iceberg/test_positions.py::test_the_rows_come_first_and_then_the_changes_of_each_commit",
    "disable_export: only changes": "sources/iceberg/test_positions.py::test_a_beginning_is_kept_whatever_is_committed_before_the_first_batch",
    "compaction is no change": "changes/test_snapshot.py::test_small_commits_in_a_row_are_told_as_one_and_compaction_is_not_among_them",
    "the index is the table whatever dies": "crash/test_tables_out.py::test_wherever_the_pipeline_dies_the_index_and_the_copy_are_what_the_table_is",
    "without a key documents are duplicated": "sinks/test_opensearch_documents.py::test_events_without_an_id_are_documents_once_however_often_they_are_sent",
    "merge-on-read tables are refused; keys are needed; a gone snapshot": """docs/from-data-prepper.md: merge-on-read and version 3 too, rows without keys by row lineage; a lost snapshot is an error, `on_lost_position: reload` asks for it
        sources/iceberg/test_positions.py::test_a_lost_position_is_told_and_read_again_only_when_it_is_said_so
        changes/test_table_changes.py::test_the_first_changes_after_an_upgrade_have_no_row_ids_yet""",
    "work is divided by partitions and bounds of files": "changes/test_table_changes.py::test_what_a_snapshot_did_not_touch_is_not_looked_at",
}


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}


def source(options: str) -> object:
    text = f"p: {{source: {{iceberg: {options}}}, sink: [{{iceberg: {{table_identifier: a.c}}}}]}}"
    [pipeline] = parse_text(text, PLUGINS).pipelines
    return pipeline.source.value


def test_the_settings_have_the_defaults_of_the_rfc_and_of_data_prepper() -> None:
    settings = source("{tables: [{table_name: a.b}]}")
    assert settings.polling_interval == timedelta(seconds=30)  # type: ignore[attr-defined]
    [table] = settings.tables  # type: ignore[attr-defined]
    assert (table.disable_export, table.identifier_columns) == (False, [])


def test_the_catalog_of_a_table_replaces_the_shared_one() -> None:
    settings = source(
        "{catalog: {type: rest, uri: 'http://a'}, tables: [{table_name: a.b}, {table_name: a.d, catalog: {type: rest, uri: 'http://b'}}]}"
    )
    assert [catalog["uri"] for catalog in settings.catalogs] == ["http://a", "http://b"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "options", ["{tables: []}", "{}", "{tables: [{table_name: ''}]}", "{tables: [{table_name: a.b, columnz: [x]}]}"]
)
def test_what_data_prepper_refuses_is_refused(options: str) -> None:
    with pytest.raises(SettingsError):
        source(options)
