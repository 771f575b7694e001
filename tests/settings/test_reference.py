import pytest

from calve.settings import Plugins, reference


def test_the_reference_has_a_section_for_the_pipeline_and_each_plugin(plugins: Plugins) -> None:
    titles = [line for line in reference(plugins).split("\n") if line.startswith("## ")]
    assert titles == [
        "## A pipeline",
        "## Every sink",
        "## Source `every`",
        "## Source `strict`",
        "## Processor `strict`",
        "## Sink `every`",
        "## Sink `strict`",
        "## Accepted for compatibility",
        "## Refused",
    ]


@pytest.mark.parametrize(
    "row",
    [
        "| `sink` | a list | **required** | The destinations of the events: sinks by name. |",
        "| `port` | a whole number | `2021` | A port. At least 0, at most 65535. |",
        "| `mode` | one of null, dlq | `null` | A choice. |",
        "| `wait` | a duration | `10s` | A time. At least 2ms. |",
        "| `timeout` | a duration | `10s` | A time in milliseconds. A plain number is in milliseconds. |",
        "| `limit` | a size | `64mb` | A size. At least 1kb. |",
        "| `folder` | a path | none | A folder. |",
        "| `topics` | a list | none | Topics. Also called `themes`. |",
        "| `topics[].name` | text | **required** | Its name. |",
        "| `codec.csv.delimiter` | text | `,` | What separates. |",
        "| `path` | text or a list of text | `a` | One path or several. |",
        "| `exclude_keys` | a list of text | none | These top-level fields of an event are not written. Cannot be combined with `include_keys`. |",
    ],
)
def test_an_option_is_one_row(plugins: Plugins, row: str) -> None:
    assert row in reference(plugins).split("\n")


def test_an_option_without_effect_is_in_the_last_table_alone(plugins: Plugins) -> None:
    text = reference(plugins)
    assert [line for line in text.split("\n") if "`workers`" in line or "`buffer`" in line] == [
        "| a pipeline | `workers`, `delay` |  |",
        "| a pipeline | `buffer` | Calve needs no buffer. |",
    ]
    assert "Accepted for compatibility with" not in text


def test_a_bar_in_a_text_does_not_end_a_cell(plugins: Plugins) -> None:
    options = reference(plugins).partition("## A pipeline")[2].partition("## Accepted")[0]
    for line in options.split("\n"):
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 5
