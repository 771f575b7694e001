import pytest

from calve.expression import ExpressionSyntaxError, compile_condition

EVENT = {
    "status": 200,
    "value": 12345.678,
    "big": 9007199254740993,
    "huge": 123456789012345678901,
    "kind": "click",
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [1, 2.5, "x"],
    "map": {"a": {"0": "zero"}, "x-y": 1, "it's": 2},
    "text": "12",
    "whole": 1.0,
}


def true(*texts):
    return [(text, True) for text in texts]


def false(*texts):
    return [(text, False) for text in texts]


EQUALITY = [
    *true("/status == 200", "/status == 200.0", "/whole == 1", "/value == 12345.678", "12345.678 == 12345.678"),
    *true('/kind == "click"', "/yes == true", "/no == false", "/nothing == null", "/missing == null", "null == null"),
    *true("/missing == /nothing", "/status != /kind", "/list == /list", "/big == 9007199254740993", "/status != null"),
    *true(
        '/status != "200"', "/map/a/0 == /map/a/0", "/list/0 == /whole", "length(/kind) == 5", "length(/no/a) == null"
    ),
    *false(
        '200 == "200"',
        "true == 200",
        '/status == "200"',
        "/text == 12",
        "/missing == 0",
        "/yes == 1",
        "/status == null",
    ),
    *false(
        "/big == 9007199254740992", "/big == /value", "/huge == 123456789012345678", "/yes == /no", '/kind == "Click"'
    ),
]
ORDER = [
    *true(
        "/status >= 200", "/status < 200.5", "/value > 12345", "/big > 9007199254740992", "/huge > /big", "-/status < 0"
    ),
    *false(
        "/missing > 2",
        "/missing <= 2",
        "/nothing < 1",
        "null >= null",
        "/kind > 1",
        "/kind < 1",
        '"a" < "b"',
        "/yes > 0",
    ),
    *false("/list > 1", "/text > 1", "/status > 200", "/big > 9007199254740993", "null < 5"),
    *true("not (/missing > 2)", "/missing > 2 or true", "/list/1 > /list/0"),
]
BOOLEANS = [
    *true(
        "/yes", "not /no", "/yes and /yes", "/no or /yes", "/yes != /no", "not (/yes and /no)", "/yes or /no and /yes"
    ),
    *false(
        "/yes or /yes and /no",
        "/missing or true",
        "true or /missing",
        "not /missing",
        "not /status",
        "/status",
        "/missing",
    ),
    *false("/missing != null and /missing > 2", "/kind or /yes", "/nothing and /nothing"),
]
SETS = [
    *true("/status in {200, 404}", '/kind in {"a","b","c","d","e","click"}', "/value in {12345.678}", "/yes in {true}"),
    *true(
        '/kind not in {"a"}', 'null not in {"a"}', "/missing not in {1}", "not (/status in {1})", "/whole in {1.0, 2.0}"
    ),
    *true("length(/kind) in {5}", "-/status in {-200}", "/missing in {null}"),
    *false(
        "1 in {1.0}", "/whole in {1}", "/status in {200.0}", '/status in {"200"}', "/missing in {1}", "/text in {12}"
    ),
    *false('/kind in {"blue", 222.0}', '/kind not in {"blue", 222.0}', "not /status in {200}", "not /yes in {1}"),
    *false('/kind not in {"click"}', "/yes in {false}"),
]
REGEX = [
    *true('/kind =~ "cl[a-z]+"', '/kind !~ "cl"', '"abc" =~ "a.c"', "/kind =~ /kind", '/text =~ """\\d+"""'),
    *false(
        '/kind =~ "lic"',
        '/kind !~ "cl.*"',
        '/missing =~ ".*"',
        '/missing !~ ".*"',
        '/status =~ "200"',
        '/status !~ "x"',
    ),
]
TYPES = [
    *true(
        "/status typeof integer",
        "/big typeof long",
        "/huge typeof big_decimal",
        "/value typeof double",
        "/whole typeof double",
    ),
    *true(
        "/kind typeof string",
        "/yes typeof boolean",
        "/list typeof array",
        "/map typeof map",
        '"/map/x-y" typeof integer',
    ),
    *false(
        "/status typeof long",
        "/big typeof integer",
        "/text typeof integer",
        "/missing typeof string",
        "/nothing typeof map",
    ),
    *false("/value typeof integer", "/huge typeof long"),
]
ARITHMETIC = [
    *true(
        "/status + 1 == 201",
        "/status / 3 > 66.6",
        "7 / 2 == 3.5",
        "/status % 7 == 4",
        "/status - 1 * 2 == 198",
        "/list/1 + 1 == 3.5",
    ),
    *true(
        "/big + 1 == 9007199254740994",
        '/kind + "s" == "clicks"',
        "/kind + /text == /kind + /text",
        "-(/status) == -200",
    ),
    *true("9223372036854775807 + 1 > 9000000000000000000", "/status+1 == 201", "/status-1 == 199", "1 + 2 * 3 == 7"),
    *false(
        '/kind + 1 == "click1"', "/text + 1 == 13", "/missing + 1 == 1", "not (/missing + 1 == 1)", "/status / 0 > 1"
    ),
    *false("not (/status % 0 == 1)", "/whole % 2 == 1", "not (/yes - 1 == 0)", "not ((/status + /kind) * 2 == 1)"),
    *false("/status == 200 or /kind + 1 == 2"),
]
POINTERS = [
    *true("/list/0 == 1", '/list/2 == "x"', '/map/a/0 == "zero"', '"/map/x-y" == 1', '"/map/it\'s" == 2'),
    *true("/list/3 == null", "/list/x == null", "/kind/0 == null", "/list/00 == null"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [*EQUALITY, *ORDER, *BOOLEANS, *SETS, *REGEX, *TYPES, *ARITHMETIC, *POINTERS],
)
def test_a_condition_means_what_data_prepper_means(holds, text, expected):
    assert holds(text, EVENT) is expected


@pytest.mark.parametrize("text", ["200", '"x"', "null", "/a + 1", "length(/a)", "now()", 'substringAfter(/a, "b")'])
def test_what_can_be_neither_true_nor_false_is_no_condition(text):
    with pytest.raises(ExpressionSyntaxError, match="true or false"):
        compile_condition(text)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(?=x).*", "Lookaround"),
        ("(a", "missing"),
        ("a++", "possessive"),
        ("[a-z&&[^b]]", "&&"),
        ('"""(a)\\1"""', "backreferences"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_found_at_once(pattern, problem):
    quoted = pattern if pattern.startswith('"') else f'"{pattern}"'
    with pytest.raises(ExpressionSyntaxError, match=problem) as caught:
        compile_condition(f"/a =~ {quoted}")
    assert caught.value.offset == 6


@pytest.mark.parametrize("text", ["/a + 1 =~ /b", "1 =~ /b", "/a =~ 1", '/a =~ "x" =~ "y"'])
def test_only_fields_and_strings_are_matched(text):
    with pytest.raises(ExpressionSyntaxError):
        compile_condition(text)


def test_a_bad_row_touches_no_other(holds):
    events = [
        {"a": 4, "p": "x"},
        {"a": "no", "p": "("},
        {"a": 0, "p": "x"},
        {},
        {"a": [1]},
        {"a": 2**70},
        {"a": 1, "p": "x"},
    ]
    assert holds("8 / /a > 1", *events) == [True, False, False, False, False, False, True]
    assert holds('"x" =~ /p', *events) == [True, False, True, False, False, False, True]
    assert holds("/a % /a == 0", *events) == [True, False, False, False, False, False, True]


def test_json_text_is_compared_by_its_meaning(holds):
    assert holds('/a == "é/u"', '{"a": "\\u00e9\\/u"}', '{"a" :"é/u"}') == [True, True]
    assert holds("/a == 1500", '{"a": 1.5e3}', '{"a": 1500.0}', '{"a":  1500 }') == [True, True, True]
    assert holds("/a == /b", '{"a": [1, {"x": 2}], "b": [ 1,{ "x" :2 } ]}')


def test_metadata_is_compared_by_its_type(holds):
    metadata = {
        "topic": "t'1",
        "partition": 3,
        "headers": {"h": "v", "n": {"m": 1}},
        "none": None,
        "a/b": "flat",
        "ok": True,
    }
    for text in [
        'getMetadata("topic") == "t\'1"',
        'getMetadata("partition") > 2',
        'getMetadata("/partition") in {3}',
        'getMetadata("/headers/h") == "v"',
        'getMetadata("headers/n/m") == 1',
        'getMetadata("none") == null',
        'getMetadata("absent") == null',
        'getMetadata("/absent/too") == null',
        'getMetadata("a/b") == "flat"',
        'getMetadata("ok")',
        'getMetadata("topic") =~ "t.*"',
        'length(getMetadata("headers")) == 2',
    ]:
        assert holds(text, **metadata) is True, text


def test_a_condition_tells_which_metadata_it_reads():
    condition = compile_condition(
        'getMetadata("a") == 1 or /x in {1} and getMetadata("/b/c") == getMetadata("d/e")', ["a", "d/e"]
    )
    assert condition.metadata == {"a", "b", "d/e"}
    assert compile_condition("/a == 1").metadata == frozenset()


def test_of_a_repeated_key_that_no_reader_took_out_duckdb_reads_the_first_value(holds, shows):
    event = '{"k":1,"k":2,"o":{"a":1,"a":2},"o":{"a":3}}'
    assert holds("/k == 1", event)
    assert holds("/o/a == 1 and /k != 2", event)
    assert shows("${/k}-${/o/a}", event) == "1-1"


def test_a_condition_is_never_null(holds):
    for text in [
        "/a",
        "not /a",
        "/a and /a",
        "/a == 1",
        "/a in {1}",
        "/a + 1 > 1",
        "/a =~ /b",
        'contains(/a, "x")',
        "/a typeof map",
    ]:
        assert set(holds(text, {}, {"a": None}, {"a": "x"}, {"a": 1}, {"a": {}}, {"a": True})) <= {True, False}, text


@pytest.mark.parametrize(
    "text",
    [
        "x') OR 1=1 --",
        "'; DROP TABLE rows; --",
        "' || error('x') || '",
        "fields[1]",
        'a"b',
        "\\",
        "$1 ? {0}",
        "%s",
        "",
        "é\u2028😀",
    ],
)
def test_user_text_stays_text(holds, shows, text):
    if '"' not in text and "\\" not in text:
        raw = f'"""{text}"""' if text else '""'
        assert holds(f"/a == {raw}", {"a": text}, {"a": "other"}) == [True, False]
        assert holds(f"/a in {{{raw}}}", {"a": text}, {"a": "other"}) == [True, False]
        assert holds(f"contains(/a, {raw})", {"a": text}) is True
        assert holds(f"getMetadata({raw}) == 1 and /a == 1 or /a == 1", {"a": 1}, **{text or "e": 1}) is True
    assert shows(text.replace("${", "") + "${a}", {"a": text}) == text + text
    if text and "{" not in text and '"' not in text and "\\" not in text and "$" not in text:
        assert holds(f'"/{text}" == 7', {text: 7}) is True


def test_columns_named_like_our_variables_do_no_harm(holds):
    assert holds('/a == 1 and /a < 2 and getMetadata("fields") == 5', {"a": 1}, fields=5, fields_=6, x=7, s=8)
    assert holds('substringAfter(getMetadata("x"), getMetadata("s")) == "c"', {}, x="abc", s="b")


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('/path == "/index.html"', "/index.html"),
        ('/path == "/my-page"', "/my-page"),
        ('"/index.html" != /path', "/index.html"),
        ('/path =~ "/api/.*"', "/api/.*"),
        ('getMetadata("path") == "/my-page"', "/my-page"),
        ('length("/path") > 3', "/path"),
    ],
)
def test_text_that_begins_with_a_slash_where_it_is_read_otherwise_is_doubted_once(text: str, quoted: str) -> None:
    [doubt] = compile_condition(text).doubts
    assert f'"{quoted}"' in doubt


@pytest.mark.parametrize(
    "text",
    [
        '/path == """/index.html"""',
        '"/my-field" == 5',
        '"/my-field" == /other',
        '"/my-field" typeof integer',
        'startsWith(/path, "/api")',
        '/path in {"""/a""", "b"}',
        'getMetadata("/a/b") == 1',
    ],
)
def test_text_and_fields_as_they_are_meant_are_not_doubted(text: str) -> None:
    assert not compile_condition(text).doubts


def test_text_that_begins_with_a_slash_takes_three_quotes() -> None:
    [doubt] = compile_condition('/path == "/index.html"').doubts
    assert '"""/index.html"""' in doubt
    with pytest.raises(ExpressionSyntaxError, match='three quotes: """/a"""'):
        compile_condition('/path in {"/a"}')
