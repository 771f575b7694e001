import json

import pytest
from click.testing import CliRunner

from calve.cli.demo import EVENTS
from calve.cli.demo_events import requests
from calve.cli.main import calve


def test_the_demo_sends_the_same_events_every_time_but_for_their_times():
    first, second = ([json.loads(body) for body in requests(400)] for _ in range(2))
    assert [[event["id"] for event in body] for body in first] == [[event["id"] for event in body] for body in second]
    assert {event.get("kind") for body in first for event in body} >= {"orders", "logins", "page_views", None}


@pytest.mark.spark
def test_the_demo_shows_tables_snapshots_and_rejects_and_ends_by_itself(tmp_path):
    done = CliRunner().invoke(calve, ["demo", "--folder", str(tmp_path / "demo")])
    assert done.exit_code == 0, done.output
    assert f"= {EVENTS:,} events sent" in done.output
    for word in ("shop.orders", "shop.page_views", "referrer", "snapshot", "BAD_TABLE_NAME", "Freshness", "Next steps"):
        assert word in done.output
