import pytest

from calve.route.names import fault


@pytest.mark.parametrize("name", ["a.b", "a.b.c", "a.events-2026", "Shop.Größe", "a.b c"])
def test_a_name_with_a_namespace_is_validated(name):
    assert fault(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "b",
        ".b",
        "a.",
        "a..b",
        "a. b",
        "a.b/c",
        "a.../b",
        "a.b\n",
        "a.`b`",
        'a."b"',
        "a." + "x" * 300,
        "a.\x9b2J",
        "a.\u202eb",
        "\x1bc.b",
    ],
)
def test_a_name_that_no_catalog_should_see_is_at_fault(name):
    assert fault(name)
