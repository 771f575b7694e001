"""One declaration per option: `option(…)` on a frozen dataclass gives parsing, errors, JSON Schema and reference."""

from __future__ import annotations

import copy
import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NewType, TypedDict, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Declared", "Option", "Rules", "Size", "declared", "ignored_keys", "option", "refused_keys", "summary"]

T = TypeVar("T")
Size = NewType("Size", int)
"""A number of bytes, written `64mb` in YAML."""


class Rules(TypedDict, total=False):
    """Rules of an option, besides its default and its meaning; see `Option`."""

    minimum: float | timedelta
    maximum: float | timedelta
    secret: bool
    aliases: tuple[str, ...]
    unit: Literal["ms", "s"]
    check: Callable[[Any], object]


@dataclass(frozen=True)
class Option:
    """The properties of one option, besides its name, type and default.

    Attributes:
        doc: Its meaning, for the schema, the reference and the editor.
        minimum: The smallest value; for a list, a map or a text the smallest length.
        maximum: The largest value or length.
        secret: The value is never shown, in a repr or in an error.
        aliases: Other names of the key.
        unit: The unit of a plain number as a duration; without it a plain number is an error.
        check: Checks a value alone; its `SettingsError` is reported at the location of the value, the `doubts` of
            its result as warnings.
    """

    doc: str = ""
    minimum: float | timedelta | None = None
    maximum: float | timedelta | None = None
    secret: bool = False
    aliases: tuple[str, ...] = ()
    unit: Literal["ms", "s"] | None = None
    check: Callable[[Any], object] | None = None


@dataclass(frozen=True)
class Declared:
    """One option of a settings class: its key, its type, its default (`MISSING`: required), and its field in the class.

    A field that cannot have the name of its key, because this is a word of Python, has an underscore behind it.
    """

    name: str
    type: Any
    default: Any
    option: Option
    attribute: str = ""

    @property
    def required(self) -> bool:
        """Whether the key must be given."""
        return self.default is MISSING

    @property
    def names(self) -> tuple[str, ...]:
        """The key and its aliases."""
        return (self.name, *self.option.aliases)


@overload
def option(*, doc: str = ..., **rules: Unpack[Rules]) -> Any: ...
@overload
def option(default: T, doc: str = ..., **rules: Unpack[Rules]) -> T: ...
def option(default: Any = MISSING, doc: str = "", **rules: Unpack[Rules]) -> Any:
    """Declare one option of a settings dataclass; without a default it is required.

    Args:
        default: The value when the key is absent; a list or a map is copied for each instance.
        doc: Its meaning in one sentence.
        **rules: See `Option`.
    """
    declared = Option(doc=doc, **rules)
    keywords: dict[str, Any] = {"metadata": {"option": declared}, "repr": not declared.secret, "kw_only": True}
    if isinstance(default, list | dict | set):
        keywords["default_factory"] = functools.partial(copy.deepcopy, default)
    elif default is not MISSING:
        keywords["default"] = default
    return dataclasses.field(**keywords)


@functools.cache
def declared(settings: type) -> Mapping[str, Declared]:
    """Return the options of a settings class by key, in the order of their declaration."""
    hints = typing.get_type_hints(settings)
    return {
        name: Declared(name, hints[field.name], _default(field), field.metadata.get("option", Option()), field.name)
        for field in dataclasses.fields(settings)
        if field.init
        for name in [field.name.removesuffix("_")]
    }


def ignored_keys(settings: type) -> Mapping[str, str]:
    """Return the keys of Data Prepper that a settings class ignores (`IGNORED_KEYS`), each with the reason."""
    return _of_classes(settings, "IGNORED_KEYS")


def refused_keys(settings: type) -> Mapping[str, str]:
    """Return the keys of Data Prepper that a settings class refuses (`REFUSED_KEYS`), each with the way out."""
    return _of_classes(settings, "REFUSED_KEYS")


def _of_classes(settings: type, attribute: str) -> Mapping[str, str]:
    """Return the entries of a class and of those that it extends."""
    return {key: text for kind in reversed(settings.__mro__) for key, text in vars(kind).get(attribute, {}).items()}


def summary(settings: type) -> str:
    """Return the first line of the docstring of a settings class."""
    text = settings.__doc__ or ""
    return "" if text.startswith(f"{settings.__name__}(") else text.strip().split("\n")[0]


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
