"""Processors that add what is known about a value. `places.mmdb` and `networks.mmdb` have two made-up networks each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calve.settings.problems import SettingsErrors
from processors.chains import plugins, ran, run

HERE = Path(__file__).parent
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 13_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/13.1.1 Mobile/15E148 Safari/604.1"
)
DATABASES = [str(HERE / "places.mmdb"), str(HERE / "networks.mmdb")]


def test_a_user_agent_as_in_the_documentation() -> None:
    described = {
        "original": IPHONE,
        "os": {"version": "13.5.1", "full": "iOS 13.5.1", "name": "iOS"},
        "name": "Mobile Safari",
        "version": "13.1.1",
        "device": {"name": "iPhone"},
    }
    assert ran({"user_agent": {"source": "ua"}}, {"ua": IPHONE}) == [{"ua": IPHONE, "user_agent": described}]
    del described["original"]
    settings = {"source": "ua", "target": "a/b", "exclude_original": True}
    assert ran({"user_agent": settings}, {"ua": IPHONE}) == [{"ua": IPHONE, "a": {"b": described}}]


def test_what_is_no_user_agent() -> None:
    outcome = run([{"user_agent": {"source": "ua"}}], {"ua": 5}, {}, {"ua": "?"})
    unknown = {"name": "Other", "device": {"name": "Other"}, "os": {"name": "Other", "full": "Other"}, "original": "?"}
    assert outcome.events == [{}, {"ua": "?", "user_agent": unknown}]
    assert [letter["field"] for letter in outcome.failed] == ["ua"]


def test_a_user_agent_without_an_end_is_read_up_to_a_bound() -> None:
    text = IPHONE + " Version/" * 100_000
    [event] = ran({"user_agent": {"source": "ua"}}, {"ua": text})
    assert (event["user_agent"]["name"], event["user_agent"]["original"]) == ("Mobile Safari", text)


def geoip(**more: Any) -> dict[str, Any]:
    entry = {"source": "ip", **more}
    tags = {"tags_on_no_valid_ip": ["invalid"], "tags_on_ip_not_found": ["unknown"]}
    return {"geoip": {"databases": DATABASES, "entries": [entry], **tags}}


def test_an_address_in_several_databases() -> None:
    [event] = ran(geoip(), {"ip": "8.8.8.8"})
    assert event["geo"] == {
        "continent_name": "North America",
        "continent_code": "NA",
        "country_name": "United States",
        "country_iso_code": "US",
        "is_country_in_european_union": False,
        "city_name": "Springfield",
        "most_specified_subdivision_name": "Illinois",
        "most_specified_subdivision_iso_code": "IL",
        "least_specified_subdivision_name": "Illinois",
        "least_specified_subdivision_iso_code": "IL",
        "location": {"lat": 39.5, "lon": -89.25},
        "metro_code": 648,
        "time_zone": "America/Chicago",
        "postal_code": "62701",
        "ip": "8.8.8.8",
        "network": "8.8.0.0/16",
        "asn": 64500,
        "asn_organization": "Example",
    }


def test_chosen_fields_of_an_address() -> None:
    [event] = ran(geoip(target="client", include_fields=["latitude", "asn"]), {"ip": "8.8.8.8"})
    assert event["client"] == {"latitude": 39.5, "asn": 64500}
    excluded = ["ip", "network", "is_country_in_european_union"]
    [event] = ran(geoip(exclude_fields=excluded), {"ip": "2001:4860:1::1"})  # of one database alone: it has IPv6
    assert event["geo"] == {"country_name": "Germany", "country_iso_code": "DE"}


def test_addresses_that_are_not_found_are_tagged() -> None:
    events = [{"ip": "127.0.0.1"}, {"ip": "1.1.1.1"}, {"ip": "x"}, {"ip": 5}, {}]
    outcome = run([geoip()], *events)
    assert outcome.events == events
    assert outcome.tags == [["invalid"], ["unknown"], ["invalid"], ["invalid"], ["invalid"]]
    also_private = {"geoip": {**geoip()["geoip"], "lookup_private_addresses": True}}
    assert run([also_private], *events).tags == [["unknown"], ["unknown"], ["invalid"], ["invalid"], ["invalid"]]


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        ({"geoip": {"databases": ["/no.mmdb"], "entries": [{"source": "ip"}]}}, "/no.mmdb: there is no such file"),
        ({"geoip": {"databases": [__file__], "entries": [{"source": "ip"}]}}, "it is no MaxMind database"),
        (geoip(include_fields=["asn"], exclude_fields=["ip"]), "cannot be combined"),
        ({"translate": {}}, "one of mappings and file must be set"),
        (
            {"translate": {"mappings": [{"source": [], "targets": [{"target": "b", "map": {"1": "x"}}]}]}},
            "needs at least one key",
        ),
        (
            {"translate": {"mappings": [{"source": ["a/b", "c/d"], "targets": [{"target": "b", "map": {"1": "x"}}]}]}},
            "the keys must name values of one object",
        ),
        ({"translate": {"file": {"name": "/no.yaml"}}}, "this file cannot be read: No such file"),
        ({"translate": {"file": {"name": "t.yaml", "aws": {"bucket": "b"}}}}, "copy the file from the bucket"),
        (
            {
                "translate": {
                    "mappings": [{"source": "a", "targets": [{"target": "b", "map": {"1": "x"}, "type": "long"}]}]
                }
            },
            "not a whole number",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(processor: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsErrors, match=message):
        plugins(processor)


def translate(source: str | list[str], **target: Any) -> dict[str, Any]:
    return {"translate": {"mappings": [{"source": source, "targets": [{"target": "r", **target}]}]}}


@pytest.mark.parametrize(
    ("target", "value", "result"),
    [
        ({"map": {404: "Not Found"}}, "404", "Not Found"),
        ({"map": {404: "Not Found"}}, 404, "Not Found"),
        ({"map": {404: "Not Found"}}, 405, None),
        ({"map": {404: "Not Found"}, "default": "default"}, 405, "default"),
        ({"map": {404: "Not Found"}, "default": "default"}, None, None),
        ({"map": {"100-200": "Success", "400-499": "Error"}}, 499, "Error"),
        ({"map": {"100-200": "Success", "-2.5--1": "Below"}}, -1.5, "Below"),
        ({"map": {"key1,key2,key3": "value1", "100-200,key4": "value2"}}, "key4", "value2"),
        ({"map": {"2024-2025": "season"}}, "2024-2025", "season"),
        ({"map": {"a": 5}}, "a", "5"),
        ({"map": {"a": "5"}, "type": "integer"}, "a", 5),
        ({"map": {"a": True}, "type": "boolean"}, "a", True),
        ({"regex": {"patterns": {"2[0-9]{2}": "Success"}}}, "x200", None),
        ({"regex": {"exact": False, "patterns": {"2[0-9]{2}": "Success", ".*": "Other"}}}, "x200", "Success"),
    ],
)
def test_a_value_is_looked_up(target: dict[str, Any], value: Any, result: Any) -> None:
    [event] = ran(translate("status", **target), {"status": value})
    assert event == {"status": value} | ({} if result is None else {"r": result})


def test_several_values_make_a_list() -> None:
    assert ran(translate(["a", "b"], map={1: "one", 2: "two"}), {"a": 1, "b": 2}, {"b": 1}, {}) == [
        {"a": 1, "b": 2, "r": ["one", "two"]},
        {"b": 1, "r": ["one"]},
        {},
    ]


def test_tables_of_a_file_are_read_on_the_driver(tmp_path: Path) -> None:
    tables = tmp_path / "tables.yaml"
    tables.write_text(
        "mappings:\n  - source: status\n    targets:\n      - {target: r, map: {404: other}}\n"
        "      - {target: q, map: {404: file}}\n"
    )
    settings = translate("status", map={404: "own"})["translate"] | {"file": {"name": str(tables)}}
    [plugin] = plugins({"translate": settings})
    shipped = plugin.value.shipped()
    assert shipped.file is None
    assert ran({"translate": settings}, {"status": 404}) == [{"status": 404, "r": "own", "q": "file"}]
    tables.write_text("mappings:\n  - source: status\n    targets: [{targets: r}]\n")
    with pytest.raises(SettingsErrors, match="unknown key 'targets'"):
        plugins({"translate": settings})
