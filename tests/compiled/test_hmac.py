"""The core's HMAC is that of Python, for any key and any texts."""

from __future__ import annotations

import hmac
from base64 import b64encode

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.compiled.hmac import hmac_texts
from kit.compiled_core import needs_core
from kit.examples import examples

pytestmark = needs_core
KEYS = st.binary(min_size=1, max_size=140)
TEXTS = st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=20), max_size=40)


def expected(key: bytes, text: str | bytes | None, is_hex: bool = True) -> str | None:
    if text is None:
        return None
    digest = hmac.digest(key, text.encode() if isinstance(text, str) else text, "sha256")
    return digest.hex() if is_hex else b64encode(digest).decode()


@settings(max_examples=examples(100), deadline=None)
@given(KEYS, TEXTS, st.booleans(), st.integers(0, 3), st.sampled_from([pa.string(), pa.large_string(), pa.binary()]))
def test_texts_have_the_hmac_of_python(
    key: bytes, texts: list[str | None], is_hex: bool, start: int, kind: pa.DataType
) -> None:
    hashed = hmac_texts(key, pa.array(texts, pa.string()).cast(kind)[start:], is_hex)
    assert hashed is not None
    hashed.validate(full=True)
    assert hashed.to_pylist() == [expected(key, text, is_hex) for text in texts[start:]]


@pytest.mark.parametrize("key_bytes", [16, 63, 64, 65, 200])
def test_texts_of_all_lengths_around_those_of_blocks_have_it(key_bytes: int) -> None:
    key, texts = b"k" * key_bytes, [bytes([65 + length % 26]) * length for length in range(200)]
    hashed = hmac_texts(key, pa.array(texts, pa.binary()), True)
    assert hashed is not None
    assert hashed.to_pylist() == [expected(key, text) for text in texts]


def test_what_is_no_utf8_has_none() -> None:
    hashed = hmac_texts(b"k", pa.array([b"\xff", b"a", None, b"\xed\xa0\x80", b"b"]), True)
    assert hashed is not None
    assert hashed.to_pylist() == [None, expected(b"k", b"a"), None, None, expected(b"k", b"b")]
