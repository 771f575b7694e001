"""The OpenSearch sink takes Data Prepper's keys, and says what is wrong with others where they stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.settings import SettingsErrors, parse_text
from calve.sinks.opensearch.settings import OpenSearchSettings
from calve.sinks.opensearch.template import template_of

BASE = {"hosts": ["http://127.0.0.1:9200"], "index": "logs"}


def parsed(**keys: Any) -> OpenSearchSettings:
    sink = {"opensearch": BASE | keys}
    text = json.dumps({"p": {"source": {"file": {"path": "x.ndjson"}}, "sink": [sink]}})
    settings = parse_text(text, PLUGINS).pipelines[0].sinks[0].value
    assert isinstance(settings, OpenSearchSettings)
    return settings


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"hosts": []}, "hosts: must not be empty"),
        ({"hosts": ["127.0.0.1:9200"]}, "is not an address"),
        ({"hosts": ["https://me:secret@a:9200"]}, "an address cannot have user and password"),
        ({"index": "Logs"}, "upper-case letters; set normalize_index"),
        ({"index": "logs-%{mm}"}, "date pattern"),
        ({"action": "merge"}, "'merge' is not an action"),
        ({"action": "update"}, "update needs a document_id"),
        ({"actions": [{"type": "index"}, {"type": "index"}]}, "has no `when`"),
        ({"actions": [{"type": "index", "when": "/a =="}]}, "actions[0].when"),
        ({"document_version": "${/v}"}, "needs a document_id"),
        ({"document_id": "${"}, "${ without }"),
        ({"username": "a", "authentication": {"username": "a", "password": "b"}}, "set only one"),
        ({"password": "b"}, "needs a username"),
        ({"template_content": "{"}, "the template is not JSON"),
        ({"template_file": "missing.json"}, "cannot be read"),
        ({"flush_timeout": -2}, "must be a duration, or -1"),
        ({"cert": "missing.pem"}, "does not exist"),
        ({"index_type": "tsdb"}, "expected one of custom, management_disabled"),
        ({"aws": {"region": "x", "role": "y"}}, "unknown key 'role'"),
        ({"hots": 1}, "did you mean hosts?"),
        ({"routes": ["x"]}, "unknown route 'x'"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_place(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsErrors, match=r"sink\[0\]\.opensearch") as raised:
        parsed(**keys)
    assert words in str(raised.value)
    assert "me:secret" not in str(raised.value)


def test_the_password_is_never_shown() -> None:
    assert "hidden" not in repr(parsed(username="a", password="hidden"))
    assert "hidden" not in repr(parsed(authentication={"username": "a", "password": "hidden"}))


def test_data_prepper_s_numbers_mean_what_they_mean_there() -> None:
    assert parsed(flush_timeout=250).flush_seconds == 0.25
    assert parsed(flush_timeout=-1).flush_seconds == 0
    assert parsed().flush_seconds == 60
    assert (parsed().bulk_bytes, parsed(bulk_size=-1).bulk_bytes) == (5 << 20, 64 << 20)
    assert parsed(document_id_field="id").id_text == "${id}"


def test_a_template_gets_its_patterns_and_shards() -> None:
    content = {"mappings": {"properties": {"n": {"type": "long"}}}}
    found = template_of(parsed(index="a-%{yyyy}", template_content=json.dumps(content), number_of_shards=3))
    assert found == {"index_patterns": ["a-*"], "settings": {"index.number_of_shards": 3}, **content}
    new = template_of(parsed(template_type="index-template", number_of_replicas=0))
    assert new is not None
    assert new["template"] == {"settings": {"index.number_of_replicas": 0}}
    assert template_of(parsed()) is None
