"""Section 4 of the RFC of the iceberg source: what an event has, and what evolution does."""

from __future__ import annotations

from calve.pipeline.plugins import PLUGINS, declared
from calve.settings import parse_text
from kit.statements import missing

STATEMENTS = {
    "values and metadata of an event": "changes/test_table_changes.py::test_values_and_metadata_are_written_as_data_prepper_writes_them",
    "rows are read with the current schema: added, removed, renamed, widened": """changes/test_histories.py::test_changes_applied_to_nothing_give_the_table_at_every_snapshot
        whole/test_mirror.py::test_a_mirror_has_the_rows_and_columns_of_its_table_after_every_run""",
    "bulk_action is INDEX or DELETE": "changes/test_table_changes.py::test_values_and_metadata_are_written_as_data_prepper_writes_them",
    "document_id joins the identifier columns": """changes/test_table_changes.py::test_keys_that_could_be_taken_for_one_another_give_different_documents
        docs/from-data-prepper.md: `\\|` and `\\\\` are escaped""",
    "a leader plans and workers read, with leases": "docs/from-data-prepper.md: one driver with a lease of 8 s in the state",
    "documents under an old name keep it": "sinks/test_opensearch_mapping.py::test_columns_that_older_documents_have_under_another_name_are_named_once_also_after_a_restart",
}


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}


def test_the_attributes_of_an_event_are_there_for_routes_and_sinks() -> None:
    text = "p: {source: {iceberg: {tables: [{table_name: a.b}]}}, sink: [{iceberg: {table_identifier: a.c}}]}"
    [pipeline] = parse_text(text, PLUGINS).pipelines
    asked = {"iceberg_operation", "iceberg_table_name", "iceberg_snapshot_id", "document_id", "bulk_action"}
    assert asked <= set(declared(pipeline).metadata)
