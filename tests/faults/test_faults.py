"""A few seconds of `make faults`: what a server did before its answer was lost is not done twice, and nothing is lost."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from faults import streams
from faults.trial import Giver, Trial
from kit.running import until
from services.faulty import CUT, LOST, UNKNOWN, Fault
from services.objects import ObjectStore

pytestmark = [pytest.mark.crash, pytest.mark.services, pytest.mark.spark]

FAULTS = (LOST, UNKNOWN, CUT)
SECONDS = 1.5
PATIENCE_SECONDS = 240


def _again() -> None:
    raise AssertionError("a pipeline ended")


def test_events_arrive_once_whatever_happens_between_calve_and_its_store_and_catalog(
    object_store: ObjectStore, calve
) -> None:
    running = calve("")
    both = [streams.store(running, object_store), streams.catalog(running, object_store)]
    running.configure(json.dumps(both[0].yaml | both[1].yaml))
    for stream in both:
        stream.give()
    status = {one.name: lambda name=one.name: running.status(name) for one in both}
    trial = Trial({one.name: running for one in both}, status, _again, PATIENCE_SECONDS)
    with running.running():
        for stream in both:
            until(lambda st=status[stream.name]: st().get("tables"), f"{stream.name} commits")
        giver = Giver(both)
        try:
            for fault in FAULTS:
                _holds(trial, fault, both)
        finally:
            giver.end()
        trial.settle(both)
    for stream in both:
        assert stream.read() == Counter(range(stream.sent))
        assert not sum(status[stream.name]()["rejects"].values())
        stream.proxy.close()


def _holds(trial: Trial, fault: Fault, both: list[streams.Stream]) -> None:
    for one in trial.run(fault, both, SECONDS):
        assert one.is_good, one
