"""What runs in tasks gives the same on the workers of this machine and as jobs of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from calve.engine.forks import Forks
from calve.engine.tasks import ClusterTasks, LocalTasks, Tasks
from calve.engine.workers import Workers
from calve.errors import CalveError


@pytest.fixture(params=["local", pytest.param("cluster", marks=pytest.mark.spark)])
def tasks(request: pytest.FixtureRequest) -> Iterator[Tasks]:
    if request.param == "cluster":
        yield ClusterTasks(request.getfixturevalue("spark").sparkContext)
        return
    made = LocalTasks(Workers(Forks(None, {}), 2, 3))
    yield made
    made.close()


def repeated(numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        yield from [number] * number


def handed_on(numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    for number in numbers:
        yield number % 3, b"%d" % number
        yield 2, b"" if number % 2 else b"x" * 100_000


def collected(task: int, messages: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    yield task, sorted(message for receiver, message in messages if receiver == task)


def failing(numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        yield 1 // number


def test_results_are_in_the_order_of_the_items_however_many_each_has(tasks: Tasks) -> None:
    assert tasks.parallelism == 2
    assert tasks.run(repeated, [2, 0, 3, 1]) == [2, 2, 3, 3, 3, 1]


def test_each_task_gets_the_messages_for_it_and_a_task_without_messages_runs_too(tasks: Tasks) -> None:
    found = tasks.run_twice(handed_on, collected, [1, 2, 4, 7], 4)
    big = b"x" * 100_000
    assert found == [(0, []), (1, [b"1", b"4", b"7"]), (2, sorted([b"2", b"", b"", big, big])), (3, [])]


def test_the_failure_of_a_task_is_an_error_of_calve(tasks: Tasks) -> None:
    with pytest.raises(CalveError):
        tasks.run(failing, [1, 0])
