"""The events of the demo: an invented shop's, of several kinds, with the faults that real streams have."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["requests"]

_PAGES = ("/", "/cart", "/product/17", "/product/23", "/search", "/checkout")
_COUNTRIES = ("DE", "FR", "US", "JP", "BR")


def requests(count: int, size: int = 100) -> list[bytes]:
    """Return `count` events as HTTP bodies, JSON arrays of `size` events each; the same ones every time."""
    chance = random.Random(2021)
    start = datetime.now(UTC) - timedelta(minutes=10)
    events = [_event(chance, number, start + timedelta(milliseconds=50 * number)) for number in range(count)]
    return [_body(events[at : at + size]) for at in range(0, count, size)]


def _event(chance: random.Random, number: int, at: datetime) -> dict[str, Any]:
    about = {"id": number, "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
    user = {"id": chance.randrange(500), "country": chance.choice(_COUNTRIES)}
    if number % 400 == 399:  # a typical mistake: the table is missing
        return {**about, "user": user}
    if number % 500 == 250:
        return {**about, "kind": "../orders", "user": user}
    kind = chance.choices(("page_views", "orders", "logins"), (70, 20, 10))[0]
    if kind == "page_views":
        view = {**about, "kind": kind, "user": user, "page": chance.choice(_PAGES), "ms": chance.randrange(5, 900)}
        return {**view, "referrer": "newsletter"} if number >= 2000 else view  # a new field in mid-stream
    if kind == "orders":
        items = [
            {"sku": f"A-{chance.randrange(90):03d}", "quantity": chance.randrange(1, 4)}
            for _ in range(chance.randrange(1, 4))
        ]
        return {**about, "kind": kind, "user": user, "total": round(chance.uniform(5, 250), 2), "items": items}
    return {**about, "kind": kind, "user": user, "ok": chance.random() < 0.95}


def _body(events: list[dict[str, Any]]) -> bytes:
    return json.dumps(events).encode()
