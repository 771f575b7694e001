import ipaddress
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.expression import ExpressionSyntaxError, compile_format

EVENT = {
    "s": "a.b.c",
    "path": "/app/main.py",
    "app": "q",
    "e": "",
    "u": "é😀x",
    "l": [1, "x", None, {"q": 1}],
    "m": {"a": [1, 2], "b": 3, "c": {"z": 1}, "d/e": ["x"]},
    "n": None,
    "num": 5,
    "ts": 1700000000123,
    "z": "2023-11-14T22:13:20.5Z",
    "plus": "2023-11-14T22:13:20.123456+01:00[Europe/Paris]",
    "local": "2023-07-14T22:13:20",
    "bad": "yesterday",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("length(/s)", "5"),
        ("length(/e)", "0"),
        ("length(/u)", "3"),
        ("length(/l)", "4"),
        ("length(/m)", "4"),
        ("length(/n)", ""),
        ("length(/missing)", ""),
        ("length(/num)", None),
        ('length("abc")', "3"),
        ('contains(/s, "b.")', "true"),
        ("contains(/s, /s)", "true"),
        ('contains(/s, "q")', "false"),
        ('contains(/missing, "q")', "false"),
        ('contains(/num, "5")', None),
        ('contains("abc", /num)', None),
        ('startsWith(/s, "a.")', "true"),
        ('startsWith(/s, "b")', "false"),
        ('startsWith(/n, "b")', "false"),
        ('startsWith(/l, "b")', None),
        ('substringAfter(/s, ".")', "b.c"),
        ('substringAfterLast(/s, ".")', "c"),
        ('replaceRegex(/s, """([a-z])[.]""", "\\$1\\$0-")', "aa.-bb.-c"),
        ('replaceRegex(/s, "x", "y")', "a.b.c"),
        ('substringBefore(/s, ".")', "a"),
        ('substringBeforeLast(/s, ".")', "a.b"),
        ('substringAfter(/path, "/")', "app/main.py"),
        ('substringAfterLast(/path, "/")', "main.py"),
        ('substringBefore("/app/main.py", "/m")', "/app"),
        ('substringAfter(/path, "/app/")', "main.py"),
        ('contains(/path, "/app")', "true"),
        ('startsWith(/path, "/app")', "true"),
        ('length("/app")', "4"),
        ('substringAfter(/s, "q")', "a.b.c"),
        ('substringBeforeLast(/s, "q")', "a.b.c"),
        ('substringAfterLast(/s, "")', "a.b.c"),
        ('substringAfter(/u, "😀")', "x"),
        ('substringBeforeLast(/u, "x")', "é😀"),
        ('substringAfter(/n, "q")', ""),
        ("substringAfter(/s, /missing)", "a.b.c"),
        ('substringAfter(/num, "q")', None),
        ('substringAfter(substringBefore(/s, ".c"), ".")', "b"),
        ("join(/l)", '1,x,{"q":1}'),
        ('join(" | ", /l)', '1 | x | {"q":1}'),
        ('join("\\\\, ", /m)', '{"a":"1, 2","b":3,"c":{"z":1},"d/e":"x"}'),
        ("join(/s)", None),
        ("join(/missing)", None),
        ('hasTags("a", "b")', "false"),
        ("getEventType()", "EVENT"),
        ("formatDateTime(/ts, \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\")", "2023-11-14T22:13:20.123Z"),
        ('formatDateTime(/ts, "E, d MMM yy h:mm a Z VV", "Asia/Kolkata")', "Wed, 15 Nov 23 3:43 AM +0530 Asia/Kolkata"),
        ("formatDateTime(/ts, \"EEEE MMMM D 'o''clock'\")", "Tuesday November 318 o'clock"),
        ('formatDateTime(/z, "yyyyMMdd HHmmss.S X")', "20231114 221320.5 Z"),
        ('formatDateTime(/plus, "HH:mm:ss.SSSSSSSSS")', "21:13:20.123456000"),
        ('formatDateTime(/local, "yyyy-MM-dd HH:mm X", "-03:30", "Europe/Berlin")', "2023-07-14 16:43 -0330"),
        ('formatDateTime(/local, "HH:mm xxx", "+05:00")', "03:13 +05:00"),
        ('formatDateTime(/local, "yyyy/MM", "America/New_York")', "2023/07"),
        ('formatDateTime(/bad, "yyyy")', None),
        ('formatDateTime(/missing, "yyyy")', None),
        ('formatDateTime(/l, "yyyy")', None),
    ],
)
def test_a_function_gives_what_data_preppers_gives(shows, text, expected):
    assert shows(f"${{{text}}}", EVENT) == expected


