"""Sections 9 and 11 of the RFC of the iceberg sink: operation, and what it leaves for the future."""

from __future__ import annotations

import json

import pytest

from calve.errors import SettingsError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from kit.statements import missing

STATEMENTS = {
    "compaction is needed": """maintenance/test_join.py::test_a_compaction_changes_no_row_whatever_others_did_before_and_do_meanwhile
        docs/from-data-prepper.md: by need, while it writes""",
    "a stop commits, and what is left is committed after the restart": """crash/test_outages.py::test_a_stop_commits_what_was_accepted_and_a_killed_driver_leaves_no_process
        pipeline/test_committer.py::test_a_drain_commits_what_waits_for_its_interval""",
    "copy-on-write": "whole/test_variant.py::test_spark_without_calve_reads_what_the_events_said_whatever_the_write_mode",
    "exactly once": "crash/test_kill_minus_nine.py::test_nothing_is_lost_and_nothing_doubled_when_the_process_group_is_killed_again_and_again",
    "types may widen": "whole/test_evolution.py::test_columns_become_wider_for_values_and_readers_see_old_rows_and_deletes_as_before",
    "many tables of one sink": "whole/test_kafka_to_iceberg.py::test_many_events_are_in_one_table_and_in_twenty_exactly_once",
    "a schema registry": "whole/test_registry.py::test_three_versions_in_mid_stream_and_poison_become_one_table_and_dead_letters",
    "write properties of the sink": "sinks/test_iceberg_targets.py::test_write_properties_decide_instead_of_the_table",
    "a branch": "whole/test_branch.py::test_a_branch_begins_where_main_is_and_main_stays_as_it_was",
    "fields in any case": "columns/test_infer.py::test_fields_that_differ_by_case_only_are_known_when_case_is_ignored",
}
FUTURE = [
    {"write_mode": "copy-on-write", "identifier_columns": ["id"], "upsert": True},
    {"write_mode": "merge-on-read", "identifier_columns": ["id"], "upsert": True},
    {"branch": "staging"},
    {"case_insensitive": True},
    {"write_properties": {"write.parquet.compression-codec": "zstd"}},
]


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}


@pytest.mark.parametrize("options", FUTURE, ids=str)
def test_what_is_left_for_the_future_is_an_option(options: dict[str, object]) -> None:
    sink = {"table_identifier": "ns.t", "auto_create": True}
    assert parsed({**sink, **options})


def parsed(sink: dict[str, object]) -> list[object]:
    text = json.dumps({"p": {"source": {"http": {}}, "sink": [{"iceberg": sink}]}})
    return list(parse_text(text, PLUGINS).pipelines)


def test_a_key_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SettingsError, match="unknown key 'commit_mode'"):
        parsed({"table_identifier": "ns.t", "commit_mode": "exactly-once"})
