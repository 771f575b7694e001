"""Tasks of a local run: each has a process, a lost one is replaced, and none outlives the driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from calve.engine.fork_server import attempt
from calve.engine.forks import Forks
from calve.engine.tasks import LocalTasks, Tasks
from calve.engine.workers import Workers
from calve.errors import CalveError, EngineError, InvariantError, SinkRefusedError, WorkerLostError
from engine import without_spark
from running import until

SLEEPING_DRIVER = """
import sys
from pathlib import Path
from engine.test_workers import sleep
from calve.engine.forks import Forks
from calve.engine.workers import Workers
Workers(Forks(None, {}, sys.argv[2] == "True"), 2, 4).run(sleep, [[sys.argv[1]], [sys.argv[1]]])
"""
FORKING_DRIVER = """
import os, signal, sys
from calve.engine.forks import Forks
from calve.engine.workers import Workers
signal.signal(signal.SIGTERM, lambda *_: None)
forks = Forks(None, {"CALVE_PRELOAD": "calendar", "OF_WORKERS": "yes"}, True)
sys.modules["only_here"] = sys
def look(items):
    import os, signal, sys
    yield from items
    parent = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
    yield parent, os.getppid() == os.getpgid(0), os.environ["OF_WORKERS"], "only_here" in sys.modules
    yield signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, len(os.listdir("/proc/self/fd")) < 8, os.readlink("/proc/self/fd/1")
workers = Workers(forks, 1, 4)
for _ in range(2):
    item, found, more = workers.run(look, [[1]])
    print(item, found == (os.getpid(), True, "yes", False), found[0] != os.getpid(), more)
    os.killpg(forks._process.pid, signal.SIGKILL)
"""


@pytest.fixture
def tasks() -> Iterator[Tasks]:
    made = LocalTasks(Workers(Forks(None, {"OF_WORKERS": "yes"}), 2, 3))
    yield made
    made.close()


def described(items: Iterable[int]) -> Iterator[tuple[int, int, int | None, str]]:
    for item in items:
        yield item, os.getpid(), attempt(), os.environ["OF_WORKERS"] + os.environ["OMP_NUM_THREADS"]


def together(folder: Path, items: Iterable[int]) -> Iterator[int]:
    """End only when as many tasks as there are workers run at once."""
    for item in items:
        (folder / f"{item}").touch()
        until(lambda: len(list(folder.iterdir())) >= 2, "another task runs")
        yield item


def sleep(folders: Iterable[str]) -> Iterator[None]:
    for folder in folders:
        Path(folder, f"{os.getpid()}").touch()
        time.sleep(600)
        yield


def killed_at_first(folder: Path, items: Iterable[int]) -> Iterator[int]:
    """Yield one result, then lose the worker, the first time."""
    for item in items:
        yield item
        if not (folder / f"{item}").exists():
            (folder / f"{item}").touch()
            os.kill(os.getpid(), signal.SIGKILL)


def handed_on_and_killed(folder: Path, items: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Hand each number and its double on; lose the worker after some messages, the first time."""
    for item in items:
        yield item % 3, b"%d" % item
        yield from ((0, b"%d" % one) for one in killed_at_first(folder, [2 * item]))
        yield 2, b"x" * 1_000_000


