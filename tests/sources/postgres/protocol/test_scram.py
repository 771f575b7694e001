from __future__ import annotations

import pytest

from calve.sources.postgres.protocol.scram import ScramError, ScramExchange

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_the_server_must_answer_this_exchange() -> None:
    scram = ScramExchange("pencil", "another")
    with pytest.raises(ScramError):
        scram.final(CHALLENGE)
    with pytest.raises(ScramError):
        scram.final(b"no challenge")


def test_a_server_without_the_password_is_found_out() -> None:
    scram = ScramExchange("pencil", NONCE)
    assert scram.final(CHALLENGE).startswith(b"c=biws,r=" + NONCE.encode())
    with pytest.raises(ScramError):
        scram.check(b"v=AAAA")
    with pytest.raises(ScramError):
        scram.check(b"e=other-error")


def test_passwords_are_prepared_as_the_server_prepares_them() -> None:
    assert ScramExchange("Ⅸ", NONCE)._password == b"IX"
    assert ScramExchange("a\u00adb ", NONCE)._password == b"ab "
    assert ScramExchange("a\u0007é", NONCE)._password == "a\u0007é".encode()
