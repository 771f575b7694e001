"""Options of Data Prepper's s3 source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.settings import PipelineSettings, parse_text
from calve.settings.problems import SettingsErrors
from calve.sources.s3.attributes import METADATA
from processors.chains import run

QUEUE = {"queue_url": "https://sqs.us-east-1.amazonaws.com/000000000000/MyQueue"}


def parsed(options: dict[str, Any], *processors: dict[str, Any]) -> PipelineSettings:
    pipeline = {
        "source": {"s3": {"sqs": QUEUE, **options}},
        "processor": list(processors),
        "sink": [{"iceberg": {"table_identifier": "a.b"}}],
    }
    [settings] = parse_text(json.dumps({"one": pipeline}), PLUGINS).pipelines
    return settings


@pytest.mark.parametrize(
    ("root", "keys"),
    [
        ("s3/", ["s3/bucket", "s3/key"]),
        ("/a/b", ["a/b/bucket", "a/b/key"]),
        ("", ["bucket", "key"]),
    ],
)
def test_metadata_root_key_adds_the_bucket_and_the_key_behind_masks(root: str, keys: list[str]) -> None:
    mask = {"mask": {"columns": [{"names": ["a"], "action": "drop"}]}}
    settings = parsed({"metadata_root_key": root}, {"delete_entries": {"with_keys": ["x"]}})
    assert [plugin.name for plugin in settings.processors] == ["add_entries", "delete_entries"]
    entries = settings.processors[0].value.entries
    assert [entry.key for entry in entries] == keys
    assert {name for entry in entries for name in METADATA if name in entry.value_expression} == {"s3_bucket", "s3_key"}
    assert [plugin.name for plugin in parsed({"metadata_root_key": root}, mask).processors] == ["mask", "add_entries"]
    assert parsed({}).processors == []


def test_the_fields_of_metadata_root_key_replace_those_of_the_event() -> None:
    [added] = parsed({"metadata_root_key": "s3/"}).processors
    entries = [
        {"key": entry.key, "value_expression": entry.value_expression, "overwrite_if_key_exists": True}
        for entry in added.value.entries
    ]
    events = {"s3": {"key": "old", "n": 1}}, {}
    outcome = run([{"add_entries": {"entries": entries}}], *events, s3_bucket=["b", "b"], s3_key=["é/1", 'k"2'])
    assert outcome.events == [{"s3": {"key": "é/1", "n": 1, "bucket": "b"}}, {"s3": {"bucket": "b", "key": 'k"2'}}]


@pytest.mark.parametrize("options", [{"default_bucket_owner": "1"}, {"bucket_owners": {"my-bucket-01": 123456789012}}])
def test_owners_of_buckets_that_nobody_would_check_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsErrors, match="aws:ResourceAccount"):
        parsed(options)
