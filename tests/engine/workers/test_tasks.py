"""Tasks are Spark's: each is tried again when it loses its worker, and its error comes back as it was raised."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from zipimport import zipimporter

import pytest
from pyspark.sql import SparkSession

from calve.engine import session
from calve.engine.workers.tasks import Tasks
from calve.errors import CalveError, InvariantError, SinkRefusedError, WorkerLostError
from calve.task.failure import attempt
from kit.running import until

pytestmark = pytest.mark.spark


@pytest.fixture
def tasks(spark: SparkSession) -> Tasks:
    return session.start().tasks


def repeated(numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        yield from [number] * number


def described(items: Iterable[int]) -> Iterator[tuple[int, int, str, str]]:
    for item in items:
        yield item, os.getpid(), attempt(), os.environ["OMP_NUM_THREADS"]


def archives(items: Iterable[int]) -> Iterator[str]:
    """Yield the archives whose contents PySpark reads again in each task."""
    for _ in items:
        yield from (entry for entry, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter))


def together(folder: Path, items: Iterable[int]) -> Iterator[int]:
    """End only when as many tasks as there are cores run at once."""
    for item in items:
        (folder / f"{item}").touch()
        until(lambda: len(list(folder.iterdir())) >= 2, "another task runs")
        yield item


def killed_at_first(folder: Path, items: Iterable[int]) -> Iterator[int]:
    """Yield one result, then lose the worker, the first time."""
    for item in items:
        yield item
        if not (folder / f"{item}").exists():
            (folder / f"{item}").touch()
            os.kill(os.getpid(), signal.SIGKILL)


def attempts(folder: Path, items: Iterable[int]) -> Iterator[str]:
    """Keep the number of each attempt in a file, and lose the worker twice."""
    for _ in items:
        (folder / attempt()).touch()
        if len(list(folder.iterdir())) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        yield attempt()


def messages(numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    for number in numbers:
        yield number % 3, b"%d" % number
        yield 2, b"" if number % 2 else b"x" * 100_000


def messages_and_killed(folder: Path, items: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Hand each number and its double on; lose the worker after some messages, the first time."""
    for item in items:
        yield item % 3, b"%d" % item
        yield from ((0, b"%d" % one) for one in killed_at_first(folder, [2 * item]))
        yield 2, b"x" * 1_000_000


def collected(task: int, received: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    yield task, sorted(message for receiver, message in received if receiver == task)


def failing(error: Exception, _: object) -> Iterator[None]:
    raise error
    yield


def test_a_task_reads_no_archive_and_waits_for_no_acknowledgement_of_tcp(tasks: Tasks) -> None:
    """Both cost more than all else of an empty job."""
    assert tasks.run(archives, [1]) == []
    conf = session.start().context.getConf()
    folder = Path(conf.get("spark.python.unix.domain.socket.dir") or "")
    assert conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert any(file.is_socket() for file in folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700


def test_results_are_in_the_order_of_the_items_however_many_each_has(tasks: Tasks) -> None:
    assert tasks.parallelism == 2
    assert tasks.run(repeated, [2, 0, 3, 1]) == [2, 2, 3, 3, 3, 1]
    assert tasks.run(repeated, []) == []


def test_each_item_has_a_task_with_a_number_of_its_own_in_workers_that_are_used_again(tasks: Tasks) -> None:
    first, second = tasks.run(described, [3, 1, 2]), tasks.run(described, range(5))
    assert [one[0] for one in first + second] == [3, 1, 2, 0, 1, 2, 3, 4]
    assert os.getpid() not in {one[1] for one in first}
    assert len({one[1] for one in first + second}) <= 3
    assert len({one[2] for one in first + second}) == 8
    assert {one[3] for one in first} == {"1"}
    assert attempt() == "0"


def test_as_many_tasks_run_at_once_as_there_are_cores(tasks: Tasks, tmp_path: Path) -> None:
    assert tasks.run(partial(together, tmp_path), [1, 2]) == [1, 2]


def test_a_task_that_loses_its_worker_runs_again_and_counts_once(tasks: Tasks, tmp_path: Path) -> None:
    assert tasks.run(partial(killed_at_first, tmp_path), range(5)) == list(range(5))


def test_each_attempt_of_a_task_has_a_number_of_its_own(tasks: Tasks, tmp_path: Path) -> None:
    [last] = tasks.run(partial(attempts, tmp_path), [1])
    names = {file.name for file in tmp_path.iterdir()}
    assert len(names) == 3
    assert last in names


def test_a_task_that_always_loses_its_worker_is_given_up_and_others_go_on(tasks: Tasks) -> None:
    with pytest.raises(WorkerLostError):
        tasks.run(lambda _: os.kill(os.getpid(), signal.SIGKILL), [1])
    assert [one[0] for one in tasks.run(described, [7])] == [7]


def test_the_process_that_forks_workers_is_replaced_too(tasks: Tasks) -> None:
    [(forking, worker)] = tasks.run(lambda items: [(os.getppid(), os.getpid()) for _ in items], [1])
    for process in (forking, worker):
        os.kill(process, signal.SIGKILL)
    assert [one[0] for one in tasks.run(described, [7, 8])] == [7, 8]


@pytest.mark.parametrize(
    ("error", "expected"),
    [(SinkRefusedError("no", step="write", hint="ask"), SinkRefusedError), (ValueError("what"), InvariantError)],
)
def test_the_error_of_a_task_is_raised_as_it_is(tasks: Tasks, error: Exception, expected: type[CalveError]) -> None:
    with pytest.raises(expected, match=str(error)):
        tasks.run(partial(failing, error), [1, 2])
    with pytest.raises(expected, match=str(error)):
        tasks.run_twice(messages, lambda number, _: failing(error, number), [1, 2], 2)


class FromElsewhere:
    """An item whose module the workers do not have."""

    def __reduce__(self) -> tuple[object, ...]:
        return __import__, ("no_such_module",)


def test_what_a_worker_cannot_read_is_an_error(tasks: Tasks) -> None:
    with pytest.raises(InvariantError, match="no_such_module"):
        tasks.run(described, [FromElsewhere()])
    assert [one[0] for one in tasks.run(described, [7])] == [7]


def test_each_task_gets_the_messages_for_it_and_a_task_without_messages_runs_too(tasks: Tasks) -> None:
    found = tasks.run_twice(messages, collected, [1, 2, 4, 7], 4)
    big = b"x" * 100_000
    assert found == [(0, []), (1, [b"1", b"4", b"7"]), (2, sorted([b"2", b"", b"", big, big])), (3, [])]


def test_messages_reach_the_tasks_that_they_are_for_once_whoever_is_killed(tasks: Tasks, tmp_path: Path) -> None:
    found = dict(tasks.run_twice(partial(messages_and_killed, tmp_path), collected, [1, 2, 3, 4], 3))
    big = b"x" * 1_000_000
    assert found == {0: sorted([b"3", b"2", b"4", b"6", b"8"]), 1: [b"1", b"4"], 2: [b"2", big, big, big, big]}
