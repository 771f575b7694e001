"""On a cluster of Spark, whose executors are processes of their own, a run writes what a local run writes."""

from __future__ import annotations

import json

import pytest

from kit.running import Calve

EVENTS = 500


def written(calve: Calve, *master: str) -> dict[str, list[dict[str, object]]]:
    for number in range(3):
        lines = (json.dumps({"id": id, "kind": f"k{id % 2}", "file": number}) for id in range(EVENTS))
        (calve.folder / f"{number}.ndjson").write_text("\n".join([*lines, "no event"]))
    code = calve.start("--once", *master).wait(240) if master else calve.once()
    assert code == 0, calve.said()
    rows = {name: calve.rows(name).to_pylist() for name in ("db.k0", "db.k1", "db.last")}
    return {name: sorted(found, key=lambda row: (row["id"], row["file"])) for name, found in rows.items()}


@pytest.mark.spark
@pytest.mark.crash
def test_a_cluster_writes_the_rows_and_rejects_of_a_local_run(calve) -> None:
    source = {"file": {"path": "*.ndjson"}}
    append = {"table_identifier": "db.${/kind}", "auto_create": True}
    keyed = {"table_identifier": "db.last", "auto_create": True, "upsert": True, "identifier_columns": ["id"]}
    yaml = json.dumps({"p": {"source": source, "sink": [{"iceberg": append}, {"iceberg": keyed}]}})
    local, cluster = calve(yaml, "local"), calve(yaml, "cluster")
    rows = written(local)
    assert [len(found) for found in rows.values()] == [3 * EVENTS // 2, 3 * EVENTS // 2, EVENTS]
    assert written(cluster, "--master", "local-cluster[1,1,1024]", "--conf", "spark.executor.memory=512m") == rows
    rejects = [sorted(one["event"] for one in each.dead_letters("p")) for each in (local, cluster)]
    assert rejects[0] == rejects[1] == ["no event"] * 3
