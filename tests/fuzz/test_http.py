"""A few rounds of `make fuzz FUZZ=--http` in this process, and laws of its oracle."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from calve.sources.http import source
from calve.state.local_folder import LocalFolder
from fuzz import http_play
from fuzz.clients import Answer, Script, Talk, parse
from fuzz.http_play import Kept, check, converse, events, make
from fuzz.messages import Maker, Rules
from fuzz.receiver import settings

ROUNDS = (1, 2, 4)
ANSWER = b"HTTP/1.1 200 OK\r\ndate: x\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nOK\n"


@pytest.mark.parametrize("number", ROUNDS)
def test_whatever_bytes_arrive_answers_are_http_and_what_is_answered_200_is_kept_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    played = make("suite", number)
    http = source.open(settings(played.options), LocalFolder(tmp_path), "p")
    http.start(None, once=False)
    try:
        talks = converse(http.address, played)
    finally:
        http.stop()
    kept = Kept(events(played, tmp_path))
    assert [*check(played, talks, kept), *http_play.in_log(caplog.text)] == []
    assert kept.events


def test_a_round_is_always_the_same() -> None:
    assert [plan.data for plan in make("suite", 3).scripts] == [plan.data for plan in make("suite", 3).scripts]


def test_the_oracle_sees_what_is_lost_kept_twice_or_kept_without_200() -> None:
    good = Maker(random.Random(3), Rules(50_000, False, False)).good("c")
    plan = Script([good], b"", [], "half", [])
    played = http_play.Round({"max_body": 1000}, [plan])
    once = [("c", event) for event in good.events]
    assert once

    def found(status: int, kept: list[tuple[str, object]]) -> list[str]:
        talk = Talk(answers=[Answer(status, False, b"")])
        return [finding.kind for finding in check(played, [talk], Kept(kept))]

    assert found(200, once) == []
    assert found(200, []) == found(200, [*once, *once]) == found(200, once[1:]) == ["count"]
    assert found(400, once) == ["value", "count"]
    assert [finding.kind for finding in check(played, [Talk()], Kept([]))] == ["count"]


@pytest.mark.parametrize(
    "wrong",
    [
        ANSWER.replace(b"200", b"20"),
        ANSWER.replace(b"length: 3", b"length: 4"),
        ANSWER.replace(b"date: x\r\n", b""),
        ANSWER.replace(b"date: x", b"date: x\r\nset-cookie: y"),
        ANSWER + b"x",
    ],
)
def test_the_oracle_accepts_only_whole_answers(wrong: bytes) -> None:
    assert parse(ANSWER * 2, [], whole=True) == ([Answer(200, False, b"OK\n")] * 2, "")
    assert parse(wrong, [], whole=True)[1]