def collected(number: int, messages: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    yield number, sorted(message for to, message in messages if to == number)


def failing(error: Exception, _: object) -> Iterator[None]:
    raise error
    yield


def test_each_item_has_a_task_with_a_number_of_its_own_and_results_are_in_order(tasks: Tasks) -> None:
    first, second = tasks.run(described, [3, 1, 2]), tasks.run(described, range(5))
    assert [one[0] for one in first + second] == [3, 1, 2, 0, 1, 2, 3, 4]
    assert os.getpid() not in {one[1] for one in first}
    assert {one[1] for one in second} <= {one[1] for one in tasks.run(described, range(40))}, "workers are used again"
    assert len({one[2] for one in first + second}) == 8
    assert {one[3] for one in first} == {"yes1"}
    assert attempt() is None


def test_as_many_tasks_run_at_once_as_there_are_workers(tasks: Tasks, tmp_path: Path) -> None:
    assert tasks.parallelism == 2
    assert tasks.run(partial(together, tmp_path), [1, 2]) == [1, 2]


def test_a_task_that_loses_its_worker_runs_again_and_counts_once(tasks: Tasks, tmp_path: Path) -> None:
    assert tasks.run(partial(killed_at_first, tmp_path), range(5)) == list(range(5))


def test_a_task_that_always_loses_its_worker_is_given_up_and_others_go_on(tasks: Tasks) -> None:
    with pytest.raises(WorkerLostError, match="ended while it ran a task"):
        tasks.run(lambda _: os.kill(os.getpid(), signal.SIGKILL), [1])
    assert [one[0] for one in tasks.run(described, [7])] == [7]


def test_the_process_that_forks_workers_is_replaced_too(tasks: Tasks) -> None:
    [(forking, worker)] = tasks.run(lambda _: iter([(os.getppid(), os.getpid())]), [1])
    for process in (forking, worker):
        os.kill(process, signal.SIGKILL)
    assert [one[0] for one in tasks.run(described, [7, 8])] == [7, 8]


@pytest.mark.parametrize(
    ("error", "expected"),
    [(SinkRefusedError("no", step="write", hint="ask"), SinkRefusedError), (ValueError("what"), InvariantError)],
)
def test_the_error_of_a_task_is_raised_and_its_worker_goes_on(
    tasks: Tasks, error: Exception, expected: type[CalveError]
) -> None:
    with pytest.raises(expected, match=str(error)):
        tasks.run(partial(failing, error), [1])
    assert [one[0] for one in tasks.run(described, [7])] == [7]


class FromElsewhere:
    """An item whose module the workers do not have."""

    def __reduce__(self) -> tuple[object, ...]:
        return __import__, ("no_such_module",)


def test_what_a_worker_cannot_read_is_an_error_of_the_task(tasks: Tasks) -> None:
    with pytest.raises(InvariantError, match="ModuleNotFoundError: No module named 'no_such_module'"):
        tasks.run(described, [FromElsewhere()])
    assert [one[0] for one in tasks.run(described, [7])] == [7]


def test_messages_reach_the_tasks_that_they_are_for_once_whoever_is_killed(tasks: Tasks, tmp_path: Path) -> None:
    found = dict(tasks.run_twice(partial(handed_on_and_killed, tmp_path), collected, [1, 2, 3, 4], 3))
    big = b"x" * 1_000_000
    assert found == {
        0: sorted([b"3", b"2", b"4", b"6", b"8"]),
        1: [b"1", b"4"],
        2: [b"2", big, big, big, big],
    }


def test_closing_ends_tasks_that_run_and_starts_none(tasks: Tasks, tmp_path: Path) -> None:
    found: list[BaseException] = []

    def run() -> None:
        try:
            tasks.run(sleep, [tmp_path])
        except CalveError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: list(tmp_path.iterdir()) != [], "the task runs")
    tasks.close()
    tasks.close()
    thread.join(60)
    assert [type(error) for error in found] == [EngineError]
    until(lambda: not any(map(is_alive, tmp_path.iterdir())), "it is gone")


def test_a_process_forked_from_the_driver_keeps_its_modules_alone_and_a_later_one_starts_by_itself() -> None:
    """The one that replaces it cannot be forked from a driver with threads."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run([sys.executable, "-c", FORKING_DRIVER], env=environment, capture_output=True, text=True)
    assert (ran.stderr, ran.returncode) == ("", 0)
    same = "1 True False (True, True, '/dev/null')"
    assert ran.stdout.splitlines() == [same, same]


@pytest.mark.crash
@pytest.mark.parametrize("from_here", [False, True])
def test_workers_end_with_a_driver_that_is_killed_also_amid_a_task(tmp_path: Path, from_here: bool) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", SLEEPING_DRIVER, tmp_path, str(from_here)]
    with subprocess.Popen(command, env=environment) as driver:
        until(lambda: len(list(tmp_path.iterdir())) == 2, "both tasks run")
        assert all(map(is_alive, tmp_path.iterdir()))
        driver.kill()
        driver.wait()
    until(lambda: not any(map(is_alive, tmp_path.iterdir())), "they are gone")


def is_alive(file: Path) -> bool:
    """Return whether the process that a file is named after runs."""
    try:
        return Path(f"/proc/{file.name}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_hand_messages_on_without_importing_pyspark(tasks: Tasks) -> None:
    found = dict(tasks.run_twice(without_spark.handed_on, without_spark.modules, [1, 2], 1))
    assert sorted(found) == [1, 2]
    assert not any("pyspark" in modules for modules in found.values())
