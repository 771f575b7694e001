"""A lost state is rebuilt from the tables without loss or duplicates, or the rebuild is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from calve.commit.evidence import Evidence
from calve.errors import PositionLostError
from calve.operate.rebuild import Decision, decide
from kit.documents import runnable, without_numbers
from kit.running import Calve
from services.kafka import Kafka

TABLES = ["shop.t0", "shop.t1", "shop.t2"]


def told(table: str, batch: int, complete: int, positions: Iterable[int], state: str = "s") -> Evidence:
    return Evidence(
        table, "main", "calve.mark.p", state, batch, complete, {number: {"read": number * 10} for number in positions}
    )


def test_the_only_table_tells_exactly_where_to_go_on() -> None:
    assert decide([told("a", 7, 6, [6, 7])], is_only_table=True) == Decision("s", 7, {"read": 70})


def test_what_only_some_tables_have_is_read_again_up_to_where_each_of_them_ends() -> None:
    found = [told("a", 9, 6, [5, 6, 9]), told("b", 8, 5, [3, 8]), told("c", 4, 3, [4])]
    assert decide(found, is_only_table=False) == Decision("s", 6, {"read": 60}, ((8, {"read": 80}), (9, {"read": 90})))


def test_without_a_position_behind_the_last_complete_batch_an_earlier_one_will_do() -> None:
    found = [told("a", 9, 6, [9]), told("b", 5, 3, [5])]
    assert decide(found, is_only_table=False) == Decision("s", 5, {"read": 50}, ((9, {"read": 90}),))


def test_before_anything_is_complete_all_is_read_again() -> None:
    assert decide([told("a", 1, 0, [1])], is_only_table=False) == Decision("s", 0, None, ((1, {"read": 10}),))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], "No table has rows"),
        ([told("a", 1, 0, [1]), told("b", 1, 0, [1], "other")], "2 different states.*ALTER TABLE b UNSET"),
        ([told("a", 9, 6, [6])], "has expired"),
        ([told("a", 1, 1, [1]), Evidence("b", "main", "m", "s", 1, 1, {1: {"read": 11}})], "disagree"),
    ],
)
def test_tables_that_do_not_tell_enough_are_refused(found: list[Evidence], said: str) -> None:
    with pytest.raises(PositionLostError) as refused:
        decide(found, is_only_table=False)
    assert re.search(said, str(refused.value))


KAFKA = """
orders:
  source: {{kafka: {{bootstrap_servers: "{address}", topics: [{{name: {topic}}}]}}}}
  sink:
    - iceberg: {{table_identifier: "shop.t${{/t}}", auto_create: true, max_batch_bytes: 4kb{more}}}
