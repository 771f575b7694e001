"""TLS to the registry with an authority of one's own: a real handshake on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from calve.errors import SettingsError, SourceError, SourceUnavailableError
from calve.event.columns import EVENT
from calve.serde.decoder import SchemaDecoder, check
from calve.serde.settings import SchemaSettings, Serde
from serde.avro.test_decoder import record
from services.certificates import Authority
from services.registry import Registry, framed


class _Server(NamedTuple):
    """A registry with TLS, and the authority that signed its certificate."""

    registry: Registry
    authority: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Server]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder / "own")
    certificate, key = authority.sign("127.0.0.1")
    both = folder / "both.pem"
    both.write_text(certificate.read_text() + key.read_text())
    registry = Registry().start(both)
    registry.register("s", record("int"))
    yield _Server(registry, authority.certificate)
    registry.stop()


def serde(url: str, **schema: Any) -> Serde:
    return Serde("avro", SchemaSettings(registry_url=url, **schema).with_text(), ("s",))


def decoded(url: str, **schema: Any) -> int:
    events = pa.table({EVENT: pa.array([framed(1, b"\x02")], pa.binary())})
    return len(SchemaDecoder(serde(url, **schema)).decode(events).rows)


def test_an_authority_of_ones_own_is_a_file_or_its_content(server: _Server) -> None:
    for certificate in (str(server.authority), server.authority.read_text()):
        assert decoded(server.registry.url, certificate=certificate) == 1
    check(serde(server.registry.url, certificate=str(server.authority)))
    assert decoded(server.registry.url, insecure=True) == 1


def test_another_authority_stops_with_what_to_set(server: _Server, tmp_path: Path) -> None:
    for wrong in ({}, {"certificate": str(Authority(tmp_path / "other").certificate)}):
        with pytest.raises(SourceError, match="is not trusted: ") as caught:
            decoded(server.registry.url, **wrong)
        assert not isinstance(caught.value, SourceUnavailableError)
        assert "Set `certificate`" in caught.value.hint


def test_another_name_than_the_certificates_is_told(server: _Server) -> None:
    url = server.registry.url.replace("127.0.0.1", "localhost")
    with pytest.raises(SourceError, match=r"is not trusted: .*localhost") as caught:
        decoded(url, certificate=str(server.authority))
    assert "Set `registry_url` to a name in its certificate" in caught.value.hint


def test_a_registry_without_tls_is_told() -> None:
    with Registry() as plain, pytest.raises(SourceError, match="does not speak TLS") as caught:
        decoded(plain.url.replace("http:", "https:"))
    assert "http://" in caught.value.hint


def test_what_is_no_certificate_is_refused_before_the_start(server: _Server, tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("nonsense")
    wrong = {str(tmp_path / "none.pem"): "No such file", str(tmp_path / "x.pem"): "no certificate in PEM"}
    wrong[str(server.authority.with_suffix(".key"))] = "no certificate in PEM"
    for certificate, reason in wrong.items():
        with pytest.raises(SettingsError, match=reason):
            serde(server.registry.url, certificate=certificate)
