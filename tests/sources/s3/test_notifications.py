from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from calve.sources.s3.notifications import UNKNOWN_SIZE, created
from calve.sources.s3.objects import S3Object
from calve.sources.s3.signing import AccountKeys, signed


def record(key: str = "a+b%2Fc%C3%BC.json", name: str = "ObjectCreated:Put", **more: Any) -> dict[str, Any]:
    found = {"key": key, "size": 5, "eTag": "e1", "sequencer": "00"} | more
    return {"eventSource": "aws:s3", "eventName": name, "s3": {"bucket": {"name": "b"}, "object": found}}


FOUND = S3Object("b", "a b/cü.json", 5, "e1", "", 7)


def test_the_keys_of_s3_are_decoded_and_a_message_may_have_several_records() -> None:
    body = {
        "Records": [record(), record("x", "ObjectRemoved:Delete"), record("y", "ObjectCreated:Copy", versionId="v2")]
    }
    assert created(json.dumps(body), 7) == [FOUND, S3Object("b", "y", 5, "e1", "v2", 7)]


def test_an_envelope_of_sns_is_opened() -> None:
    inner = json.dumps({"Records": [record()]})
    assert created(json.dumps({"Type": "Notification", "MessageId": "1", "Message": inner}), 7) == [FOUND]


def test_events_of_event_bridge_have_plain_keys() -> None:
    detail = {"bucket": {"name": "b"}, "object": {"key": "a+b %2F", "size": 5, "etag": "e1", "version-id": "null"}}
    event = {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}
    assert created(json.dumps(event), 7) == [S3Object("b", "a+b %2F", 5, "e1", "", 7)]
    assert created(json.dumps(event | {"detail-type": "Object Deleted"}), 7) == []


def test_tests_are_no_objects_and_a_missing_size_is_unknown() -> None:
    assert created('{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}', 7) == []
    one = record()
    del one["s3"]["object"]["size"]
    assert [found.size_bytes for found in created(json.dumps({"Records": [one]}), 7)] == [UNKNOWN_SIZE]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("hello", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"a": 1}', "no `Records`"),
        ('{"Records": [1]}', "lacks"),
        ('{"Records": [{"eventSource": "aws:ses"}]}', "aws:ses"),
        ('{"Records": [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {}}]}', "lacks"),
        ('{"Type": "Notification", "Message": "x"}', "not JSON"),
        ('{"source": "aws.s3", "detail-type": "Object Created", "detail": {}}', "lacks"),
    ],
)
def test_other_messages_are_refused_with_the_reason(body: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        created(body, 7)


def test_a_signature_is_that_of_the_test_suite_of_aws() -> None:
    """The case `post-vanilla` of the published test suite."""
    keys = AccountKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    now = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
    headers = signed("https://example.amazonaws.com/", b"", {}, keys, ("us-east-1", "service"), now)
    expected = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
    assert headers["authorization"].endswith(f"SignedHeaders=host;x-amz-date, Signature={expected}")
    assert "wJalr" not in repr(keys)
