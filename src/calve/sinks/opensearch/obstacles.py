"""States of a cluster, or of an index, that concern every document: they are waited for, and no document is refused."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Obstacle", "field_hint", "obstacle", "with_field_hint"]


class Obstacle(NamedTuple):
    """A state in which OpenSearch refuses every document.

    Attributes:
        pattern: A part of the error's type or reason.
        hint: What helps.
        is_of_index: Whether it is an index's, so that documents of other indexes are accepted.
    """

    pattern: re.Pattern[str]
    hint: str
    is_of_index: bool = False


_ON = "; Calve continues by itself"
_OBSTACLES = (
    Obstacle(
        re.compile("cluster_block_exception|create_block_exception"),
        f"Remove the block from the settings of the cluster or the index, or free disk space{_ON}",
    ),
    Obstacle(
        re.compile(r"validation_exception: .* maximum( \w+)? shards open"),
        f"Delete indexes, add nodes, or raise cluster.max_shards_per_node{_ON}",
    ),
    Obstacle(re.compile("^index_closed_exception"), f"Open the index (POST /<index>/_open){_ON}", is_of_index=True),
    Obstacle(
        re.compile("^index_not_found_exception"),
        f"Create the index, or allow it in action.auto_create_index{_ON}",
        is_of_index=True,
    ),
    Obstacle(
        re.compile("no write index is defined for alias"),
        f"Give the alias a write index (is_write_index){_ON}",
        is_of_index=True,
    ),
)
_RESERVED = re.compile(r"Field \[([^\]]+)\] is (a metadata field|defined more than once)")


def obstacle(reason: str, is_one_index: bool = True) -> Obstacle | None:
    """Return the state that a reason is about, or None if it is about a document.

    Args:
        reason: The error's type and reason.
        is_one_index: Whether all documents go to one index. If each event names its index, a state of an index is
            about its documents, and does not stop those of others.
    """
    states = (state for state in _OBSTACLES if is_one_index or not state.is_of_index)
    return next((state for state in states if state.pattern.search(reason)), None)


def field_hint(reason: str) -> str:
    """Return what helps against a field whose name OpenSearch reserves; else an empty text."""
    match = _RESERVED.search(reason)
    if match is None:
        return ""
    name = match[1]
    return f"OpenSearch reserves the name {name}: rename it with rename_keys, or set exclude_keys: [{name}] on the sink"


def with_field_hint(reason: str) -> str:
    """Return the reason of a refused document, and what helps."""
    return ". ".join(filter(None, (reason, field_hint(reason))))
