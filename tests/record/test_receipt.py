"""What a task reports is the same to the driver, errors too."""

from __future__ import annotations

import msgspec
import pytest

from calve.columns.infer import Inferred
from calve.columns.node import Kind, Node
from calve.errors import CalveError, InvariantError, UnprocessableError, WriteError
from calve.record.receipt import Failure, Misfit, Receipt, merge_misfits
from calve.record.target import TableRef

TARGET = TableRef(0, "ns.t")


def sent(report: Receipt | Failure) -> Receipt | Failure:
    return msgspec.json.decode(msgspec.json.encode(report), type=Receipt | Failure)


@pytest.mark.parametrize(
    "error",
    [
        WriteError("no space", step="write", target="t", hint="make room"),
        UnprocessableError("why", step="convert", target="ns.t", sink=1, evidence="trace"),
        UnprocessableError("why", sink=0),
    ],
)
def test_an_error_of_a_task_is_the_same_on_the_driver(error: CalveError) -> None:
    found = sent(Failure.of(error))
    assert isinstance(found, Failure)
    again = found.to_error()
    assert (type(again), again.to_dict()) == (type(error), error.to_dict())


def test_an_error_of_a_name_that_nobody_knows_is_a_bug() -> None:
    assert isinstance(Failure("StrangeError", "why").to_error(), InvariantError)


def test_columns_that_a_task_inferred_reach_the_driver_in_their_order() -> None:
    fields = {"z": Node(Kind.LONG), "a": Node(Kind.DECIMAL, digits=(5, 2)), "l": Node(Kind.LIST, {"x": Node(Kind.INT)})}
    found = Inferred(Node(Kind.STRUCT, fields), 3, False)
    assert sent(Receipt(misfits=[Misfit(TARGET, found)])) == Receipt(misfits=[Misfit(TARGET, found)])
    broken = Inferred(Node(Kind.STRUCT, {**fields, "\ud800": Node(Kind.LONG)}), 3, False)
    assert list(broken.encodable().root.fields) == list("zal")


def test_the_misfits_of_tasks_are_joined_by_table_in_the_order_of_tasks() -> None:
    first, second = (Inferred(Node(Kind.STRUCT, {name: Node(Kind.LONG)}), 1) for name in "ba")
    other = Misfit(TableRef(1, "ns.t"))
    receipts = [
        Receipt(misfits=[Misfit(TARGET), other]),
        *(Receipt(misfits=[Misfit(TARGET, one)]) for one in (first, second)),
    ]
    [joined, same] = merge_misfits(receipts)
    assert (joined.target, list(joined.inferred.root.fields if joined.inferred else ()), same) == (
        TARGET,
        ["b", "a"],
        other,
    )
