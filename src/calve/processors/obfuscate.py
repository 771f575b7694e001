"""The processor that hides sensitive parts of strings."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from calve.errors import SettingsError
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import Event, FieldKey, text_of
from calve.processors.patterns import pattern, replace_all, split_matches
from calve.processors.step import ProcessorError, ProcessorStep, TextsChange
from calve.settings.option import option

__all__ = ["Mask", "Obfuscate", "ObfuscateAction", "OneWayHash"]

_PREDEFINED = {
    "%{EMAIL_ADDRESS}": r"[A-Za-z0-9+_.-]+@(?:[\w-]+\.)+[\w-]{2,4}",
    "%{IP_ADDRESS_V4}": r"\b(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\b",
    "%{BASE_NUMBER}": r"[0-9]*\.?[0-9]+",
    "%{CREDIT_CARD_NUMBER}": r"\d(?:[ -]*\d){12,15}",
    "%{US_PHONE_NUMBER}": r"\+?\d?[\s-]?(?:\(\d{3}\)|\d{3})[\s-]?\d{3}[\s-]?\d{4}",
    "%{US_SSN_NUMBER}": r"[0-9]{3}-[0-9]{2}-[0-9]{4}",
}


@dataclass(frozen=True)
class Mask:
    """Replaces text by some equal characters."""

    mask_character: Literal["!", "#", "$", "%", "&", "*", "@"] = option("*", "The character.")
    mask_character_length: int = option(3, "How many of them.", minimum=1, maximum=10)


@dataclass(frozen=True)
class OneWayHash:
    """Replaces text by its hash with a salt, as Base64: equal texts have equal hashes."""

    salt: str = option(
        doc="What is hashed before the text; keep it secret, and the same for hashes that are compared. Data Prepper "
        "makes one at each start if it is missing; then equal texts would have other hashes after a restart.",
        minimum=16,
        maximum=64,
        secret=True,
    )
    salt_key: str | None = option(None, "The key of the salt in the event; without a value there, `salt` is taken.")
    format: Literal["SHA-512"] = option("SHA-512", "The hash function.")

    def hashed(self, text: str, salt: str) -> str:
        """Return the hash of a text with a salt; without one (`""`) with that of the settings."""
        return b64encode(hashlib.sha512(((salt or self.salt) + text).encode()).digest()).decode()


_NO_HASH: OneWayHash | None = None


@dataclass(frozen=True)
class ObfuscateAction:
    """What replaces the text: a mask, or its hash."""

    mask: Mask = option(Mask(), "Replace it by a mask.")
    hash: OneWayHash | None = option(_NO_HASH, "Replace it by its hash, instead.")


@dataclass(frozen=True)
class Obfuscate:
    """Hides a string, or the parts of it that match patterns."""

    source: str = option(doc="The key of the string.", check=FieldKey.checked)
    target: str | None = option(None, "The key of the result; without it the result replaces the string.")
    patterns: list[str] = option(
        [],
        "Regular expressions of the parts, or predefined ones: `%{EMAIL_ADDRESS}`, `%{IP_ADDRESS_V4}`, "
        "`%{BASE_NUMBER}`, `%{CREDIT_CARD_NUMBER}`, `%{US_PHONE_NUMBER}`, `%{US_SSN_NUMBER}`. Without patterns the "
        "whole string is hidden.",
    )
    single_word_only: bool = option(False, "A pattern must match whole words.")
    action: ObfuscateAction = option(ObfuscateAction(), "What replaces the text.")
    obfuscate_when: str | None = option(
        None, "A condition; only events for which it is true are changed.", check=condition
    )
    tags_on_match_failure: list[str] = option([], "Tags of events whose string matches no pattern.")

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_match_failure

    def check(self) -> Iterator[tuple[str, str]]:
        """Require valid patterns."""
        for number, text in enumerate(self.patterns):
            if text.startswith("%{") and text not in _PREDEFINED:
                yield f"patterns[{number}]", f"is not one of {', '.join(_PREDEFINED)}"
                continue
            try:
                pattern(_PREDEFINED.get(text, text))
            except SettingsError as error:
                yield f"patterns[{number}]", str(error)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        regexes = [_PREDEFINED.get(text, text) for text in self.patterns]
        if self.single_word_only:
            regexes = [rf"\b(?:{regex})\b" for regex in regexes]
        target = FieldKey.checked(self.target) if self.target else None
        when = compiler.condition(self.obfuscate_when)
        effect = (
            ("text", [FieldKey(self.source)]) if target is None else ("format", target, True, [FieldKey(self.source)])
        )
        tags = tuple(self.tags_on_match_failure)
        source, compute = FieldKey(self.source), self._hidden if self.action.hash is None else self._split
        return [TextsChange(source, partial(compute, regexes), partial(self._put, target), when, tags, effect)]

    def _split(self, regexes: list[str], texts: list[str]) -> list[list[str]]:
        """Return the parts of each text; each second one is to be hashed."""
        if not regexes:
            return [["", text, ""] for text in texts]
        return split_matches(texts, "|".join(f"(?:{regex})" for regex in regexes))

    def _hidden(self, regexes: list[str], texts: list[str]) -> list[str]:
        mask = self.action.mask.mask_character * self.action.mask.mask_character_length
        if not regexes:
            return [mask] * len(texts)
        for regex in regexes:
            texts = replace_all(texts, regex, mask)
        return texts

    def _put(
        self, target: FieldKey | None, source: FieldKey, event: Event, before: str, after: str | list[str]
    ) -> bool:
        if isinstance(after, list):
            after = self._hashed(after, event)
        if not (target or source).put(event, after):
            raise ProcessorError("a value on the way to this key is not an object", (target or source).dotted)
        if before == after and self.tags_on_match_failure:
            raise ProcessorError("no pattern matches", source.dotted)
        return target is not None or before != after

    def _hashed(self, parts: list[str], event: Event) -> str:
        settings = self.action.hash
        assert settings is not None
        salt = text_of(FieldKey(settings.salt_key).get(event)) if settings.salt_key else ""
        return "".join([settings.hashed(part, salt) if number % 2 else part for number, part in enumerate(parts)])
