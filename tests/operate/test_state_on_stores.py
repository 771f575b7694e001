"""All commands that read a state work with one on an object store, and it moves between stores and a local folder."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable

import pyarrow as pa
import pytest

from calve.state.store_folder import StoreFolder
from kit.documents import runnable, without_numbers
from kit.running import LITTLE, PATIENCE_SECONDS, Calve
from services.azurite import Azurite
from services.gcs import FakeGcs
from services.objects import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.services]

COLUMNS = {"columns": [{"name": "id", "type": "long"}, {"name": "name", "type": "string", "required": True}]}

POINTS = ("ledger.after-begin",)
"""Where a run dies whose state is on S3; what the next one needs of a store is what every run does."""


@pytest.fixture
def job(calve: Callable[..., Calve], object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Calve:
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    sink = {"iceberg": {"table_identifier": "shop.t", "auto_create": True, "schema": COLUMNS}}
    made = calve(json.dumps({"orders": {"source": {"file": {"path": "in/*.ndjson"}}, "sink": [sink]}}))
    (made.folder / "in").mkdir()
    return made


def arrive(job: Calve, file: int) -> None:
    lines = [json.dumps({"id": file * 10 + n} | ({"name": "x"} if n < 9 else {})) for n in range(10)]
    (job.folder / "in" / f"{file}.ndjson").write_text("\n".join(lines) + "\n")


def say(job: Calve, *arguments: str) -> str:
    done = job.call(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def run(job: Calve, state: str) -> None:
    """Run once; workers read the keys of other clouds from the environment, so those are of a process of their own."""
    if state.startswith(("az://", "gs://")):
        assert job.start("--once", "--state", state).wait(PATIENCE_SECONDS) == 0, job.said()[-3000:]
    else:
        say(job, "run", "pipelines.yaml", "--once", "--metrics-port", "0", "--state", state)


def test_status_and_dead_letters_are_read_and_sent_again_with_a_state_on_s3(
    job: Calve, object_store: ObjectStore
) -> None:
    state = object_store.place("state-1")
    arrive(job, 1)
    run(job, state)
    arrive(job, 2)
    say(job, "pause", "orders", "--state", state)
    run(job, state)
    assert len(job.rows("shop.t")) == 9
    say(job, "resume", "orders", "--state", state)
    run(job, state)  # reads only the new file
    assert len(job.rows("shop.t")) == 18
    [orders] = json.loads(say(job, "status", "--state", state, "--json"))["pipelines"]
    assert (orders["state"], orders["events"], orders["rejects"]) == ("stopped", 20, {"REQUIRED_MISSING": 2})
    [letters] = json.loads(say(job, "dlq", "list", "--state", state, "--json"))["pipelines"]
    assert (letters["entries"], letters["replayed"]) == (2, 0)
    shown = say(job, "dlq", "show", "--state", state, "--raw")
    assert sorted(json.loads(line)["id"] for line in shown.splitlines()) == [19, 29]
    assert "no staged files of shop.t" in say(job, "state", "forget", "shop.t", "--state", state)
    with job.catalog().load_table("shop.t").update_schema() as update:
        update.make_column_optional("name")
    replay = ("dlq", "replay", "pipelines.yaml", "--state", state)
    command = job.command(*replay, "--master", "local[2]", *LITTLE)  # its workers need the keys of the object store
    sent = subprocess.run(command, cwd=job.folder, capture_output=True, text=True, timeout=240)
    assert "2 events sent, 2 now in tables" in sent.stdout, sent.stdout + sent.stderr
    assert "nothing to replay" in say(job, *replay)
    assert len(job.rows("shop.t")) == 20


def test_a_state_that_is_copied_to_s3_and_back_continues_and_the_old_one_is_refused(
    job: Calve, object_store: ObjectStore
) -> None:
    state = object_store.place("state-2")
    arrive(job, 1)
    run(job, "calve-state")
    copied = say(job, "state", "copy", "calve-state", state)
    assert "copied the ledger up to batch 1, and 1 file" in copied
    _, shown = runnable("docs/state.md")
    told = without_numbers(copied).replace("N file\n", "N files\n").replace(without_numbers(state), "PLACE")
    assert told.splitlines() == without_numbers(shown).replace("sN://my-bucket/calve", "PLACE").splitlines()[1:]
    arrive(job, 2)
    refused = job.call("run", "pipelines.yaml", "--once", "--metrics-port", "0")
    assert (refused.exit_code, f"was copied to {state}" in refused.output) == (1, True)
    run(job, state)
    say(job, "state", "copy", state, "back")
    arrive(job, 3)
    run(job, "back")
    assert sorted(job.rows("shop.t")["id"].to_pylist()) == [file * 10 + n for file in (1, 2, 3) for n in range(9)]
    [letters] = json.loads(say(job, "dlq", "list", "--state", "back", "--json"))["pipelines"]
    assert letters["entries"] == 3
    again = job.call("state", "copy", "back", state)
    assert (again.exit_code, "There is a state at" in again.output) == (2, True)


def test_a_state_moves_over_the_stores_of_three_clouds_and_continues(
    job: Calve, object_store: ObjectStore, azurite: Azurite, gcs: FakeGcs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (azurite.environment() | gcs.environment()).items():
        monkeypatch.setenv(name, value)
    places = [store.place("state-4") for store in (azurite, gcs, object_store)] + ["back"]
    for number, state in enumerate(places, 1):
        assert "can be written" in job.call("doctor", "--state", state).stdout
        arrive(job, number)
        run(job, state)
        [orders] = json.loads(say(job, "status", "--state", state, "--json"))["pipelines"]
        assert (orders["events"], orders["rejects"]) == (10 * number, {"REQUIRED_MISSING": number})
        shown = say(job, "dlq", "show", "--state", state, "--raw")
        assert sorted(json.loads(line)["id"] for line in shown.splitlines()) == [19, 29, 39, 49][:number]
        if number < len(places):
            copied = say(job, "state", "copy", state, places[number])
            assert f"copied the ledger up to batch {number}, and {number} file" in copied
    assert sorted(job.rows("shop.t")["id"].to_pylist()) == [file * 10 + n for file in (1, 2, 3, 4) for n in range(9)]


MIRROR = """
rows:
  source:
    iceberg: {tables: [{table_name: shop.t, identifier_columns: [id]}]}
  sink:
    - iceberg:
        table_identifier: shop.mirror
        auto_create: true
        operation: '${getMetadata("iceberg_operation")}'
        identifier_columns: [id]
        write_mode: copy-on-write
"""


def test_changes_of_a_table_are_spooled_on_a_store_and_a_killed_run_is_continued(
    job: Calve, object_store: ObjectStore
) -> None:
    state = object_store.place("state-3")
    arrive(job, 1)
    run(job, "calve-state")
    job.configure(MIRROR)
    run(job, state)
    assert sorted(job.rows("shop.mirror")["id"].to_pylist()) == list(range(10, 19))
    table = job.catalog().load_table("shop.t")
    table.append(pa.table({"id": [30], "name": ["x"]}, schema=table.schema().as_arrow()))
    table.delete("id = 10")
    for point in POINTS:
        killed = job.start("--once", "--state", state, environment={"CALVE_STOP_AT": point})
        assert killed.wait(240) == -signal.SIGKILL, job.said()[-3000:]
    run(job, state)
    assert sorted(job.rows("shop.mirror")["id"].to_pylist()) == [*range(11, 19), 30]
    left = StoreFolder.at(f"{state}/rows/iceberg").names()
    assert [name for name in left if "/" in name] == []
