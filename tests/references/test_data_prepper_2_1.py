"""Section 2.1 of the notes on Data Prepper: its pipeline, with an address, sends the events of a route to the sink."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.running import Calve, post, until
from services.opensearch import OpenSearch
from services.process import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.services]

YAML = """
version: "2"
my-pipeline:
  workers: 1
  delay: 3000
  source: {{ http: {{ port: {port} }} }}
  buffer: {{ bounded_blocking: {{ buffer_size: 12800, batch_size: 200 }} }}
  processor: [ {{ delete_entries: {{ with_keys: [ secret ] }} }} ]
  route:
    - errors: '/status >= 500'
  sink:
    - opensearch: {{ hosts: [ "{address}" ], index: errors-of-a-route, routes: [ errors ], flush_timeout: -1 }}
"""
EVENTS = [{"status": 200, "secret": 1}, {"status": 503, "secret": 2}, {"status": 500}]


def test_the_example_sends_the_events_of_its_route(calve: Callable[..., Calve], opensearch: OpenSearch) -> None:
    [port] = free_ports(1)
    running = calve(YAML.format(port=port, address=opensearch.address))
    with running.running():
        until(lambda: post(port, EVENTS) == 200, "the source listens")
    documents = opensearch.documents("errors-of-a-route").values()
    assert sorted(documents, key=str) == [{"status": 500}, {"status": 503}]
    assert "document_id" not in running.said()
