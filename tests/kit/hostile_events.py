"""Events of every kind that ordinary programs stumble over."""

from __future__ import annotations

FIRST_ID = 10**9
"""The ids of hostile events count from here."""
FIELDS = {
    "deep array": '"n":' + "[" * 130 + "]" * 130,
    "deep object": '"deep":' + '{"a":' * 130 + "1" + "}" * 130,
    "deeper than any parser": '"deep":' + "[" * 50_000 + "]" * 50_000,
    "dotted twin": '"a":{"b":1},"a.b":2',
    "case twin": '"Kind":"x"',
    "case twins at once": '"new":1,"NEW":2',
    "empty name": '"":1',
    "half a surrogate in a name": '"\\ud800":1',
    "control character in a name": '"a\\u0000b\\n":1',
    "reserved name": '"_file":"x","_pos":1,"_row_id":2',
    "long name": '"' + "y" * 10_000 + '":1',
    "many names": ",".join(f'"k{n}":{n}' for n in range(5_000)),
    "number of 10,000 digits": '"n":' + "9" * 10_000,
    "fraction of 10,000 digits": '"amount":0.' + "3" * 10_000,
    "number beyond a double": '"amount":1e400',
    "exponent": '"n":1e999999999',
    "integer beyond 64 bits": '"user_id":12345678901234567890',
    "integer beyond 53 bits beside fractions": '"amount":9007199254740993',
    "fraction in an integer column": '"n":9.5',
    "text in an integer column": '"n":"n/a"',
    "object in a text column": '"country":{"a":1}',
    "year 57973": '"at":"+57973-01-01T00:00:00Z"',
    "microseconds": '"at":1773712800000000',
    "nanoseconds": '"at":"2026-03-10T10:10:10.123456789Z"',
    "no date": '"at":"2026-02-30T00:00:00Z"',
    "half a surrogate": '"page":"\\ud800"',
    "null byte": '"page":"\\u0000"',
    "900 kB": '"page":"' + "x" * 900_000 + '"',
    "repeated key": '"n":1,"n":2',
    "mixed array": '"list":[1,"a",{"b":[]},null,[1.5]]',
    "new struct": '"address":{"zip":"00123","geo":{"lat":1.25}}',
    "nothing but nulls": '"x":null,"y":[null],"z":{}',
}
TEXTS = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"[{}]",
    b'"x"',
    b"NaN",
    b"\xff\xfe",
    b'{"id":}',
    b'{"id":1}{"id":2}',
    b"{'id':1}",
    b"{}",
    b'{"id":NaN}',
    b'\xef\xbb\xbf{"id":1000009999}',
    b'{"id":"\xff"}',
    b'{"no_column_at_all":null}',
    b'{"id":01}',
    b'{"id":1,}',
]


def hostile_event(number: int) -> bytes:
    """Return the event of a number; kinds take turns."""
    kinds = [*FIELDS.values(), *TEXTS]
    kind = kinds[number % len(kinds)]
    return kind if isinstance(kind, bytes) else f'{{"id":{FIRST_ID + number},"kind":"h",{kind}}}'.encode()
