"""What `calve maintain` refuses, in one sentence and before Spark starts."""

from __future__ import annotations

import pytest

YAML = """
a:
  source: {file: {path: in/*}}
  sink: [iceberg: {table_identifier: db.t}]
"""
SECOND = """
b:
  source: {file: {path: on/*}}
  sink: [iceberg: {table_identifier: db.t, catalog: {type: hadoop, warehouse: /tmp/wh}}]
"""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["db.t", "--older-than", "24h"], "three days"),
        (["db.t", "--only", "orphans", "--older-than", "0s"], "--force"),
        (["db.t"], "./lakehouse"),
        (["db.t", "--only", "expire", "--older-than", "1h"], "./lakehouse"),
        (["db.t", "--older-than", "soon"], "durations are written"),
        (["db.t", "--only", "vacuum"], "convert"),
        (["db.t", "--catalog", "rest"], "KEY=VALUE"),
        ([], "TABLE"),
        (["db.t", "--pipelines", "two.yaml"], "have 2 catalogs"),
        (["db.t", "--pipelines", "one.yaml"], "./lakehouse"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_way_out(shell, arguments, told) -> None:
    shell.write("one.yaml", YAML)
    shell.write("two.yaml", YAML + SECOND)
    done = shell("maintain", *arguments)
    assert done.exit_code == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
