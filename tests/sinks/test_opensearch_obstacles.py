"""On a real node: what concerns every document is waited for, with the reason; no document is refused for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from calve.errors import SinkRefusedError, SinkUnavailableError
from calve.sinks.opensearch.bulk import Bulk
from calve.sinks.opensearch.client import Access, Client
from calve.sinks.opensearch.mapping import make_index
from calve.sinks.opensearch.obstacles import field_hint, obstacle
from calve.sinks.opensearch.settings import OpenSearchSettings
from calve.sinks.opensearch.template import prepare
from services.opensearch import OpenSearch

LINE = pa.array(['{"index":{"_id":"1"}}\n{"n":1}\n'], pa.large_string())
LONG = {"_meta": {"made_by": "calve", "sources": {}}, "properties": {"n": {"type": "long"}}}


class State(NamedTuple):
    """A state, entered by a request and left by another; `{i}` is the index."""

    enter: tuple[str, str, Any]
    leave: tuple[str, str, Any]
    reason: str
    hint: str
    needs_index: bool = True


def cluster(name: str, value: Any) -> tuple[str, str, Any]:
    return "PUT", "_cluster/settings", {"transient": {name: value}}


READ_ONLY = State(
    cluster("cluster.blocks.read_only", True),
    cluster("cluster.blocks.read_only", None),
    "cluster read-only",
    "Remove the block",
)
SHARDS = State(
    cluster("cluster.max_shards_per_node", 1),
    cluster("cluster.max_shards_per_node", None),
    "maximum shards open",
    "max_shards_per_node",
    needs_index=False,
)
NOT_CREATED = State(
    cluster("action.auto_create_index", "false"),
    cluster("action.auto_create_index", None),
    "no such index",
    "action.auto_create_index",
    needs_index=False,
)
CLOSED = State(("POST", "{i}/_close", None), ("POST", "{i}/_open", None), "index_closed_exception", "_open")
WRITE_BLOCK = State(
    ("PUT", "{i}/_settings", {"index.blocks.write": True}),
    ("PUT", "{i}/_settings", {"index.blocks.write": None}),
    "index write",
    "Remove the block",
)
STATES = [READ_ONLY, SHARDS, NOT_CREATED, CLOSED, WRITE_BLOCK]


@contextmanager
def in_state(node: OpenSearch, state: State) -> Iterator[str]:
    """Enter a state; afterwards the node is as before."""
    index = f"test-{uuid.uuid4().hex[:12]}"
    node.call("PUT", f"shards-{index}")  # a cluster without shards has no limit
    if state.needs_index:
        node.call("PUT", index)

    def call(request: tuple[str, str, Any]) -> None:
        method, path, body = request
        node.call(method, path.format(i=index), body)

    call(state.enter)
    try:
        yield index
    finally:
        call(state.leave)


def bulk_of(node: OpenSearch, pause: Callable[[float], None], is_one_index: bool = True) -> Bulk:
    return Bulk(Client(Access((node.address,))), 1 << 20, pause=pause, is_one_index=is_one_index)


@pytest.mark.services
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.reason)
def test_no_document_is_refused_in_a_state_that_concerns_all_and_all_are_written_after_it(
    opensearch: OpenSearch, state: State
) -> None:
    waits: list[float] = []
    with in_state(opensearch, state) as index:
        with pytest.raises(SinkUnavailableError, match=state.reason) as raised:
            bulk_of(opensearch, waits.append).send(index, LINE)
        assert state.hint in raised.value.hint
        assert sum(waits) >= 10
    assert bulk_of(opensearch, waits.append).send(index, LINE).refused == []
    assert opensearch.documents(index) == {"1": {"n": 1}}


@pytest.mark.services
@pytest.mark.parametrize("state", [NOT_CREATED, CLOSED], ids=lambda state: state.reason)
def test_where_each_event_names_its_index_a_state_of_one_index_stops_no_other_one(
    opensearch: OpenSearch, state: State
) -> None:
    with in_state(opensearch, state) as index:
        [refused] = bulk_of(opensearch, pytest.fail, is_one_index=False).send(index, LINE).refused
    assert state.reason in refused.reason


@pytest.mark.services
@pytest.mark.parametrize("state", [READ_ONLY, SHARDS], ids=lambda state: state.reason)
def test_an_index_or_a_template_that_cannot_be_created_now_is_no_refusal(opensearch: OpenSearch, state: State) -> None:
    client = Client(Access((opensearch.address,)))
    with in_state(opensearch, state) as index:
        with pytest.raises(SinkUnavailableError, match=state.reason) as raised:
            make_index(client, f"new-{index}", LONG, {})
        assert state.hint in raised.value.hint
        if state is READ_ONLY:
            settings = OpenSearchSettings(hosts=[opensearch.address], index=index, number_of_shards=1)
            with pytest.raises(SinkUnavailableError, match=state.reason):
                prepare(client, settings)
    assert make_index(client, f"new-{index}", LONG, {}) == []


@pytest.mark.services
def test_new_fields_wait_while_an_index_accepts_none(opensearch: OpenSearch) -> None:
    client = Client(Access((opensearch.address,)))
    sources = {"sources": {"t": {"uuid": "u", "names": {}}}}
    mapping = {"_meta": {"made_by": "calve", **sources}, "properties": {"n": {"type": "long"}}}
    index = f"test-{uuid.uuid4().hex[:12]}"
    opensearch.call("PUT", index, {"mappings": mapping})
    opensearch.call("PUT", f"{index}/_settings", {"index.blocks.metadata": True})
    with pytest.raises(SinkUnavailableError, match="index metadata"):
        make_index(client, index, mapping, {})
    opensearch.call("PUT", f"{index}/_settings", {"index.blocks.metadata": None})
    assert make_index(client, index, mapping, {}) == []


@pytest.mark.services
def test_a_column_with_a_reserved_name_says_what_helps(opensearch: OpenSearch) -> None:
    client = Client(Access((opensearch.address,)))
    index = f"test-{uuid.uuid4().hex[:12]}"
    with pytest.raises(SinkRefusedError, match=r"Field \[_id\] is defined more than once") as raised:
        make_index(client, index, {**LONG, "properties": {"_id": {"type": "long"}}}, {})
    assert "exclude_keys: [_id]" in raised.value.hint
    text = '{"index":{"_id":"1"}}\n{"_routing":1}\n'
    [refused] = bulk_of(opensearch, pytest.fail).send(index, pa.array([text], pa.large_string())).refused
    assert "rename it with rename_keys, or set exclude_keys: [_routing]" in refused.reason


def test_a_fault_of_one_document_is_no_state_of_the_cluster() -> None:
    for reason in (
        "mapper_parsing_exception: failed to parse field [x] of type [double]: maximum shards open",
        "illegal_argument_exception: Limit of total fields [1] has been exceeded",
        "invalid_index_name_exception: Invalid index name [A], must be lowercase",
    ):
        assert obstacle(reason) is None
        assert field_hint(reason) == ""
