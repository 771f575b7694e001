"""The option `maintenance` of the sink `iceberg`."""

from dataclasses import replace
from datetime import timedelta

import pytest

from calve.settings import SettingsErrors, parse_text
from calve.table.limits import DEFAULTS
from sinks.test_iceberg_settings import PLUGINS, SOURCE

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", DEFAULTS),
        (", maintenance: true", DEFAULTS),
        (", maintenance: false", None),
        (", maintenance: {max_snapshots: null, quiet_after: 1h}", replace(DEFAULTS, max_snapshots=0, quiet=HOUR)),
        (
            ", maintenance: {small_file_size: 1mb, orphans: false}",
            replace(DEFAULTS, small_bytes=1 << 20, orphans=False),
        ),
    ],
)
def test_maintenance_is_on_by_default_and_off_by_one_key(text, limits) -> None:
    [pipeline] = parse_text(SOURCE % f"table_identifier: a.b{text}", PLUGINS).pipelines
    assert pipeline.sinks[0].value.limits == limits


@pytest.mark.parametrize(
    "wrong", ["{small_files: 1}", "{share_of_cores: 0}", "{share_of_cores: 2}", "{every: 1h}", "often"]
)
def test_maintenance_that_makes_no_sense_is_refused(wrong) -> None:
    with pytest.raises(SettingsErrors, match="maintenance"):
        parse_text(SOURCE % f"table_identifier: a.b, maintenance: {wrong}", PLUGINS)
