"""Translates storage properties of Iceberg's Java to PyIceberg's, for the executors."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["for_executors", "needs_s3"]

_RENAMED = {
    "client.region": "s3.region",
    "s3.cross-region-access-enabled": "s3.cross-region",
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
    "gcs.oauth2.token": "gcs.oauth2.token",
}
_NEVER_NEEDED = ("uri", "credential", "token", "jdbc.", "io-impl", "catalog-impl", "type", "clients", "oauth2-")
_S3_SCHEMES = ("s3://", "s3a://", "s3n://")


def for_executors(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate the properties of a Java FileIO; secrets of the catalog itself stay on the driver."""
    needed = {key: value for key, value in properties.items() if not key.startswith(_NEVER_NEEDED)}
    translated = {_RENAMED.get(key, key): value for key, value in needed.items()} | {
        key: value for key, value in needed.items() if key in _RENAMED.values()
    }
    if "s3.endpoint" in needed and needed.get("s3.path-style-access", "false").lower() != "true":
        translated.setdefault("s3.force-virtual-addressing", "true")
    return translated


def needs_s3(properties: Mapping[str, str]) -> bool:
    """Return whether a catalog of these properties needs the jar for S3."""
    return any(value.startswith(_S3_SCHEMES) or "S3FileIO" in value for value in properties.values()) or any(
        key.startswith("s3.") for key in properties
    )
