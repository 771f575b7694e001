"""The catalogs that a Spark session has by name. Runs on the driver."""

from __future__ import annotations

import re
from collections.abc import Mapping

from calve.credentials import remember
from calve.engine.engine import Engine
from calve.errors import SettingsError
from calve.settings.catalog import SPARK

__all__ = ["in_session", "split_name"]

_PREFIX = "spark.sql.catalog."
_CLASSES = ("org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg.spark.SparkSessionCatalog")
_NAME = re.compile("[^.]+")


def in_session(spark: Engine, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a catalog; of one with `type: spark` those that the session has under its name.

    Raises:
        SettingsError: The session has no such catalog of Iceberg, or it needs settings of Hadoop that others do not.
    """
    if properties.get("type", "").lower() != SPARK:
        return dict(properties)
    name = properties.get("name", "")
    settings = spark.settings_below(_PREFIX)
    if settings.get(name) not in _CLASSES:
        names = ", ".join(_names(settings)) or "none"
        hint = f"Set {_PREFIX}{name or 'NAME'}={_CLASSES[0]} and {_PREFIX}{name or 'NAME'}.type before; it has: {names}"
        raise SettingsError(f"The Spark session has no catalog {name} of Iceberg", step="catalog", hint=hint)
    own = {key.removeprefix(f"{name}."): text for key, text in settings.items() if key.startswith(f"{name}.")}
    remember(own)
    if hadoop := next((key for key in own if key.startswith("hadoop.")), None):
        hint = f"Set spark.{hadoop} for the whole session instead"
        raise SettingsError(
            f"Calve cannot use {_PREFIX}{name}.{hadoop}, a setting for this catalog alone", step="catalog", hint=hint
        )
    if "type" not in own and "catalog-impl" not in own:
        own["type"] = "hive"  # as Iceberg does
    return {**own, "name": name}


def split_name(spark: Engine, table: str) -> tuple[str, str]:
    """Return the catalog and the rest of a table's name as Spark reads it; no catalog: the name has none.

    If the session's current catalog has no tables of Iceberg, the first of three parts is meant as a catalog.

    Args:
        spark: With the session.
        table: `namespace.table` or `catalog.namespace.table`.
    """
    first, _, rest = table.partition(".")
    settings = spark.settings_below(_PREFIX)
    is_catalog = "." in rest and (first in settings or settings.get(spark.current_catalog) not in _CLASSES)
    return (first, rest) if is_catalog else ("", table)


def _names(settings: Mapping[str, str]) -> list[str]:
    """Return the names of Iceberg's catalogs."""
    return [name for name, kind in settings.items() if _NAME.fullmatch(name) and kind in _CLASSES]
