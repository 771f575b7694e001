"""Processors that add what is known about a value: from a table, about a user agent, about an IP address."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calve.errors import SettingsError
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, opened
from calve.processors.step import ChangeStep, ProcessorError, ProcessorStep
from calve.settings.option import option

if TYPE_CHECKING:
    from calve.processors.evaluation import Evaluation
    from calve.processors.event_batch import EventBatch

__all__ = ["GeoIp", "GeoIpEntry", "UserAgent"]

_IN_LOCATION = ("latitude", "longitude")
"""Fields that are left out unless they are asked for, because `location` has them."""
_REMEMBERED = 10_000
"""The most user agents that a task remembers."""
_LONGEST = 1_000
"""The characters of a user agent that are read: some patterns take long for texts without an end."""


@dataclass(frozen=True)
class UserAgent:
    """Takes a browser's user agent apart into name, version, operating system and device, as the Elastic Common Schema.

    The patterns are those of the uap-core project, in the version of the library `ua-parser`.
    """

    source: str = option(doc="The key of the user agent.", check=FieldKey.checked)
    target: str = option("user_agent", "The key of the object for the result.", check=FieldKey.checked)
    exclude_original: bool = option(False, "Leave the user agent itself out of the object.")
    cache_size: int = option(1000, "Accepted for compatibility with Data Prepper; tasks remember what they need.")
    tags_on_parse_failure: list[str] = option([], "Tags of events whose user agent is no string; they continue.")

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_parse_failure

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        change = functools.partial(self._describe, FieldKey(self.source), FieldKey(self.target))
        return [ChangeStep(change, None, tuple(self.tags_on_parse_failure))]

    def _describe(self, source: FieldKey, target: FieldKey, event: Event) -> bool:
        text = opened(source.get(event))
        if text is MISSING or text is None:
            return False
        if type(text) is not str:
            raise ProcessorError("not a string", source.dotted)
        described = _user_agent(text[:_LONGEST]) | ({} if self.exclude_original else {"original": text})
        if not target.put(event, described):
            raise ProcessorError("a value on the way to this key is not an object", target.dotted)
        return True


@functools.lru_cache(_REMEMBERED)
def _user_agent(text: str) -> Event:
    from ua_parser import parse

    result = parse(text).with_defaults()
    browser, system = result.user_agent, result.os
    described: Event = {"name": browser.family, "device": {"name": result.device.family}}
    if version := _version(browser.major, browser.minor, browser.patch):
        described["version"] = version
    described["os"] = {"name": system.family, "full": system.family}
    if version := _version(system.major, system.minor, system.patch):
        described["os"] |= {"version": version, "full": f"{system.family} {version}"}
    return described


def _version(*parts: str | None) -> str:
    return ".".join(part for part in parts if part)


@dataclass(frozen=True)
class GeoIpEntry:
    """One IP address that `geoip` looks up."""

    source: str = option(doc="The key of the IP address.", check=FieldKey.checked)
    target: str = option("geo", "The key of the object for what is found.", check=FieldKey.checked)
    include_fields: list[str] = option([], "Only these fields; empty: all that the databases have.")
    exclude_fields: list[str] = option([], "All fields but these.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Require one of the two lists at most."""
        if self.include_fields and self.exclude_fields:
            yield "exclude_fields", "cannot be combined with include_fields"


