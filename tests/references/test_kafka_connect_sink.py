"""The deep dive into the Kafka Connect sink: coordination, routing, creation, evolution and writing, section by section."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.lake import Lake
from kit.statements import missing

SECTIONS = {
    "KIP-447": {
        "each message is written exactly once": "whole/test_kafka_to_iceberg.py::test_many_events_are_in_one_table_and_in_twenty_exactly_once",
        "records of aborted transactions are left out": "sources/kafka/test_source.py::test_aborted_records_are_left_out_and_open_ones_wait",
        "the group learns what is committed": "sources/kafka/test_source.py::test_the_group_learns_what_is_committed",
        "a zombie is fenced": """ledger/test_lease.py::test_a_late_writer_is_refused_and_changes_nothing
            commit/test_fence.py::test_a_driver_that_was_overtaken_is_refused""",
    },
    "coordinator, workers and control topic": {
        "one committer, whose commits have an interval": "pipeline/test_commit_queue.py::test_the_interval_begins_when_the_last_table_is_committed",
        "offsets are in the commit": """commit/test_fence.py::test_staged_batches_land_in_one_snapshot_that_says_whose_they_are
            docs/from-kafka-connect.md: in the ledger, and the batch's number in each table""",
        "tables are committed side by side": "pipeline/test_committer.py::test_tables_are_committed_side_by_side_and_then_acknowledged",
        "files of committed offsets are left out, and a file is added once": """commit/test_fence.py::test_batches_behind_the_mark_are_skipped_and_the_rest_is_committed
            commit/test_fence.py::test_a_file_given_twice_is_added_once""",
        "appends, or row deltas where there are deletes": "commit/test_changes.py::test_equality_deletes_reach_older_rows_only_and_wherever_they_are_for_a_reader_that_is_not_java",
        "valid-through in the snapshot": """acknowledge/test_watermark.py::test_the_slowest_partition_decides_and_each_counts_by_its_latest
            docs/from-kafka-connect.md: `calve.valid-through`, with lateness and idle partitions""",
        "CommitToTable and CommitComplete": """pipeline/test_notify.py::test_every_commit_is_told_with_one_id_wherever_the_process_died_and_although_a_receiver_is_dead
            docs/from-kafka-connect.md: `table.committed` and `commit.complete`, as CloudEvents""",
        "an error of a commit is logged, and the next cycle goes on": "pipeline/test_commit_queue.py::test_a_table_that_failed_is_tried_again_before_the_next_interval",
        "a commit that takes too long is made in part": "docs/from-kafka-connect.md: retried, or this table alone is [held]",
    },
    "multi-table routing": {
        "static routes by a pattern of a field, or all tables": """migrate/test_kafka_connect.py::test_routes_partitions_and_branches_of_tables
            migrate/test_connector_rows.py::test_every_configuration_writes_the_rows_of_the_real_sink
            docs/from-kafka-connect.md: one sink for each; each has routes""",
        "names of dynamic tables in lower case": "docs/from-kafka-connect.md: as in the event",
    },
    "auto-table creation": {
        "the namespace, and races of creators": """catalog/test_catalog.py::test_namespaces_are_created_level_by_level
            catalog/test_catalog.py::test_creators_side_by_side_get_one_table""",
        "records of tables that are not created are dropped": "docs/from-kafka-connect.md: dead letters: `BAD_TABLE_NAME`, `NO_SUCH_TABLE`",
        "columns from a sample": "docs/from-kafka-connect.md: from all events of the first batch",
    },
    "type conversion and schema evolution": {
        "Connect's types": """columns/test_connect_schema.py::test_a_column_is_of_the_type_that_the_schema_says_and_takes_the_decoders_values
            docs/from-kafka-connect.md: types from the schema""",
        "evolution in mid-stream": "whole/test_evolution.py::test_new_fields_in_mid_stream_add_columns_without_a_restart",
        "types widen": "columns/test_widen.py::test_a_value_that_a_wider_column_holds_asks_for_it_at_any_depth",
    },
    "partitioned writing, file completion": {
        "transforms": "table/test_definition.py::test_both_forms_of_every_transform_are_read",
        "offsets beside files": "sources/kafka/test_source.py::test_a_split_read_again_gives_the_same_events",
    },
}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_statement_has_its_test_or_its_page(section: str) -> None:
    assert missing(SECTIONS[section]) == {}


def test_a_dynamic_name_is_that_of_the_event_and_makes_tables_of_its_own_columns(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"table_identifier": "ns.${/tenant}", "auto_create": True})
    lake.write([json.dumps({"tenant": "ACME", "a": 1}), json.dumps({"tenant": "acme2", "b": "x"}), '{"a":2}'])
    assert {name: len(rows) for name, rows in lake.rows.items()} == {"ns.ACME": 1, "ns.acme2": 1}
    assert lake.schema("ns.acme2") == {"tenant": "string", "b": "string"}
    assert lake.codes() in (["NO_FIELD"], ["BAD_TABLE_NAME"]), "the connector drops a record without a table"


def test_a_changed_schema_is_applied_between_two_events_of_one_task(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"table_identifier": "ns.t", "auto_create": True, "schema_evolution": True})
    lake.write(['{"id":1}'])
    lake.write(['{"id":2}', '{"id":3,"n":1}', '{"id":4,"n":2.5}', '{"id":5,"m":{"k":"v"}}'])
    assert [row["id"] for row in sorted(lake.rows["ns.t"], key=lambda row: row["id"])] == [1, 2, 3, 4, 5]
    schema = lake.schema()
    assert schema is not None
    assert schema["n"] == "double"
    assert lake.codes() == []
