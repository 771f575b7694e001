"""With the state on an object store a standby takes over from a driver that was killed, paused or cut off."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.state.store_folder import StoreFolder
from matrix.takeovers import Takeovers
from services.objects import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.crash]

KILLS = int(os.environ.get("CALVE_KILLS", "3"))


@pytest.fixture
def takeovers(tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Takeovers]:
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    made = Takeovers(tmp_path / "calve", object_store.place("standby"), object_store.environment())
    yield made
    made.end()


def test_nothing_is_lost_or_duplicated_when_drivers_are_killed_paused_and_cut_off(
    takeovers: Takeovers, object_store: ObjectStore
) -> None:
    for _ in range(KILLS):
        print(takeovers.play())
    events, lost, duplicated = takeovers.finish()
    assert (events > 0, lost, duplicated) == (True, 0, 0)
    status = StoreFolder.at(object_store.place("standby/orders")).get("status.json")
    assert status
    assert json.loads(status.content)["state"] == "stopped"