@dataclass(frozen=True)
class GeoIp:
    """Adds what databases of MaxMind's format (`.mmdb`) know about an IP address: place, network, organization.

    Calve has no database of its own. The files must be at the same path on every machine that runs tasks.
    """

    databases: list[str] = option(
        doc="The files, such as `/data/GeoLite2-City.mmdb` and `/data/GeoLite2-ASN.mmdb`; the fields of all are put "
        "together. Data Prepper configures them outside of pipelines.",
        minimum=1,
    )
    entries: list[GeoIpEntry] = option(doc="The addresses, in order.", minimum=1)
    lookup_private_addresses: bool = option(False, "Look up private and other special addresses, too.")
    geoip_when: str | None = option(None, "A condition; only events for which it is true are changed.", check=condition)
    tags_on_no_valid_ip: list[str] = option([], "Tags of events without a valid public address.")
    tags_on_ip_not_found: list[str] = option([], "Tags of events whose address is in no database.")
    tags_on_engine_failure: list[str] = option([], "Tags of events for which a database cannot be read.")

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return [*self.tags_on_no_valid_ip, *self.tags_on_ip_not_found, *self.tags_on_engine_failure]

    def check(self) -> Iterator[tuple[str, str]]:
        """Require files that are databases."""
        for number, path in enumerate(self.databases):
            try:
                _database(path)
            except SettingsError as error:
                yield f"databases[{number}]", str(error)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build a step for each address."""
        when = compiler.condition(self.geoip_when)
        return [_Locate(self, entry, when) for entry in self.entries]


class _Locate:
    """The step of `geoip` for one address."""

    def __init__(self, settings: GeoIp, entry: GeoIpEntry, when: Evaluation | None) -> None:
        self._settings, self._entry, self._when = settings, entry, when
        self._source, self._target = FieldKey(entry.source), FieldKey(entry.target)

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        rows = batch.selected(self._when, rows)
        events, settings = batch.opened(rows), self._settings
        for row in rows:
            event = events[row]
            assert event is not None
            address = _address(opened(self._source.get(event)), settings.lookup_private_addresses)
            if address is None:
                self._tag(batch, row, settings.tags_on_no_valid_ip)
                continue
            try:
                fields = self._fields(address)
            except (SettingsError, OSError, ValueError) as error:
                batch.fail(row, f"a database cannot be read: {error}", "", settings.tags_on_engine_failure)
                continue
            if not fields:
                self._tag(batch, row, settings.tags_on_ip_not_found)
            elif self._target.put(event, fields):
                batch.touched[row] = 1
            else:
                batch.fail(row, "a value on the way to this key is not an object", self._target.dotted)

    def _tag(self, batch: EventBatch, row: int, tags: Sequence[str]) -> None:
        if tags:
            batch.fail(row, "", "", tags)

    def _fields(self, address: str) -> Event:
        fields: Event = {}
        for path in self._settings.databases:
            database = _database(path)
            if ":" in address and database.metadata().ip_version == 4:
                continue
            record, length = database.get_with_prefix_len(address)
            if isinstance(record, dict):
                network = ipaddress.ip_network(f"{address}/{length}", strict=False)
                fields |= _described(record) | {"ip": address, "network": str(network)}
        excluded = self._entry.exclude_fields or _IN_LOCATION
        chosen = self._entry.include_fields or [name for name in fields if name not in excluded]
        return {name: fields[name] for name in chosen if name in fields}


@functools.lru_cache(64)
def _database(path: str) -> Any:
    """Open a database.

    Raises:
        SettingsError: It is no such file.
    """
    import maxminddb

    try:
        return maxminddb.open_database(path, maxminddb.MODE_MMAP)
    except (OSError, ValueError, maxminddb.InvalidDatabaseError) as error:
        hint = "Download one, such as GeoLite2-City.mmdb, from its maker"
        reason = "there is no such file" if not Path(path).exists() else f"it is no MaxMind database: {error}"
        raise SettingsError(f"{path}: {reason}", step="settings", hint=hint) from None


def _address(value: Any, also_private: bool) -> str | None:
    try:
        address = ipaddress.ip_address(value) if type(value) is str else None
    except ValueError:
        return None
    return str(address) if address is not None and (address.is_global or also_private) else None


def _described(record: Mapping[str, Any]) -> Event:
    """Return the record of an address under the names of Data Prepper's fields; what it lacks is left out."""
    country, continent = record.get("country", {}), record.get("continent", {})
    registered, represented = record.get("registered_country", {}), record.get("represented_country", {})
    location, subdivisions = record.get("location", {}), record.get("subdivisions", [])
    outer, inner = (subdivisions[0], subdivisions[-1]) if subdivisions else ({}, {})
    fields = {
        "continent_name": _name(continent),
        "continent_code": continent.get("code"),
        "country_name": _name(country),
        "country_iso_code": country.get("iso_code"),
        "country_confidence": country.get("confidence"),
        "is_country_in_european_union": country.get("is_in_european_union"),
        "registered_country_name": _name(registered),
        "registered_country_iso_code": registered.get("iso_code"),
        "represented_country_name": _name(represented),
        "represented_country_iso_code": represented.get("iso_code"),
        "represented_country_type": represented.get("type"),
        "city_name": _name(record.get("city", {})),
        "city_confidence": record.get("city", {}).get("confidence"),
        "most_specified_subdivision_name": _name(inner),
        "most_specified_subdivision_iso_code": inner.get("iso_code"),
        "most_specified_subdivision_confidence": inner.get("confidence"),
        "least_specified_subdivision_name": _name(outer),
        "least_specified_subdivision_iso_code": outer.get("iso_code"),
        "least_specified_subdivision_confidence": outer.get("confidence"),
        "location": {"lat": location["latitude"], "lon": location["longitude"]} if "latitude" in location else None,
        "latitude": location.get("latitude"),
        "longitude": location.get("longitude"),
        "location_accuracy_radius": location.get("accuracy_radius"),
        "metro_code": location.get("metro_code"),
        "time_zone": location.get("time_zone"),
        "postal_code": record.get("postal", {}).get("code"),
        "postal_code_confidence": record.get("postal", {}).get("confidence"),
        "asn": record.get("autonomous_system_number"),
        "asn_organization": record.get("autonomous_system_organization"),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _name(place: Mapping[str, Any]) -> str | None:
    name = place.get("names", {}).get("en")
    return None if name is None else str(name)
