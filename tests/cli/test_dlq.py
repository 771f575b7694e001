from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from calve.dead_letters.replay.replayed import ReplayedEntries, Span
from calve.state.location import state_folder_at

from .conftest import Shell


def entry(**changed: Any) -> str:
    default = {
        "pipeline": "orders",
        "sink": "iceberg",
        "table": "shop.orders",
        "timestamp": "2026-01-01T00:00:00Z",
        "reason": "'x' is not a valid int",
        "code": "NOT_COERCIBLE",
        "field": "amount",
        "event": '{"amount": "x"}',
        "metadata": {"kafka_offset": 7},
    }
    return json.dumps({**default, **changed}) + "\n"


@pytest.fixture
def letters(shell: Shell) -> Shell:
    odd = base64.b64encode(b"\xff\x1b[31m").decode()
    broken = entry(table=None, code="MALFORMED", field=None, event=odd, event_encoding="base64")
    shell.write("calve-state/orders/dlq/1.ndjson", entry() + "no entry\n" + broken)
    shell.write("calve-state/orders/dlq/2.ndjson", entry(timestamp="2026-01-02T00:00:00Z") + entry()[:40])
    shell.write("calve-state/clicks/dlq/_unpublished.ndjson", entry())
    return shell


def test_list_counts_by_table_and_code(letters: Shell) -> None:
    result = letters("dlq", "list")
    assert result.exit_code == 0
    assert "orders: 3 dead letters, 2026-01-01T00:00:00Z … 2026-01-02T00:00:00Z" in result.stdout
    assert "shop.orders  NOT_COERCIBLE       2" in result.stdout
    assert "2 lines skipped" in result.stdout
    assert "clicks: 0 dead letters" in result.stdout


def test_an_entry_counts_and_shows_as_often_as_its_event_was_rejected(shell: Shell) -> None:
    shell.write("calve-state/orders/dlq/1.ndjson", entry(count=1200) + entry(event="{}"))
    assert "orders: 1,201 dead letters" in shell("dlq", "list").stdout
    assert "NOT_COERCIBLE · amount · 1,201 times" in shell("dlq", "show").stdout
    assert shell("dlq", "show", "--raw").stdout.splitlines() == ['{"amount": "x"}'] * 1200 + ["{}"]
    assert json.loads(shell("dlq", "show", "--json").stdout.splitlines()[0])["count"] == 1200


def test_list_as_json(letters: Shell) -> None:
    (one,) = json.loads(letters("dlq", "list", "--pipeline", "orders", "--json").stdout)["pipelines"]
    assert (one["entries"], one["unreadable"]) == (3, 2)
    assert one["counts"][0] == {"table": "shop.orders", "code": "NOT_COERCIBLE", "count": 2}


def test_show_is_readable_and_harmless(letters: Shell) -> None:
    result = letters("dlq", "show")
    assert result.exit_code == 0
    for text in (
        "2026-01-01T00:00:00Z · orders · shop.orders · NOT_COERCIBLE · amount",
        "reason:   'x' is not a valid int",
        'metadata: {"kafka_offset": 7}',
        'event:    {"amount": "x"}',
        "no table · MALFORMED",
        r"event:    \xff\x1b[31m",
    ):
        assert text in result.stdout
    assert "1.ndjson:2" in result.stderr
    assert "2.ndjson:2" in result.stderr
    assert "\x1b" not in result.stdout


def test_raw_gives_the_original_bytes_and_nothing_else(letters: Shell) -> None:
    assert letters("dlq", "show", "--raw").stdout_bytes == b'{"amount": "x"}\n\xff\x1b[31m\n{"amount": "x"}\n'


def test_show_as_json_gives_the_entries_as_they_are(letters: Shell) -> None:
    lines = letters("dlq", "show", "--json", "--code", "NOT_COERCIBLE").stdout.splitlines()
    assert lines[0] + "\n" == entry()
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (("--code", "MALFORMED"), 1),
        (("--table", "shop.orders"), 2),
        (("--table", "shop.orders", "--code", "MALFORMED"), 0),
        (("--pipeline", "clicks"), 0),
        (("--limit", "1"), 1),
        (("--limit", "0"), 3),
    ],
)
def test_show_can_be_narrowed(letters: Shell, arguments: tuple[str, ...], count: int) -> None:
    result = letters("dlq", "show", "--json", *arguments)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == count


