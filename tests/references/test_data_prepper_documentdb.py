"""Data Prepper's documents of MongoDB, by the pipeline of the page about it: each collection is a table of its rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from kit.documents import yamls
from kit.running import Calve

pytestmark = pytest.mark.spark


def event(action: str, key: Any, kind: str, **fields: Any) -> dict[str, Any]:
    """What `add_entries` makes of the record converter's event: a delete has the `_id` alone."""
    return {"_id": key, **fields, "_action": action, "_collection": "shop.customers", "_id_type": kind}


EVENTS = (
    event("index", "65f0a1b2c3d4e5f601234567", "OBJECT_ID", name="Ada"),
    event("index", "1", "STRING", name="text"),
    event("index", 1, "INT32", name="number"),
    event("index", {"a": 1, "b": "x"}, "DOCUMENT", name="document"),
    event("index", 9007199254740993, "INT64", name="long", tags=["a"]),
    event("index", "65f0a1b2c3d4e5f601234567", "OBJECT_ID", name="Ada L.", age=36),
    event("index", "65f0a1b2c3d4e5f601234567", "OBJECT_ID", name="Ada L.", age=36),
    event("delete", 1, "INT32"),
    event("delete", "gone", "STRING"),
)


def test_the_table_has_the_documents_of_the_collection(calve: Callable[..., Calve]) -> None:
    [page] = [text for text in yamls("docs/from-data-prepper.md") if "_collection}" in text]
    pipelines = yaml.safe_load(page)
    pipelines["documents"]["source"] = {"file": {"path": "documents.ndjson"}}
    running = calve(yaml.safe_dump(pipelines))
    (running.folder / "documents.ndjson").write_text(
        "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in EVENTS)
    )
    assert running.once() == 0, running.said()[-4000:]
    rows = running.rows("shop.customers").select(["_id", "_id_type", "name", "age"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        ("1", "STRING", "text", None),
        ("65f0a1b2c3d4e5f601234567", "OBJECT_ID", "Ada L.", 36),
        ("9007199254740993", "INT64", "long", None),
        ('{"a":1,"b":"x"}', "DOCUMENT", "document", None),
    ]
    assert running.dead_letters("documents") == []
