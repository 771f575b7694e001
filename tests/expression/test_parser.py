import pickle

import pytest

from calve.errors import SettingsError
from calve.expression import ExpressionSyntaxError, compile_condition
from calve.expression.parser import parse
from calve.expression.tree import Binary, Call, Literal, Member, Pointer, TypeOf, Unary


def shape(node):
    """The tree as text with every bracket written."""
    match node:
        case Literal(value):
            return repr(value)
        case Pointer(path):
            return path
        case Unary(operator, operand):
            return f"({operator} {shape(operand)})"
        case Binary(operator, left, right):
            return f"({shape(left)} {operator} {shape(right)})"
        case Member(negated, operand, members):
            return f"({shape(operand)} {'not ' * negated}in {{{', '.join(map(shape, members))}}})"
        case TypeOf(operand, kind):
            return f"({shape(operand)} typeof {kind})"
        case Call(name, arguments):
            return f"{name}({', '.join(map(shape, arguments))})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a or /b and /c", "((/a or /b) and /c)"),
        ("/a and /b or /c", "((/a and /b) or /c)"),
        ("not /a in {1}", "((not /a) in {1})"),
        ("not (/a in {1})", "(not (/a in {1}))"),
        ("/a == 1 and /b != 2", "((/a == 1) and (/b != 2))"),
        ("/a < 1 == /b > 2", "((/a < 1) == (/b > 2))"),
        ("/a < 1 == /b in {true}", "((/a < 1) == (/b in {True}))"),
        ('/a == "x" =~ "y"', "(/a == ('x' =~ 'y'))"),
        ("/a + /b * 2 - 1", "((/a + (/b * 2)) - 1)"),
        ("(/a + /b) * 2 > 1", "(((/a + /b) * 2) > 1)"),
        ("-/a * 2", "((- /a) * 2)"),
        ("/a - -1", "(/a - -1)"),
        ("/a-1", "(/a - 1)"),
        ("/x/2 == 1", "(/x/2 == 1)"),
        ("/x / 2 == 1", "((/x / 2) == 1)"),
        ("/x/y.z@1/0 == 1", "(/x/y.z@1/0 == 1)"),
        ('"/with-dash" == 1', "(/with-dash == 1)"),
        ('"""/no pointer""" == /a', "('/no pointer' == /a)"),
        ("  /a   and   /b  ", "(/a and /b)"),
        ("(/a) and (/b)", "(/a and /b)"),
        ("/a typeof integer and /b", "((/a typeof integer) and /b)"),
        ("/a not in {1, 2}", "(/a not in {1, 2})"),
        ('length(/s) / 3 + f("a",/b)', "((length(/s) / 3) + f('a', /b))"),
        ("/a == 1.5e-3", "(/a == 0.0015)"),
        ("/a == null", "(/a == None)"),
        ("not not /a", "(not (not /a))"),
        ("/a\n == 1", "(/a == 1)"),
    ],
)
def test_precedence_is_data_preppers(text, expected):
    assert shape(parse(text)) == expected


def test_escapes_stay_as_they_are_written():
    assert parse(r'"a\"b\\c\$"') == Literal(r"a\"b\\c\$", 0)


@pytest.mark.parametrize(
    ("text", "offset", "hint"),
    [
        ("", 0, ""),
        ("/a and", 3, "space"),
        ("/a and/b", 3, "space"),
        ("(/a)and (/b)", 4, "space"),
        ("/a AND /b", 3, "lower case"),
        ("/a\tand\t/b", 3, "space"),
        ("not(/a)", 0, "space"),
        ("/a in{1}", 3, "space"),
        ("/a in {}", 7, "at least one"),
        ("/a in {/b}", 7, "literals"),
        ("/a in (1)", 6, ""),
        ("/a in ({200})", 6, ""),
        ("/a = 1", 3, "=="),
        ("/a && /b", 3, "and"),
        ("/a || /b", 3, "or"),
        ("!/a", 0, "not"),
        ("/a == 'x'", 6, "double quotes"),
        ('/a == "x', 6, "ends with"),
        ('/a =~ "\\d"', 6, "after \\"),
        ('/a =~ "1\\.2"', 6, "after \\"),
        ('/a =~ "^x$"', 6, "\\$"),
        ("length(/s)/3 == 1", 10, "spaces"),
        ("/a == 01", 6, "leading zeros"),
        ("/a == 1.", 6, "1.5"),
        ("/a == 9223372036854775808", 6, "64 bits"),
        ("/a == 1.0e999", 6, "64 bits"),
        ("status == 200", 0, "/status"),
        ("/a == 1)", 7, ""),
        ("(/a == 1", 8, ""),
        ("/a == ", 6, ""),
        ("/a typeof number", 10, "integer"),
        ("1 typeof integer", 2, "field"),
        ("${a} == 1", 0, "/name"),
        ("/a[0] == 1", 2, "/list/0"),
        ("/a == 1 /b == 2", 8, ""),
        ("/a + not /b", 5, ""),
        ("f(1", 3, ""),
        ("f(,)", 2, ""),
        ("not " * 60 + "/a", 200, "levels"),
        ("/a" + " or /a" * 500, 2403, "{…}"),
    ],
)
def test_an_error_names_its_place_and_the_way_out(text, offset, hint):
    with pytest.raises(ExpressionSyntaxError) as caught:
        parse(text)
    assert caught.value.offset == offset, caught.value
    assert hint in str(caught.value)


def test_an_error_is_a_settings_error_and_survives_pickling():
    with pytest.raises(SettingsError) as caught:
        compile_condition("/a ==")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.offset) == (ExpressionSyntaxError, str(caught.value), 5)


def test_a_nul_is_refused():
    with pytest.raises(ExpressionSyntaxError, match="unexpected character"):
        parse('/a == "x\0j0\0"')


def test_as_many_operators_as_are_allowed_can_be_computed(holds):
    assert holds(" or ".join(f"/a == {number}" for number in range(200)), {"a": 199})
    assert holds("(" * 40 + "/a == 1" + ")" * 40, {"a": 1})
    assert holds(" + ".join(["/a"] * 300) + " == 300", {"a": 1})
    assert holds("/a in {" + ", ".join(map(str, range(3000))) + "}", {"a": 2999})