def test_a_limit_that_hides_something_says_so(letters: Shell) -> None:
    assert "There are more. Use --limit 10, or --limit 0 for all." in letters("dlq", "show", "--limit", "1").stderr
    assert "There are more" not in letters("dlq", "show", "--limit", "2").stderr


def test_entries_of_one_code_field_and_reason_are_together_with_the_times_they_were_sent_again(shell: Shell) -> None:
    again = entry(event="{}", field="id", metadata={"replays": 2})
    shell.write(
        "calve-state/orders/dlq/1.ndjson", entry() + again + entry(event='{"amount": "y"}') + entry(table="b.c")
    )
    heads = [line for line in shell("dlq", "show").stdout.splitlines() if " · " in line]
    assert [head.split(" · ", 2)[2] for head in heads] == [
        "shop.orders · NOT_COERCIBLE · amount · 2 times",
        "shop.orders · NOT_COERCIBLE · id · sent again 2 times",
        "b.c · NOT_COERCIBLE · amount",
    ]


def test_no_dead_letters_is_said(letters: Shell) -> None:
    assert letters("dlq", "show", "--pipeline", "clicks").stderr == "No dead letters.\n"


@pytest.mark.parametrize("command", ["list", "show"])
def test_an_unknown_state_or_pipeline_is_one_sentence(letters: Shell, command: str) -> None:
    for arguments, said in ((("--state", "none"), "there is no state folder"), (("--pipeline", "x"), "clicks, orders")):
        result = letters("dlq", command, *arguments)
        assert result.exit_code == 1
        assert said in result.stderr


def test_list_says_how_many_were_replayed(letters: Shell) -> None:
    first = len(entry())
    ReplayedEntries(state_folder_at(letters.folder / "calve-state/orders/replay")).add(
        [Span("1.ndjson", 0, first, 1), Span("moved-away.ndjson", 0, 9, 7)]
    )
    assert "orders: 2 dead letters, 1 more replayed, 2026-01-01" in letters("dlq", "list").stdout
    (one,) = json.loads(letters("dlq", "list", "--pipeline", "orders", "--json").stdout)["pipelines"]
    assert (one["entries"], one["replayed"]) == (2, 1)
    assert len(letters("dlq", "show", "--json").stdout.splitlines()) == 2
    assert len(letters("dlq", "show", "--json", "--replayed").stdout.splitlines()) == 3


def test_an_entry_that_is_not_the_base64_it_says_is_passed_over(shell: Shell) -> None:
    shell.write("calve-state/orders/dlq/1.ndjson", entry(event="?", event_encoding="base64") + entry())
    result = shell("dlq", "show", "--raw")
    assert result.exit_code == 0
    assert result.stdout == '{"amount": "x"}\n'
    assert "1.ndjson:1: the event is not Base64" in result.stderr


def test_a_replay_needs_a_pipeline_that_the_configuration_has(shell: Shell) -> None:
    shell.write("p.yaml", 'orders:\n  source:\n    http: {}\n  sink:\n    - iceberg: {table_identifier: "a.b"}\n')
    result = shell("dlq", "replay", "p.yaml", "--pipeline", "order")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "The configuration has no pipeline order. It has: orders" in result.stderr


def test_without_dead_letters_nothing_is_replayed_and_nothing_is_left_behind(shell: Shell) -> None:
    shell.write("p.yaml", 'orders:\n  source:\n    http: {}\n  sink:\n    - iceberg: {table_identifier: "a.b"}\n')
    result = shell("dlq", "replay", "p.yaml")
    assert (result.exit_code, result.stdout) == (0, "orders: nothing to replay\n")
    assert [path.name for path in shell.folder.iterdir()] == ["p.yaml"]


def test_a_code_may_be_in_any_case_and_an_unknown_one_is_answered_with_all_codes(letters: Shell) -> None:
    shown = letters("dlq", "show", "--code", "malformed", "--json")
    assert shown.stdout == letters("dlq", "show", "--code", "MALFORMED", "--json").stdout != ""
    refused = letters("dlq", "show", "--code", "FOO")
    assert refused.exit_code == 2
    assert "FOO is not a code. The codes are MALFORMED, " in refused.stderr


def test_it_says_which_filters_match_nothing(letters: Shell) -> None:
    shown = letters("dlq", "show", "--code", "NO_KEY", "--table", "no.table")
    assert shown.stderr.endswith("No dead letters with --code NO_KEY and --table no.table.\n")
