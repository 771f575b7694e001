"""Texts of others lose the credentials of their addresses, and nothing else."""

from __future__ import annotations

import pickle

import pytest

from calve.credentials import without_credentials
from calve.errors import SourceError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("queue http://user:pw@host:1/q is away", "queue http://host:1/q is away"),
        ("jdbc:postgresql://h/db?user=u&password=pw)", "jdbc:postgresql://h/db?user=u&password=…)"),
        ("https://h/x?X-Amz-Signature=ab12&X-Amz-Date=3", "https://h/x?X-Amz-Signature=…&X-Amz-Date=3"),
        ("az://c@account/x?sig=a%2Bb", "az://account/x?sig=…"),
        ("mail me@example.com about a?token=1", "mail me@example.com about a?token=1"),
        ("abfss://container@account.dfs.core.windows.net/x",) * 2,
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
    ],
)
def test_addresses_in_texts_lose_their_credentials(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


def test_an_error_has_no_credentials_wherever_it_goes() -> None:
    error = SourceError("http://u:pw@h is away", target="http://u:pw@h", hint="No driver for jdbc:x://h?password=pw")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert "pw" not in f"{one} {one!r} {one.to_dict()} {one.args}"
