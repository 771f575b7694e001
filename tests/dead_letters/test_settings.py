"""Data Prepper's keys of `dlq.s3`: what they mean for the files of dead letters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import pytest
from pyiceberg.io import load_file_io

from calve.dead_letters.publish import publish
from calve.errors import SettingsError
from calve.pipeline.plugins import PLUGINS
from calve.record.written import Rejects
from calve.settings import parse_text
from calve.sinks.settings import SinkSettings
from services.objects import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectStore
from services.scripted import Scripted

ROLE = "arn:aws:iam::123456789012:role/writer"


def sink(s3: Mapping[str, Any]) -> SinkSettings:
    options = {"table_identifier": "a.b", "dlq": {"s3": {"bucket": BUCKET, **s3}}}
    text = json.dumps({"p": {"source": {"http": {}}, "sink": [{"iceberg": options}]}})
    settings: SinkSettings = parse_text(text, PLUGINS).pipelines[0].sinks[0].value
    return settings


@pytest.mark.parametrize(
    ("s3", "properties"),
    [
        ({}, {}),
        ({"region": "eu-central-1"}, {"s3.region": "eu-central-1"}),
        ({"force_path_style": True}, {"s3.force-virtual-addressing": "false"}),
        ({"force_path_style": False}, {"s3.force-virtual-addressing": "true"}),
        ({"bucket_owner": "123456789012", "sts_header_overrides": {"a": "b"}}, {}),
    ],
)
def test_region_and_style_are_those_of_the_files(s3: dict[str, Any], properties: dict[str, str]) -> None:
    assert sink(s3).dlq_storage == properties


def test_what_is_no_role_is_refused() -> None:
    with pytest.raises(SettingsError, match="this is no role"):
        sink({"sts_role_arn": "arn:aws:iam::123456789012:group/x"})


@pytest.mark.services
def test_dead_letters_are_written_and_published_with_the_keys_of_a_role(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = f"<K><AccessKeyId>{ACCESS_KEY}</AccessKeyId><SecretAccessKey>{SECRET_KEY}</SecretAccessKey></K>"
    settings = sink({"sts_role_arn": ROLE, "sts_external_id": "ours", "region": REGION, "force_path_style": True})
    with Scripted(lambda *_: (200, keys.encode())) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
        properties = {"s3.endpoint": object_store.endpoint, **settings.dlq_storage}
        source, target = object_store.place("roles/_a.ndjson"), object_store.place("roles/a.ndjson")
        with load_file_io(properties, source).new_output(source).create() as file:
            file.write(b"{}\n")
        publish([Rejects({}, path=source, publish=target)], {object_store.place("roles"): properties})
        assert load_file_io(properties, target).new_input(target).open().read() == b"{}\n"
        asked = parse_qs(sts.asked[0][2].decode())
        assert (asked["RoleArn"], asked["ExternalId"], len(sts.asked)) == ([ROLE], ["ours"], 1)
