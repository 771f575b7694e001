"""Checks of Iceberg's catalog properties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from calve.settings.clear_text import exposed

__all__ = [
    "EMBEDDED",
    "SPARK",
    "Doubts",
    "catalog_doubts",
    "catalog_faults",
    "catalog_folder",
    "shown_catalog",
    "shown_uri",
]

SPARK = "spark"
"""The type of a catalog whose properties the Spark session has, under the catalog's name."""
EMBEDDED = "lakehouse"
"""The folder of the catalog of a sink that names none."""
_SQLITE = "jdbc:sqlite:"
_SECRETS = ("credential", "token", "rest.auth.basic.password")

_NEEDS = {
    "rest": ("uri",),
    "jdbc": ("uri", "warehouse"),
    "hadoop": ("warehouse",),
    "hive": (),
    "glue": (),
    "nessie": ("uri",),
    "bigquery": (),
    SPARK: ("name",),
}
"""Iceberg's own types of catalogs (`CatalogUtil`) and `spark`, and the properties that each requires."""


_URIS = {
    "rest": ("http://", "https://"),
    "jdbc": ("jdbc:",),
    "hive": ("thrift://",),
}
"""Valid beginnings of `uri`, by the type of catalog."""


class Doubts(NamedTuple):
    """The warnings of an option's `check`."""

    doubts: tuple[str, ...] = ()


def catalog_doubts(catalog: Mapping[str, str] | None) -> Doubts:
    """Return the warnings about a catalog's properties."""
    properties = catalog or {}
    if not any(properties.get(name) for name in _SECRETS):
        return Doubts()
    addresses = [properties.get(name, "") for name in ("uri", "oauth2-server-uri")]
    return Doubts(tuple(dict.fromkeys(filter(None, map(exposed, addresses)))))


def catalog_faults(catalog: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Yield errors of the option `catalog`, like `check` of a settings class; None is the embedded catalog."""
    if catalog is None:
        return
    kind = catalog.get("type", "").lower()
    types = ", ".join(_NEEDS)
    if ("type" in catalog) == ("catalog-impl" in catalog):
        yield (
            "catalog",
            f"needs either `type` ({types}) or `catalog-impl`; without `catalog` Calve uses its embedded catalog",
        )
    elif kind and kind not in _NEEDS:
        yield "catalog.type", f"must be one of {types}; for any other catalog set `catalog-impl`"
    for key in _NEEDS.get(kind, ()):
        if not catalog.get(key):
            yield "catalog", f"a catalog of type {kind} needs `{key}`"
    begins = _URIS.get(kind, ())
    if catalog.get("uri") and begins and not catalog["uri"].startswith(begins):
        yield "catalog.uri", f"of a catalog of type {kind} must begin with {' or '.join(begins)}"


def shown_uri(uri: str) -> str:
    """Return a URI without possible secrets: the user's password and the parameters."""
    return re.sub(r"//[^/@]*@", "//", uri.partition("?")[0])


def shown_catalog(catalog: Mapping[str, str] | None) -> str:
    """Return where tables of a catalog are, as a user reads it, without secrets."""
    if catalog is None:
        return str(Path(EMBEDDED).absolute())
    kind = catalog.get("type") or catalog.get("catalog-impl", "")
    where = shown_uri(catalog.get("uri") or catalog.get("warehouse", ""))
    return f"the catalog {catalog.get('name', 'iceberg')} ({' '.join(filter(None, (kind, where)))})"


def catalog_folder(catalog: Mapping[str, str] | None) -> str:
    """Return the folder of a catalog that is a local file; an empty text for any other."""
    if catalog is None:
        return EMBEDDED
    uri = catalog.get("uri", "")
    if not uri.startswith(_SQLITE):
        return ""
    return str(Path(uri.removeprefix(_SQLITE).removeprefix("file:").partition("?")[0]).parent)
