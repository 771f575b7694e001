"""Prepares a cluster before documents are written: checks that it answers, and creates the template."""

from __future__ import annotations

import json
import re
from typing import Any

from calve.errors import CalveError, SinkRefusedError
from calve.sinks.opensearch.client import Client
from calve.sinks.opensearch.index_name import pattern
from calve.sinks.opensearch.settings import OpenSearchSettings

__all__ = ["check_cluster", "prepare", "template_of"]

_PATHS = {"v1": "_template", "index-template": "_index_template"}


def check_cluster(client: Client) -> None:
    """Check that the cluster answers.

    Raises:
        SinkUnavailableError: It does not answer.
        SinkRefusedError: It is not OpenSearch, or does not accept the user.
    """
    answer = client.request("GET", "/")
    if answer.is_temporary:
        raise client.unavailable("is not ready", answer)
    if answer.status >= 300 or b"cluster_name" not in answer.data:
        hint = "Correct `hosts`; a path after the port is part of the address"
        raise _refused(f"No OpenSearch answers at {client.name}: status {answer.status}", client, hint)


def prepare(client: Client, settings: OpenSearchSettings) -> None:
    """Check the cluster, and create the template of its indexes if one is configured; may be repeated (driver).

    Raises:
        SinkUnavailableError: It does not answer.
        SinkRefusedError: It is not OpenSearch, does not accept the user, or refuses the template.
    """
    check_cluster(client)
    body = None if settings.index_type == "management_disabled" else template_of(settings)
    if body is not None:
        name = "calve-" + re.sub(r"[^a-z0-9]+", "-", pattern(settings.index).lower()).strip("-")
        _put(client, f"/{_PATHS[settings.template_type]}/{name}", body)


def template_of(settings: OpenSearchSettings) -> dict[str, Any] | None:
    """Return the template for new indexes of a sink; None if nothing is configured."""
    template, counts = settings.template, settings.counts
    if template is None and not counts:
        return None
    whole: dict[str, Any] = {"index_patterns": [pattern(settings.index)], **(template or {})}
    inner = whole if settings.template_type == "v1" else dict(whole.get("template", {}))
    inner["settings"] = {**inner.get("settings", {}), **counts}
    return whole if inner is whole else {**whole, "template": inner}


def _put(client: Client, path: str, body: dict[str, Any]) -> None:
    answer = client.request("PUT", path, json.dumps(body).encode())
    if answer.is_temporary:
        raise client.unavailable("accepts no template", answer)
    if answer.status >= 300:
        reason = answer.data.decode(errors="replace")[:300]
        raise _refused(
            f"OpenSearch refuses the template: {reason}", client, "Correct the template's text or `template_type`"
        )


def _refused(message: str, client: Client, hint: str) -> CalveError:
    return SinkRefusedError(message, step="start", target=client.name, hint=hint)
