"""What is rejected or not written is logged when it first occurs, and then each time its count has grown tenfold."""

from __future__ import annotations

import io
import json

import pytest

from calve.observe.batch_counts import BatchCounts
from calve.observe.log import configure
from calve.observe.notices import IGNORED_HINT, MOST_LINES, NULLED_HINT, Notices, reject_hint
from calve.observe.terminal import Terminal


@pytest.fixture
def stream() -> io.StringIO:
    found = io.StringIO()
    configure(Terminal(found, False))
    return found


def lines(stream: io.StringIO) -> list[str]:
    found = [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()]
    stream.seek(0)
    stream.truncate()
    return found


def nulled(count: int, reason: str = "'n/a' is not a valid long") -> BatchCounts:
    return BatchCounts(1, 9, nulled={"shop.orders": {"total": count}}, reasons={"shop.orders": {"total": reason}})


def test_a_value_that_became_null_is_logged_at_once_with_why_and_the_way_out(stream: io.StringIO) -> None:
    Notices("p").log(nulled(1))
    said = (
        "p warning: shop.orders: 1 value of total became NULL, for example: 'n/a' is not a valid long. " + NULLED_HINT
    )
    assert lines(stream) == [said]


def test_an_id_that_no_event_of_a_batch_has_is_logged_at_once(stream: io.StringIO) -> None:
    Notices("p").log(BatchCounts(1, 3, derived_ids={"orders": 3}))
    [line] = lines(stream)
    assert line.startswith("p warning: orders: document_id has no value in any event of a batch (3 documents so far)")


def test_the_same_loss_is_logged_again_only_when_it_has_grown_tenfold(stream: io.StringIO) -> None:
    notices, told = Notices("p"), []
    for batch in range(1, 1200):
        notices.log(nulled(1))
        told += [(batch, line.split()[3]) for line in lines(stream)]
    assert told == [(1, "1"), (10, "10"), (100, "100"), (1000, "1,000")]


def test_a_large_batch_is_one_line_and_the_next_one_ten_times_later(stream: io.StringIO) -> None:
    notices = Notices("p")
    for count, due in ((500, True), (4499, False), (1, True), (1, False)):
        notices.log(nulled(count))
        assert bool(lines(stream)) is due


def test_the_first_reject_of_each_table_and_code_is_logged_with_the_command_that_shows_it(stream: io.StringIO) -> None:
    notices = Notices("p", "calve dlq show --state /s")
    rejects = {"shop.orders": {"NOT_COERCIBLE": 2, "NO_KEY": 1}, "": {"MALFORMED": 1}}
    notices.log(
        BatchCounts(
            1, 9, rejects=rejects, examples={"shop.orders": {"NOT_COERCIBLE": "total: 'x' is not a valid long"}}
        )
    )
    assert lines(stream) == [
        "p warning: shop.orders: 2 events rejected with NOT_COERCIBLE, for example: total: 'x' is not a valid long."
        " To see them: calve dlq show --state /s. To write them: change the column's type (ALTER TABLE; column_types for a"
        " new table) and calve dlq replay, or set on_type_mismatch: null if the column is optional",
        "p warning: shop.orders: 1 event rejected with NO_KEY. To see them: calve dlq show --state /s",
        "p warning: no table: 1 event rejected with MALFORMED. To see them: calve dlq show --state /s",
    ]
    notices.log(BatchCounts(2, 9, rejects=rejects))
    assert lines(stream) == []


def test_fields_without_a_column_are_one_line_for_a_table_that_names_the_most_frequent(stream: io.StringIO) -> None:
    fields = {"debug": 12, "extra.a": 30, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}
    notices = Notices("p")
    notices.log(BatchCounts(1, 40, ignored={"shop.orders": fields}))
    said = "p warning: shop.orders: fields not written, with the number of events: "
    said += "extra.a 30, debug 12, b 1, c 1, d 1 and 2 more. "
    assert lines(stream) == [said + IGNORED_HINT]
    notices.log(BatchCounts(2, 1, ignored={"shop.orders": {"another": 1}}))
    assert lines(stream) == []


def test_what_strangers_wrote_cannot_steer_the_terminal(stream: io.StringIO) -> None:
    Notices("p").log(nulled(1, "'\x1b[2J\n' is not a valid long"))
    assert "'\\x1b[2J\\n' is not a valid long" in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_many_tables_at_once_do_not_fill_the_log(stream: io.StringIO) -> None:
    rejects = {f"shop.t{number}": {"NO_SUCH_TABLE": 1} for number in range(MOST_LINES + 5)}
    Notices("p").log(BatchCounts(1, 99, rejects=rejects))
    said = lines(stream)
    assert (len(said), said[-1]) == (MOST_LINES + 1, "p warning: 5 more notices like these; see calve status")


def test_machines_get_table_name_and_count_as_fields() -> None:
    stream = io.StringIO()
    configure(Terminal(stream, False), json=True)
    Notices("p").log(nulled(3))
    found = json.loads(stream.getvalue())
    assert {key: found[key] for key in ("level", "table", "column", "count", "hint")} == {
        "level": "warning", "table": "shop.orders", "column": "total", "count": 3, "hint": NULLED_HINT,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "reason", "helps", "not_said"),
    [
        ("NOT_COERCIBLE", "v: half a surrogate pair is not valid text", "on_type_mismatch: null", "type (ALTER"),
        ("NOT_COERCIBLE", "s.a: a required field is missing or null", "on_type_mismatch: null", "column_types"),
        ("NOT_COERCIBLE", "v: 'half a surrogate pair is not valid text' is not a valid long", "column_types", "NULL"),
        ("AMBIGUOUS_FIELD", "id: 'ID' and 'id' are the same when case is ignored", "exclude_keys", "case_insensitive"),
        (
            "AMBIGUOUS_FIELD",
            "the field cannot become a column: its name has half a surrogate pair",
            "include_keys",
            "case_",
        ),
        ("NO_SUCH_TABLE", "the table a.b does not exist and auto_create is off", "auto_create: true", "drop"),
        ("NO_SUCH_TABLE", "the table a.b cannot be created: no permission", "create the table", "auto_create"),
    ],
)
def test_a_hint_helps_against_its_reason(code: str, reason: str, helps: str, not_said: str) -> None:
    assert helps in reject_hint(code, reason)
    assert not_said not in reject_hint(code, reason)


def test_a_null_that_no_type_would_take_has_no_hint_of_types(stream: io.StringIO) -> None:
    Notices("p").log(nulled(1, "half a surrogate pair is not valid text"))
    assert lines(stream)[0].endswith("valid text. To keep such events as dead letters: on_type_mismatch: dlq")
