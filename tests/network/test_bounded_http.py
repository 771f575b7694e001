"""Requests to servers that are not trusted: logins, headers."""

from __future__ import annotations

import base64

import pytest
from urllib3.exceptions import HTTPError

from calve.errors import SourceError, SourceUnavailableError
from calve.network.bounded_http import BoundedServer, HeaderError, basic_login
from calve.serde.registry import Registry
from calve.serde.settings import SchemaSettings
from services.scripted import Scripted


def test_a_login_may_have_any_character() -> None:
    header = basic_login("ü", "p€:ss\n")["authorization"]
    assert base64.b64decode(header.removeprefix("Basic ")).decode() == "ü:p€:ss\n"


@pytest.mark.parametrize("value", ["s3cret\n", "s3cret€", "s3cret\r\nx: y"])
def test_a_header_that_http_does_not_allow_is_said_without_its_value(value: str) -> None:
    with Scripted(lambda method, path, body: (200, b"")) as server:
        with pytest.raises(HeaderError) as refused:
            BoundedServer(server.address, 5, 5).ask("GET", "/", None, {"x-key": value}, 100)
        assert server.asked == []
    assert isinstance(refused.value, HTTPError)
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_registry_s_token_that_no_header_may_have_is_no_registry_that_is_away() -> None:
    settings = SchemaSettings(registry_url="http://127.0.0.1:9", bearer_token="s3cret\n")
    with pytest.raises(SourceError, match="a header has characters that HTTP does not allow") as refused:
        Registry(settings).version("s", "latest")
    assert not isinstance(refused.value, SourceUnavailableError)
    assert "s3cret" not in str(refused.value)
