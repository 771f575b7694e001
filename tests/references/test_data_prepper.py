"""The notes on Data Prepper, section by section: what is the same, and what differs on purpose."""

from __future__ import annotations

from datetime import timedelta

import pytest

from calve.errors import SettingsError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from kit.statements import missing

PAGE = "docs/from-data-prepper.md: "
SECTIONS = {
    "0. RFCs and reality": {
        "document_id_field that means an attribute": "references/test_source_rfc_3.py::test_the_example_keeps_the_index_equal_to_the_table",
        "INSERT, DELETE, UPDATE_BEFORE and UPDATE_AFTER": "changes/test_table_changes.py::test_values_and_metadata_are_written_as_data_prepper_writes_them",
        "composite ids": f"{PAGE}composite ids joined by",
        "dead letters with event and reason": "references/test_sink_rfc_8.py::test_a_dead_letter_has_the_event_as_it_was_and_the_reason",
        "disable_export begins with the present snapshot": "sources/iceberg/test_positions.py::test_a_beginning_is_kept_whatever_is_committed_before_the_first_batch",
    },
    "1. the iceberg source": {
        "settings": "references/test_source_rfc_5.py::test_the_settings_have_the_defaults_of_the_rfc_and_of_data_prepper",
        "values and document ids": "changes/test_table_changes.py::test_values_and_metadata_are_written_as_data_prepper_writes_them",
        "carry-over is a difference of multisets": "changes/test_table_changes.py::test_equal_rows_are_counted",
        "an update is one event; keys that are not unique": "changes/test_table_changes.py::test_of_a_key_that_is_not_unique_the_old_rows_come_first",
        "a lost snapshot starts all over again": f"{PAGE}a lost snapshot is an error, `on_lost_position: reload` asks for it",
        "shuffle, acknowledgments": "settings/test_used.py::test_the_options_without_effect_are_those_of_data_prepper",
    },
    "2. pipeline YAML": {
        "files of a folder are merged": "settings/test_parse.py::test_the_yaml_files_of_a_folder_are_merged",
        "a version must not be newer": "settings/test_parse.py::test_a_newer_version_is_refused",
        "routes, _default, several sinks": "route/test_route.py::test_routes_share_events_out_and_default_takes_what_is_left",
        "events that no sink takes": f"""route/test_route.py::test_events_that_no_sink_takes_are_counted
            {PAGE}it is counted in `status` and metrics""",
        "connected pipelines": "settings/test_connectors.py::test_pipelines_are_joined_without_loss_if_all_ends_meet_and_are_refused_if_not",
        "aws_secrets": "settings/test_document.py::test_aws_secrets_are_refused_with_the_way_out",
        "sizes": "settings/test_units.py::test_a_size_counts_in_units_of_1024",
        "all errors at once": "settings/test_parse.py::test_every_error_comes_at_once_by_line",
    },
    "3. expressions": {
        "grammar and precedence": "expression/test_parser.py::test_precedence_is_data_preppers",
        "evaluation": """expression/test_condition.py::test_a_condition_means_what_data_prepper_means
            expression/test_against_oracle.py::test_conditions_agree_with_the_oracle""",
        "escapes": "expression/test_parser.py::test_escapes_stay_as_they_are_written",
        "functions": "expression/test_functions.py::test_a_function_gives_what_data_preppers_gives",
        "format strings": """expression/test_format.py::test_a_format_string_shows_what_data_prepper_shows
            expression/test_against_oracle.py::test_format_strings_agree_with_the_oracle""",
        "32 bits": f"{PAGE}64 bits",
        "an empty name of a table": f"""route/test_route.py::test_an_empty_or_malformed_name_is_a_reject_with_its_reason
            {PAGE}dead letter `BAD_TABLE_NAME`""",
    },
    "4. sources": {
        "http: 429 where there is no room": "sources/http/test_service.py::test_a_full_log_is_429_and_goes_on_when_commits_have_caught_up",
        "kafka: text becomes a message, keys and headers": """sources/kafka/test_record.py::test_text_and_bytes_become_a_message
            sources/kafka/test_record.py::test_all_metadata_of_a_record_is_told""",
        "s3: scan and filter": "sources/s3/test_scan.py::test_objects_are_read_by_their_codec_and_filter_with_their_metadata",
        "s3: a message is deleted after the commit": "sources/s3/test_queue.py::test_objects_are_deleted_before_their_message",
        "rds": "references/test_sink_rfc_3.py::test_each_example_writes_its_rows",
        "rds: an export in S3": f"{PAGE}the rows come from the database, not from an export",
        "other sources": f"{PAGE}refused by name",
    },
    "5. sinks": {
        "opensearch: settings": "sinks/test_opensearch_settings.py::test_data_prepper_s_numbers_mean_what_they_mean_there",
        "opensearch: an older version is no failure": "sinks/test_opensearch_bulk.py::test_refused_documents_come_back_with_opensearch_s_reason_and_conflicts_are_no_failure",
        "opensearch: max_retries": "sinks/test_opensearch_bulk.py::test_max_retries_makes_dead_letters_of_what_is_left",
        "opensearch: actions with conditions": "sinks/test_opensearch_lines.py::test_the_first_action_whose_condition_is_true_counts_and_a_delete_has_no_document",
        "dead letters in S3": "whole/test_dead_letters_on_s3.py::test_dead_letters_on_an_object_store_are_listed_shown_and_sent_again",
        "document_version": f"{PAGE}from the source's order",
    },
    "6. acknowledgments, shutdown": {
        "progress follows the commits": f"{PAGE}always: progress follows the commits",
        "a stop drains": "crash/test_outages.py::test_a_stop_commits_what_was_accepted_and_a_killed_driver_leaves_no_process",
        "workers and order": f"{PAGE}order is kept by key with any number of cores",
        "a processor's exception drops events": f"{PAGE}a dead letter with step, reason and `tags_on_failure`; one event never costs another",
    },
    "7. the proposed sink": {
        "narrowing of numbers": f"""convert/test_coercion.py::test_a_value_that_does_not_fit_is_null_and_counted_or_rejected
            {PAGE}exact, or not coercible""",
        "a partition column that is updated": f"{PAGE}one row remains",
        "a commit that fails on the same leader": "commit/test_fence.py::test_a_commit_that_never_arrived_is_repeated",
        "two pipelines on one table": "commit/test_fence.py::test_pipelines_on_one_table_do_not_see_each_other",
        "an idle table has no snapshots": "commit/test_fence.py::test_nothing_to_add_makes_no_snapshot",
        "a catalog is asked for each event of a missing table": "sinks/test_iceberg_targets.py::test_it_is_told_once_and_looked_at_anew_with_each_batch",
    },
}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_statement_has_its_test_or_its_page(section: str) -> None:
    assert missing(SECTIONS[section]) == {}


