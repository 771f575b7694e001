"""Texts of others lose the credentials of their addresses, and nothing else."""

from __future__ import annotations

import csv
import html
import io
import json
import pickle
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from calve.credentials import in_short, is_secret_key, remember, without_credentials
from calve.errors import SourceError
from calve.observe.watch import Watch
from calve.operate.probe import _answers
from whole.canaries import ENDING

SECRET = f"geheim{ENDING}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("queue http://user:pw@host:1/q is away", "queue http://host:1/q is away"),
        ("jdbc:postgresql://h/db?user=u&password=pw)", "jdbc:postgresql://h/db?user=u&password=…)"),
        ("https://h/x?X-Amz-Signature=ab12&X-Amz-Date=3", "https://h/x?X-Amz-Signature=…&X-Amz-Date=3"),
        ("az://c@account/x?sig=a%2Bb", "az://account/x?sig=…"),
        ("http://user:p@ss/w)ord@host:1/q is away", "http://host:1/q is away"),
        ("http://u:pw@a,http://u:pw@b", "http://a,http://b"),
        ("(jdbc:postgresql://h/db?password=ab)c)", "(jdbc:postgresql://h/db?password=…)"),
        ("jdbc:postgresql://h/db?password='a b'&user=u", "jdbc:postgresql://h/db?password=…&user=u"),
        ("http://host:9200/q?mail=a@b", "http://host:9200/q?mail=a@b"),
        ("mail me@example.com about a?token=1", "mail me@example.com about a?token=1"),
        ("abfss://container@account.dfs.core.windows.net/x",) * 2,
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
    ],
)
def test_addresses_in_texts_lose_their_credentials(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "key",
    [
        *("password", "kafka.sasl.jaas.config", "eventhubs.connectionString", "awsSecretKey", "fs.s3a.secret.key"),
        *("kafka.ssl.keystore.key", "pulsar.client.authParams", "es.net.http.auth.pass"),
        *("pem_private_key", "credentials", "sfToken", "fs.azure.account.key.a.dfs.core.windows.net", "accessKey"),
    ],
)
def test_options_of_sparks_sources_with_secrets_are_known(key: str) -> None:
    assert is_secret_key(key)


def test_options_that_only_have_to_do_with_secrets_are_shown() -> None:
    shown = ["path", "dbtable", "partitionColumn", "kafka.bootstrap.servers", "credentialsFile", "subscribe", "key"]
    assert not any(map(is_secret_key, shown))


def test_the_password_within_a_login_is_a_secret_by_itself() -> None:
    remember({"kafka.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="geheim12";'})
    assert without_credentials("login u/geheim12 failed") == "login u/… failed"


def test_an_error_has_no_credentials_wherever_it_goes() -> None:
    error = SourceError("http://u:pw@h is away", target="http://u:pw@h", hint="No driver for jdbc:x://h?password=pw")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert "pw" not in f"{one} {one!r} {one.to_dict()} {one.args}"


def _row_of_csv(text: str) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([text, 1])
    return out.getvalue()


FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "encoded": lambda text: quote(text, safe=""),
    "encoded but for slashes": quote,
    "encoded as a form": quote_plus,
    "encoded in lower case": lambda text: quote(text, safe="").replace("%2F", "%2f").replace("%C3", "%c3"),
    "encoded twice": lambda text: quote(quote(text, safe=""), safe=""),
    "only some characters encoded": lambda text: quote(text, safe="@)'&;=+ "),
    "repr": repr,
    "repr of bytes": lambda text: repr(text.encode()),
    "ascii": ascii,
    "JSON": json.dumps,
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "HTML": html.escape,
    "CSV": _row_of_csv,
    "SQL": lambda text: text.replace("'", "''"),
    "read as Latin-1": lambda text: text.encode().decode("latin-1"),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 of a user and it": lambda text: b64encode(f"user1:{text}".encode()).decode(),
    "base64 of more, for an address": lambda text: urlsafe_b64encode(f"user:{text}!".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_known_secret_is_replaced_in_every_form(form: str) -> None:
    given = f"refused {FORMS[form](SECRET)} by host"
    assert without_credentials(given) == given, "nothing else knows it"
    remember(SECRET, is_secret=True)
    shown = without_credentials(given)
    assert shown.startswith("refused ")
    assert shown.endswith(" by host")
    assert "…" in shown
    for piece in ("geheim", "Z2VoZWlt", "ZWhlaW", "laGVpb", "z"):
        assert piece not in shown


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"uri": "http://user:p@ssw/ord12@host:1/"}, "nonnumeric port: 'p@ssw'"),
        ({"uri": "http://user:p@ssw/ord12@host:1/"}, "Cannot resolve host: ssw/ord12"),
        ({"uri": "http://user:p%40ssword@host:1/"}, "wrong: p@ssword"),
        ({"uri": "jdbc:postgresql://h/db?user=u&password=ab%29cd"}, "wrong: ab)cd"),
        ({"credential": "id:se cret"}, "wrong: se cret"),
        ({"header.Authorization": "Bearer se/cret"}, "wrong: 'se/cret'"),
        ([{"s3.secret-access-key": "se/cret"}], "wrong: 'se/cret'"),
    ],
)
def test_the_secrets_of_properties_are_known_by_key_or_place(options: object, text: str) -> None:
    remember(options)
    shown = without_credentials(text)
    for piece in ("ssw", "ord12", "ab)cd", "cret"):
        assert piece not in shown


def test_what_is_no_secret_stays() -> None:
    text = "the latest rest catalog at http://host:8181/warehouse is true"
    remember({"type": "rest", "uri": "http://host:8181/warehouse", "token-refresh-enabled": "true", "pwd": "abc"})
    remember("test", is_secret=True)
    assert without_credentials(text) == text
    assert without_credentials("password test, 'test'") == "password …, '…'"


def test_an_error_is_cut_only_without_its_secrets() -> None:
    remember(SECRET, is_secret=True)
    assert in_short(ValueError(f"{'x' * 290} {SECRET}")) == f"ValueError: {'x' * 290} …"


def test_what_health_and_connect_say_of_an_unexpected_error_has_no_secret() -> None:
    def probe() -> None:
        raise ValueError(f"control characters: {SECRET!r}")

    remember(SECRET, is_secret=True)
    watch = Watch()
    watch.failed("orders", f"control characters: {SECRET!r}")
    assert watch.health()["orders"].error == "control characters: '…'"
    assert _answers([("orders", probe)]) == ["orders: ValueError: control characters: '…'"]