def test_dates_do_not_depend_on_the_sessions_zone(evaluator, shows):
    text = '${formatDateTime(/local, "yyyy-MM-dd HH:mm", "Asia/Tokyo")} ${formatDateTime(/plus, "HH:mm")}'
    evaluator.connection.execute("SET TimeZone = 'America/Lima'")
    try:
        assert shows(text, EVENT) == "2023-07-15 07:13 21:13"
    finally:
        evaluator.connection.execute("RESET TimeZone")


def test_now_is_now_in_milliseconds(shows):
    assert abs(int(shows("${now()}")) - time.time() * 1000) < 60_000


def test_to_json_string_gives_the_whole_event(shows):
    assert json.loads(shows("${toJsonString()}", EVENT)) == EVENT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("length()", "cannot have 0"),
        ("length(/a, /b)", "cannot have 2"),
        ("length(5)", "cannot have this argument"),
        ("length(/a + /b)", "cannot have this argument"),
        ("hasTags()", "cannot have 0"),
        ("hasTags(/a)", "in quotes"),
        ("getMetadata(/a)", "in quotes"),
        ("getMetadata(5)", "in quotes"),
        ("getMetadata()", "cannot have 0"),
        ('join("a")', "a field"),
        ("join(/a, /b)", "in quotes"),
        ("contains(/a, 5)", "cannot have this argument"),
        ("cidrContains(/a)", "cannot have 1"),
        ('cidrContains("1.2.3.4", "1.2.3.0/24")', "a field"),
        ('cidrContains(/a, "1.2.3.0/33")', "not a network"),
        ('formatDateTime(/a, "qq")', r"Date pattern [qq] is invalid"),
        ('formatDateTime(/a, "YYYY")', r"Date pattern [YYYY] is invalid"),
        ('formatDateTime(/a, "yyyy\'T")', "is invalid"),
        ('formatDateTime(/a, "yyyy", "Mars/X")', "Destination time zone [Mars/X] is invalid"),
        ('formatDateTime(/a, "yyyy", "UTC", "+25:00")', "Source time zone [+25:00] is invalid"),
        ("startswith(/a, /b)", "Did you mean startsWith?"),
        ("nonsense()", "Functions: cidrContains"),
    ],
)
def test_what_a_function_cannot_take_is_found_at_once(text, problem):
    with pytest.raises(ExpressionSyntaxError) as caught:
        compile_format(f"${{{text}}}")
    assert problem in str(caught.value)


NETWORKS = ["192.0.2.0/24", "10.0.0.0/8", "0.0.0.0/1", "203.0.113.7", "2001:db8::/32", "::/3", "fe80::1", "ff00::/9"]
ADDRESSES = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
    st.ip_addresses(v=6).map(lambda address: address.exploded.upper()),
    st.sampled_from(
        ["192.0.2.255", "192.0.3.0", "203.0.113.7", "2001:DB8::7", "::", "::1", "1::", "fe80::1", "fe80:0::1"]
    ),
    st.sampled_from(
        ["", "x", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.04", ":::", "1::2::3", "1:2:3:4:5:6:7", ":1", "1:"]
    ),
    st.sampled_from(
        ["1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7::8", "12345::", "g::", "1:2:3:4:5:6:7:8", "::2:3:4:5:6:7:8", ":1::2"]
    ),
    st.text(alphabet="0123456789abcdef:.", max_size=20).filter(lambda text: not (":" in text and "." in text)),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(ADDRESSES, min_size=30, max_size=60), st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=3))
def test_networks_contain_what_pythons_networks_contain(holds, addresses, networks):
    def expected(text):
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        return any(address in ipaddress.ip_network(network) for network in networks)

    text = f"cidrContains(/ip, {', '.join(map(json.dumps, networks))})"
    assert holds(text, *({"ip": each} for each in addresses)) == [expected(each) for each in addresses]