def parsed(commit_interval: str) -> timedelta:
    text = f"p: {{source: {{http: {{}}}}, sink: [{{iceberg: {{table_identifier: a.b, auto_create: true, commit_interval: {commit_interval}}}}}]}}"
    [pipeline] = parse_text(text, PLUGINS).pipelines
    return pipeline.sinks[0].value.commit_interval


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("60000ms", 60), ("'60 s'", 60), ("'  60  s '", 60), ("PT15M", 900), ("5m", 300)]
)
def test_a_duration_of_section_2_5_is_read_and_that_of_the_rfc_too(text: str, seconds: int) -> None:
    assert parsed(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["06s", "-1s", "20.345s", "'100'", "6s1s", "'60ms 100s'", "100sm"])
def test_a_duration_that_data_prepper_refuses_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parsed(text)


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("p: {source: {http: {}}, sink: [{iceberg: {table_identifier: a.b, routes: [x]}}]}", "x"),
        (
            "p: {source: {http: {}}, route: [{r: '/a ='}], sink: [{iceberg: {table_identifier: a.b, routes: [r]}}]}",
            "route",
        ),
        (
            "p: {source: {http: {}}, sink: [{iceberg: {table_identifier: a.b, include_keys: [a], exclude_keys: [b]}}]}",
            "include_keys",
        ),
        ("p: {source: {http: {}}, sink: [{iceberg: {table_identifier: a.b, include_keys: [a/b]}}]}", "cannot contain"),
        ("p: {source: {http: text}, sink: [{iceberg: {table_identifier: a.b}}]}", "http"),
        ("p: {workers: 0, source: {http: {}}, sink: [{iceberg: {table_identifier: a.b}}]}", "workers"),
        ("p: {source: {http: {}}, sink: []}", "sink"),
        ("p: {source: {pipeline: {name: q}}, sink: [{iceberg: {table_identifier: a.b}}]}", "q"),
        ("p: {source: {http: {}}, sink: [{iceberk: {}}]}", "iceberg"),
    ],
)
def test_a_mistake_of_sections_2_1_to_2_6_is_refused_by_name(yaml: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_text(yaml, PLUGINS)
