"""Section 10 of the RFC of the iceberg sink: its table of settings, all at once."""

from __future__ import annotations

from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from kit.statements import missing

STATEMENTS = {
    "each setting, with its type": "sinks/test_rfc_settings.py::test_a_setting_is_read",
    "each default": "sinks/test_rfc_settings.py::test_a_setting_that_is_not_given_has_its_default",
    "only catalog and table_identifier are required": "sinks/test_rfc_settings.py::test_only_the_catalog_may_be_left_out_although_it_is_required_there",
    "transforms": "table/test_definition.py::test_both_forms_of_every_transform_are_read",
    "ack_poll_interval": "settings/test_used.py::test_the_options_without_effect_are_those_of_data_prepper",
    "dlq.s3": "sinks/test_iceberg_settings.py::test_dead_letters_go_to_a_prefix",
    "acknowledgment time-outs": "docs/from-data-prepper.md: a batch in the ledger cannot expire",
}
YAML = """
whole:
  source: {http: {}}
  sink:
    - iceberg:
        catalog: {type: rest, uri: "https://catalog.example.com", warehouse: w, io-impl: org.apache.iceberg.aws.s3.S3FileIO}
        table_identifier: db.events
        operation: "${getMetadata(\\"opensearch_action\\")}"
        identifier_columns: [id]
        auto_create: true
        schema_evolution: true
        schema:
          columns: [{name: id, type: long, required: true}, {name: at, type: timestamptz}]
          partition_spec: [{column: at, transform: day}, {column: id, transform: "bucket[16]"}]
        table_properties: {format-version: "2", write.parquet.compression-codec: zstd}
        table_location: "s3://bucket/db/events"
        commit_interval: PT5M
        flush_interval: PT5M
        ack_poll_interval: PT5S
        dlq: {s3: {bucket: letters, key_path_prefix: calve/, region: eu-central-1}}
"""


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}


def test_all_settings_together_are_a_pipeline_whose_only_warning_is_the_one_without_effect() -> None:
    parsed = parse_text(
        YAML.replace('${getMetadata("opensearch_action")}', "${/op}").replace(
            '${getMetadata(\\"opensearch_action\\")}', "${/op}"
        ),
        PLUGINS,
    )
    assert [pipeline.name for pipeline in parsed.pipelines] == ["whole"]
    assert [warning for warning in map(str, parsed.warnings) if "ack_poll_interval" not in warning] == []
