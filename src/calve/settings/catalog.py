"""What a map of Iceberg's catalog properties must have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = ["catalog_faults", "shown_uri"]

_NEEDS = {
    "rest": ("uri",),
    "jdbc": ("uri", "warehouse"),
    "hadoop": ("warehouse",),
    "hive": (),
    "glue": (),
    "nessie": ("uri",),
    "bigquery": (),
}
"""Iceberg's own types of catalogs (`CatalogUtil`), and the properties that each cannot do without."""


_URIS = {
    "rest": ("http://", "https://"),
    "jdbc": ("jdbc:",),
    "hive": ("thrift://",),
}
"""How `uri` begins, by the type of catalog."""


def catalog_faults(catalog: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Tell what is wrong with the option `catalog`, as `check` of a settings class does; None is Calve's own."""
    if catalog is None:
        return
    kind = catalog.get("type", "").lower()
    known = ", ".join(_NEEDS)
    if ("type" in catalog) == ("catalog-impl" in catalog):
        yield "catalog", f"needs either `type` ({known}) or `catalog-impl`; without `catalog` there is Calve's own"
    elif kind and kind not in _NEEDS:
        yield "catalog.type", f"must be one of {known}; give `catalog-impl` for a class of another"
    for key in _NEEDS.get(kind, ()):
        if not catalog.get(key):
            yield "catalog", f"a catalog of type {kind} needs `{key}`"
    begins = _URIS.get(kind, ())
    if catalog.get("uri") and begins and not catalog["uri"].startswith(begins):
        yield "catalog.uri", f"of a catalog of type {kind} must begin with {' or '.join(begins)}"


def shown_uri(uri: str) -> str:
    """Return a URI without what may be secret: a user's password and the parameters."""
    return re.sub(r"//[^/@]*@", "//", uri.partition("?")[0])
