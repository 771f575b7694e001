"""What executors are told about a storage, and what they are not."""

from __future__ import annotations

import pytest

from calve.catalog.storage import for_executors, needs_s3


def test_java_names_become_pyicebergs() -> None:
    assert for_executors({"client.region": "eu-west-1", "s3.access-key-id": "a", "s3.session-token": "t"}) == {
        "s3.region": "eu-west-1",
        "s3.access-key-id": "a",
        "s3.session-token": "t",
    }


def test_buckets_are_addressed_as_java_addresses_them() -> None:
    endpoint = {"s3.endpoint": "http://127.0.0.1:1"}
    assert for_executors(endpoint)["s3.force-virtual-addressing"] == "true"
    assert "s3.force-virtual-addressing" not in for_executors(endpoint | {"s3.path-style-access": "true"})


def test_secrets_of_the_catalog_stay_on_the_driver() -> None:
    secrets = {"credential": "id:secret", "token": "t", "jdbc.password": "p", "uri": "jdbc:…", "oauth2-server-uri": "u"}
    assert for_executors(secrets) == {}


@pytest.mark.parametrize(
    ("properties", "needed"),
    [
        ({"warehouse": "s3://bucket/wh"}, True),
        ({"warehouse": "s3a://bucket/wh"}, True),
        ({"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}, True),
        ({"type": "rest", "uri": "http://127.0.0.1:1", "s3.endpoint": "http://127.0.0.1:2"}, True),
        ({"type": "hadoop", "warehouse": "/data"}, False),
        ({}, False),
    ],
)
def test_the_jar_for_s3_is_taken_only_when_s3_is_used(properties: dict[str, str], needed: bool) -> None:
    assert needs_s3(properties) is needed
