"""Encrypted sessions with real servers whose certificates an authority of our own has signed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from calve.errors import CalveError, SourceError, Verdict
from calve.sources.mysql import failure as mysql
from calve.sources.postgres import failure as postgres
from services.certificates import Authority, give_tls
from services.mysql import MARIADB, MYSQL, MySql
from services.postgres import Postgres
from sources.database.pipeline import settings_of

pytestmark = pytest.mark.services

KINDS = {"mysql": MYSQL, "mariadb": MARIADB}
ENCRYPTED = {
    "postgres": "select ssl from pg_stat_ssl where pid = pg_backend_pid()",
    "mysql": "show session status like 'Ssl_cipher'",
    "mariadb": "show session status like 'Ssl_cipher'",
}
"""What asks whether the session is encrypted."""


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    """The server's authority, and another one."""
    folder = tmp_path_factory.mktemp("ca")
    return Authority(folder / "own"), Authority(folder / "other")


@pytest.fixture(scope="module", params=["postgres", "mysql", "mariadb"])
def connect(request: pytest.FixtureRequest, authorities: tuple[Authority, Authority]) -> Iterator[Callable[..., Any]]:
    """Give what opens a session with these settings, and returns whether it is encrypted."""
    kind = request.param
    server: Any = Postgres() if kind == "postgres" else MySql(KINDS[kind])
    give_tls(server, authorities[0])

    def opened(**settings: Any) -> bool:
        found = settings_of("postgres" if kind == "postgres" else "mysql", server.port, "postgres", **settings)
        session = postgres.session if kind == "postgres" else mysql.session
        with session(found, "read", "test") as connection:
            return connection.query(ENCRYPTED[kind])[0][-1] not in ("f", "")

    with server:
        yield opened


def test_a_session_is_encrypted_and_the_server_is_checked(
    connect: Callable[..., bool], authorities: tuple[Authority, Authority]
) -> None:
    own = {"ssl_root_certificate_file": str(authorities[0].certificate)}
    assert not connect(ssl_mode="disable")
    for mode in ("prefer", "require"):
        assert connect(ssl_mode=mode)
    for mode in ("verify-ca", "verify-full"):
        assert connect(ssl_mode=mode, **own)
    assert connect(ssl_mode="verify-ca", host="localhost", **own)


def test_a_server_that_is_not_trusted_is_refused_with_the_way_out(
    connect: Callable[..., bool], authorities: tuple[Authority, Authority]
) -> None:
    other = {"ssl_root_certificate_file": str(authorities[1].certificate)}
    own = {"ssl_root_certificate_file": str(authorities[0].certificate)}
    for settings, said, hint in (
        ({"ssl_mode": "verify-full", **other}, "is not signed by a known authority", "ssl_root_certificate_file"),
        ({"ssl_mode": "verify-ca"}, "is not signed by a known authority", "ssl_root_certificate_file"),
        ({"ssl_mode": "verify-full", "host": "localhost", **own}, "is not for localhost", "verify-ca"),
    ):
        with pytest.raises(SourceError) as found:
            connect(**settings)
        assert said in found.value.message
        assert hint in found.value.hint
        assert found.value.verdict is Verdict.STOP, "it does not try again for ever"


def test_a_server_without_tls_is_refused_if_it_is_required() -> None:
    with Postgres() as server:
        session = postgres.session(settings_of("postgres", server.port, "postgres", ssl_mode="require"), "read", "test")
        with pytest.raises(CalveError, match="it has no TLS, which ssl_mode requires") as found:
            session.__enter__()
    assert "Turn TLS on in the server" in found.value.hint