"""


def events(numbers: range, tables: int = len(TABLES)) -> list[bytes]:
    return [json.dumps({"id": number, "t": number % tables}).encode() for number in numbers]


def ids(job: Calve, tables: Iterable[str] = TABLES) -> Counter[int]:
    return Counter(one for table in tables for one in job.rows(table)["id"].to_pylist())


def rebuild(job: Calve, *more: str) -> Any:
    return job.call("state", "rebuild", "pipelines.yaml", *more)


@pytest.mark.spark
@pytest.mark.services
def test_after_a_kill_and_a_lost_state_each_table_has_each_event_once(
    kafka_broker: Kafka, calve: Callable[..., Calve]
) -> None:
    topic = "lost"
    kafka_broker.create_topic(topic, partitions=2)
    kafka_broker.produce(topic, events(range(300)), partitions=range(2))
    job = calve(KAFKA.format(address=kafka_broker.address, topic=topic, more=""))
    assert job.once() == 0, job.said()
    kafka_broker.produce(topic, events(range(300, 600), tables=2), partitions=range(2))
    job.killed_at("commit.after-table:1")
    shutil.rmtree(job.folder / "calve-state")
    kafka_broker.produce(topic, events(range(600, 700)), partitions=range(2))
    refusal, shown, _ = runnable("docs/lost-state.md")
    assert job.once() != 0
    assert without_numbers(refusal.strip().rstrip(".")) in without_numbers(job.said()).replace("shop.tN", "shop.orders")
    shutil.rmtree(job.folder / "calve-state")
    made = rebuild(job)
    assert made.exit_code == 0, made.output
    assert "shop.t2: has batch" in made.output
    _, *lines, _ = (re.sub(r"\{.*?\}\}", "P", line) for line in without_numbers(shown).splitlines())
    told = {re.sub(r"\{.*?\}\}", "P", line) for line in without_numbers(made.output).splitlines()}
    assert {line.replace("shop.items", "shop.tN").replace("shop.orders", "shop.tN") for line in lines} == told
    assert job.once() == 0, job.said()
    assert ids(job) == Counter(range(700))


@pytest.mark.spark
@pytest.mark.services
def test_a_new_state_begins_at_chosen_offsets_or_at_a_time(kafka_broker: Kafka, calve: Callable[..., Calve]) -> None:
    kafka_broker.create_topic("chosen", partitions=2)
    kafka_broker.produce("chosen", events(range(100), tables=1), partitions=range(2))
    job = calve(KAFKA.format(address=kafka_broker.address, topic="chosen", more=""))
    refused = rebuild(job, "--start-offsets", '{"chosen": {"0": 40}}')
    assert refused.exit_code == 2
    assert '"0", "1"' in refused.output
    assert rebuild(job, "--start-offsets", '{"chosen": {"0": 40, "1": 50}}').exit_code == 0
    assert job.once() == 0, job.said()
    assert job.rows("shop.t0").num_rows == 10
    shutil.rmtree(job.folder / "calve-state")
    assert rebuild(job, "--start-timestamp", "2100-01-01").exit_code == 0
    kafka_broker.produce("chosen", events(range(100, 120), tables=1), partitions=range(2))
    assert job.once() == 0, job.said()
    assert job.rows("shop.t0").num_rows == 30


@pytest.mark.spark
@pytest.mark.services
def test_a_new_state_begins_where_the_consumer_group_is(kafka_broker: Kafka, calve: Callable[..., Calve]) -> None:
    kafka_broker.create_topic("grouped", partitions=2)
    kafka_broker.produce("grouped", events(range(100), tables=1), partitions=range(2))
    plain = KAFKA.format(address=kafka_broker.address, topic="grouped", more="")
    job = calve(plain)
    assert "group_id" in rebuild(job, "--from", "group").output
    job.configure(plain.replace("{name: grouped}", "{name: grouped, group_id: shop-lake}"))
    refused = rebuild(job, "--from", "group")
    assert (refused.exit_code, "no offset of topic grouped, partition 0, 1" in refused.output) == (2, True)
    assert job.once() == 0, job.said()
    shutil.rmtree(job.folder / "calve-state")
    kafka_broker.produce("grouped", events(range(100, 120), tables=1), partitions=range(2))
    assert rebuild(job, "--from", "group").exit_code == 0
    assert job.once() == 0, job.said()
    assert ids(job, ["shop.t0"]) == Counter(range(120))


FILE = """
orders:
  source: {file: {path: in/*.ndjson}}
  sink: [iceberg: {table_identifier: shop.t0, auto_create: true}]
"""


@pytest.mark.spark
def test_files_that_were_read_are_chosen_by_the_user(tmp_path: Path, spark: SparkSession) -> None:
    job = Calve(tmp_path, FILE, spark)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.ndjson").write_bytes(b"\n".join(events(range(10))))
    assert job.once() == 0, job.said()
    again = rebuild(job)
    assert again.exit_code == 2
    assert "is not lost" in again.output
    shutil.rmtree(tmp_path / "calve-state")
    refused = rebuild(job)
    assert refused.exit_code == 1
    assert "--from latest" in refused.output
    assert rebuild(job, "--from", "latest").exit_code == 0
    (tmp_path / "in" / "2.ndjson").write_bytes(b"\n".join(events(range(10, 20))))
    assert job.once() == 0, job.said()
    assert ids(job, ["shop.t0"]) == Counter(range(20))
