"""`cidrContains`: IP addresses in networks, without DuckDB's inet extension (which is not built in)."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_network

from calve.expression import value
from calve.expression.scope import ArgumentError
from calve.expression.sql import duckdb_text
from calve.expression.value import Value

__all__ = ["cidr_contains"]

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_V4 = rf"({_OCTET}\.){{3}}{_OCTET}"
_V6 = "[0-9a-fA-F:]{2,39}"
_GROUPS = "[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4})*"


def cidr_contains(address: Value, *networks: str) -> Value:
    """Return whether the address in a field is in one of the networks; false if it is not an address.

    Addresses compare as hexadecimal text of equal length, with the network's first and last address. IPv6 addresses
    that end in dotted IPv4 form are not supported.
    """
    ranges = [_bounds(network, 1 + index) for index, network in enumerate(networks)]
    four = " OR ".join(f"__x BETWEEN {low} AND {high}" for low, high in ranges if len(low) == 10)
    six = " OR ".join(f"__x BETWEEN {low} AND {high}" for low, high in ranges if len(low) == 34)
    cases = _case(_V4, _hexadecimal_v4("__s"), four) + _case(_V6, _hexadecimal_v6("__s"), six)
    inside = f"list_transform([{address.string}], lambda __s: CASE{cases} ELSE false END)[1]"
    return value.flag(f"coalesce({inside}, false)", *address.fault)


def _case(shape: str, digits: str, inside: str) -> str:
    if not inside:
        return ""
    return f" WHEN regexp_full_match(__s, '{shape}') THEN list_transform([{digits}], lambda __x: {inside})[1]"


def _bounds(text: str, index: int) -> tuple[str, str]:
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        raise ArgumentError(f"{text!r} is not a network", index, "Write 192.0.2.0/24 or 2001:db8::/32") from None
    digits = 8 if isinstance(network, IPv4Network) else 32
    return duckdb_text(f"{int(network[0]):0{digits}x}"), duckdb_text(f"{int(network[-1]):0{digits}x}")


def _hexadecimal_v4(text: str) -> str:
    return (
        f"array_to_string(list_transform(string_split({text}, '.'), lambda __o: format('{{:02x}}', __o::INTEGER)), '')"
    )


def _hexadecimal_v6(text: str) -> str:
    """Return SQL for the 32 digits of an address, NULL if it is not an address."""
    halves = f"string_split(lower({text}), '::')"
    head, tail = (f"list_filter(string_split({halves}[{half}], ':'), lambda __g: __g <> '')" for half in (1, 2))
    tail = f"coalesce({tail}, [])"
    first, last = (
        f"array_to_string(list_transform({part}, lambda __g: lpad(__g, 4, '0')), '')" for part in (head, tail)
    )
    zeros = f"repeat('0', 32 - 4 * len({head}) - 4 * len({tail}))"
    fits = (
        f"regexp_full_match({text}, '({_GROUPS})?(::)?({_GROUPS})?')"
        f" AND (len({halves}) = 1 AND len({head}) = 8 OR len({halves}) = 2 AND len({head}) + len({tail}) < 8)"
    )
    return f"CASE WHEN {fits} THEN {first} || {zeros} || {last} END"
