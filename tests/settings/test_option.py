from dataclasses import dataclass
from datetime import datetime

import pytest

from calve.settings import option
from calve.settings.option import declared, summary
from calve.settings.shape import shape_of


@dataclass(frozen=True)
class Mixed:
    """Says what it is.

    And more.
    """

    first: int = option(1, "With a default.")
    second: str = option(doc="Without one.")


@dataclass(frozen=True)
class Silent:
    first: int = option(1)


def test_options_are_declared_in_any_order_of_default_and_required() -> None:
    assert [(one.name, one.required) for one in declared(Mixed).values()] == [("first", False), ("second", True)]


def test_the_first_line_of_the_docstring_describes_a_settings_class() -> None:
    assert summary(Mixed) == "Says what it is."
    assert summary(Silent) == ""


@pytest.mark.parametrize("annotation", [datetime, bytes, dict[int, str], set[str]])
def test_a_type_that_yaml_cannot_give_is_refused_at_once(annotation: object) -> None:
    with pytest.raises(TypeError, match="an option cannot have the type"):
        shape_of(annotation)


def test_an_unknown_rule_is_refused_at_once() -> None:
    with pytest.raises(TypeError):
        option(1, "A number.", minimun=0)  # type: ignore[call-overload]
