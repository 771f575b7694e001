import pytest

from calve.expression import ExpressionSyntaxError, compile_format

EVENT = {
    "foo": "bar",
    "n": 123,
    "ok": True,
    "f": 2.5,
    "whole": 1.0,
    "nothing": None,
    "info": {"ids": {"id": "idx"}},
    "list": ["a", {"b": 'q"'}],
    "a.b": "dot",
    "with-dash": "dash",
    "42": "numbered",
    "a b": "blank",
    "t~x": "tilde",
    "s": "it's",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("test-${foo}-string", "test-bar-string"),
        ("${info/ids/id}${foo}-test-string", "idxbar-test-string"),
        ("test-${n}-string", "test-123-string"),
        ("${ok}-${n}-x", "true-123-x"),
        ("${/foo}", "bar"),
        ("${f}${whole}", "2.51.0"),
        ("${list}", '["a",{"b":"q\\""}]'),
        ("${/info}", '{"ids":{"id":"idx"}}'),
        ("${list/0}", "a"),
        ("${a.b}", "dot"),
        ("${with-dash}${/with-dash}", "dashdash"),
        ("${a b}", "blank"),
        ("${t~x}", "tilde"),
        ("${s}'s", "it's's"),
        ("${foo/}", "bar"),
        ("$foo {n} }", "$foo {n} }"),
        ("${42}", "numbered"),
        ("${43}", "43"),
        ("${/n-1}", "122"),
        ("${/n + 1}", "124"),
        ("${/n / 2}", "61.5"),
        ("${/n * 1.0}", "123.0"),
        ('${/foo + "s"}', "bars"),
        ("${/n == 123}", "true"),
        ("${true}", "true"),
        ("${length(/foo)}", "3"),
        ("${/missing}", ""),
        ("${/nothing}", ""),
        ("a${/missing}b", "ab"),
        ('${getMetadata("x")}', ""),
        ("${missing}", None),
        ("${nothing}", None),
        ("a-${foo}-${missing}", None),
        ("${/foo + 1}", None),
        ("x${/missing + 1}", None),
        ("${/n / 0}", None),
        ("${length(/n)}", None),
    ],
)
def test_a_format_string_shows_what_data_prepper_shows(shows, text, expected):
    assert shows(text, EVENT) == expected


def test_text_without_parts_is_static():
    found = compile_format("logs.web's")
    assert (found.static, found.sql, found.metadata) == ("logs.web's", "'logs.web''s'", frozenset())
    assert compile_format("").static == ""
    assert compile_format("${/a}").static is None


def test_metadata_shows_as_text(shows):
    metadata = {"topic": "t'1", "partition": 3, "headers": {"h": "v", "k": [1]}, "no": None}
    text = (
        'x.${getMetadata("topic")}-${getMetadata("partition")}-${getMetadata("/headers/h")}-${getMetadata("no")}-${/a}'
    )
    assert shows(text, {"a": 1}, **metadata) == "x.t'1-3-v--1"
    assert shows('${getMetadata("headers")}', **metadata) == '{"h":"v","k":[1]}'


def test_a_format_tells_which_metadata_it_reads():
    found = compile_format('${getMetadata("kafka_topic")}.${/a}${getMetadata("h/x")}')
    assert found.metadata == {"kafka_topic", "h"}


@pytest.mark.parametrize(
    ("text", "offset", "problem"),
    [
        ("abc-${/foo", 4, "without }"),
        ("${/a}-${", 6, "without }"),
        ('${getXYZ("key")}', 2, "unknown function getXYZ"),
        ("a${lenght(/key)}", 3, "Did you mean length"),
        ("${}", 2, "ends here"),
        ("${ }", 3, "ends here"),
        ("a${getMetadata('k')}", 15, "double quotes"),
        ("${getMetadata(k)}", 14, '"k"'),
        ("${/a == }", 8, "ends here"),
        ('${/a =~ "("}', 8, "regular expression"),
        ("x\0y", 1, "NUL"),
    ],
)
def test_what_can_be_no_part_is_found_at_once(text, offset, problem):
    with pytest.raises(ExpressionSyntaxError, match="character") as caught:
        compile_format(text)
    assert problem in str(caught.value)
    assert (caught.value.offset, caught.value.text) == (offset, text)


def test_a_bad_row_touches_no_other(shows):
    events = [{"a": 1, "t": "x"}, {"a": "one", "t": "y"}, {"t": "z"}, {"a": 3}, {"a": True, "t": None}]
    assert shows("${t}-${/a + 1}", *events) == ["x-2", None, None, None, None]


def test_each_row_gets_a_uuid_of_its_own(shows):
    found = shows("${generateUuid()}", {}, {}, {})
    assert len(set(found)) == 3
    assert all(len(each) == 36 for each in found)
