"""Changes of MongoDB's documents in Debezium's envelope: the document is a text of Extended JSON.

https://debezium.io/documentation/reference/stable/connectors/mongodb.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calve.event.envelope.extended_json import plain
from calve.event.exact_json import MalformedError, parse_object

__all__ = ["DocumentError", "has_document", "row_of"]

_ID = "_id"
_MISFITS = (AttributeError, IndexError, KeyError, TypeError, ValueError)


class DocumentError(ValueError):
    """A change without a whole document; the message is the reason and the way out."""


def has_document(envelope: Mapping[str, Any], operation: str) -> bool:
    """Return whether an envelope of Debezium has a document of MongoDB, or should have one, instead of a row."""
    if isinstance(envelope.get("before" if operation == "delete" else "after"), dict):
        return False
    source = envelope.get("source")
    is_named = isinstance(source, dict) and source.get("connector") == "mongodb"
    is_text = str in (type(envelope.get("after")), type(envelope.get("before")))
    return is_named or is_text or "updateDescription" in envelope


def row_of(envelope: Mapping[str, Any], operation: str, key: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a change; of a delete at least its `_id`.

    Args:
        envelope: The envelope.
        operation: `insert`, `update` or `delete`.
        key: The record's key, whose `id` is Extended JSON, too; empty: it has none.

    Raises:
        DocumentError: There is no whole document, and no key for a delete.
    """
    after, before = _document(envelope, "after"), _document(envelope, "before")
    if operation == "delete":
        if before is not None or "id" in key:
            return _row(before) if before is not None else {_ID: _id(key["id"])}
        raise DocumentError("the delete has neither an old document nor a record key with an id")
    if after is not None:
        return _row(after)
    if before is None:
        raise DocumentError(
            f"the {operation} has no whole document: set the connector's capture.mode to change_streams_update_full. "
            "A document that was deleted at once has none either; its delete follows"
        )
    try:
        _update(before, envelope.get("updateDescription"))
    except _MISFITS:
        raise DocumentError("the update does not fit the document before the change") from None
    return {**_row(before), **({_ID: _id(key["id"])} if _ID not in before and "id" in key else {})}


def _row(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document, which is no value itself, whatever they are called."""
    return {name: plain(value) for name, value in document.items()}


def _document(envelope: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    value = envelope.get(name)
    if type(value) is not str:
        return value if isinstance(value, dict) else None
    try:
        return parse_object(value)
    except MalformedError as error:
        raise DocumentError(f"the text at /{name} is no document: {error}") from None


def _id(text: Any) -> Any:
    """Return the value of an id in a key: a text of Extended JSON."""
    try:
        return plain(parse_object(f'{{"{_ID}":{text}}}')[_ID]) if type(text) is str else plain(text)
    except MalformedError:
        return text


def _update(document: dict[str, Any], description: Any) -> None:
    """Apply an update to the document before it, in place."""
    given = description if isinstance(description, dict) else {}
    for path, value in (_document(given, "updatedFields") or {}).items():
        container, step = _place(document, path)
        if isinstance(container, list) and step == len(container):
            container.append(value)
        else:
            container[step] = value
    for path in given.get("removedFields") or ():
        container, step = _place(document, path)
        container.pop(step, None)
    for entry in given.get("truncatedArrays") or ():
        container, step = _place(document, entry["field"])
        container[step] = container[step][: int(entry.get("size", entry.get("newSize")))]


def _place(document: dict[str, Any], path: str) -> tuple[Any, Any]:
    """Return the container of a dotted path, and the last step in it."""
    *steps, last = path.split(".")
    container: Any = document
    for step in steps:
        container = container[int(step)] if isinstance(container, list) else container.setdefault(step, {})
        if isinstance(container, dict) and next(iter(container), "").startswith("$"):
            raise KeyError(step)  # a value, no document
    return container, int(last) if isinstance(container, list) else last
