"""`<state>/<pipeline>/pipeline.json`: what a pipeline consists of, written when a run begins, for the dashboard.

It has no secrets: the YAML is masked, and of a catalog only the file of one on this machine is named.
"""

from __future__ import annotations

import msgspec

from calve import structs
from calve.observe.state_folder import Folder

__all__ = ["BLUEPRINT_FILE", "Blueprint", "SinkPart", "read_blueprint"]

BLUEPRINT_FILE = "pipeline.json"
_MOST_BYTES = 1 << 20


class SinkPart(msgspec.Struct, frozen=True):
    """A sink.

    Attributes:
        kind: The name of the plugin.
        target: Its table or index, with `${…}` where events decide.
        routes: What an event must match on its way, pipeline by pipeline: names of routes of which one must match.
        catalog: The properties of a catalog that is a file of this machine; empty: of any other.
    """

    kind: str
    target: str = ""
    routes: tuple[tuple[str, ...], ...] = ()
    catalog: dict[str, str] = {}


class Blueprint(msgspec.Struct, frozen=True):
    """A pipeline.

    Attributes:
        source: The name of the plugin.
        processors: Those of the plugins, in order.
        sinks: The sinks.
        yaml: Its YAML without secrets and comments.
    """

    source: str = ""
    processors: tuple[str, ...] = ()
    sinks: tuple[SinkPart, ...] = ()
    yaml: str = ""


def read_blueprint(state: str, pipeline: str) -> Blueprint | None:
    """Return the blueprint of a pipeline; None if no run of this version has written one, or it cannot be read."""
    try:
        return structs.decode((Folder.at(state) / pipeline).read(BLUEPRINT_FILE)[:_MOST_BYTES], Blueprint)
    except (OSError, ValueError):
        return None
