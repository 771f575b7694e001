import gzip
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import BufferReader

from calve.sources.file import stream
from calve.sources.file.stream import Unpacked, compression_of, strip_suffix

PACK = {"gzip": gzip.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("compression", PACK)
@given(texts=st.lists(st.binary(max_size=100), min_size=1))
def test_all_members_of_a_packed_file_are_read(compression: str, texts: list[bytes]) -> None:
    packed = b"".join(PACK[compression](text) for text in texts)
    unpacked = Unpacked(BufferReader(packed), compression)
    assert b"".join(unpacked) == b"".join(texts)
    assert not unpacked.broken


@pytest.mark.parametrize("compression", PACK)
@given(data=st.data())
def test_a_cut_file_gives_what_it_has_and_says_so(compression: str, data: Any) -> None:
    text = b'{"a": 1}\n' * 40
    packed = PACK[compression](text)
    unpacked = Unpacked(BufferReader(packed[: data.draw(st.integers(0, len(packed) - 1))]), compression)
    assert text.startswith(b"".join(unpacked))
    assert unpacked.broken == f"ends in the middle of its {compression} data (cut off?)"


@pytest.mark.parametrize("compression", PACK)
def test_what_is_not_packed_says_so(compression: str) -> None:
    unpacked = Unpacked(BufferReader(b"plain text"), compression)
    assert list(unpacked) == []
    assert "is not a valid" in unpacked.broken


def test_blocks_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(stream, "_PACKED_BYTES", 10)
    sizes = [len(block) for block in Unpacked(BufferReader(gzip.compress(bytes(range(256)) * 50)), "gzip")]
    assert sum(sizes) == 256 * 50
    assert max(sizes) < 20_000


def test_zeros_may_pad_a_gzip_file() -> None:
    unpacked = Unpacked(BufferReader(gzip.compress(b"x") + bytes(512)), "gzip")
    assert (b"".join(unpacked), unpacked.broken) == (b"x", "")


@pytest.mark.parametrize(
    ("name", "setting", "magic", "expected"),
    [
        ("a.json.gz", "automatic", b"", "gzip"),
        ("a.json.ZST", "automatic", b"", "zstd"),
        ("a.json", "automatic", b"\x1f\x8b\x08\x00", "gzip"),
        ("a.json", "automatic", b"\x28\xb5\x2f\xfd", "zstd"),
        ("a.json", "automatic", b"{}", "none"),
        ("a.json.gz", "none", b"", "none"),
        ("a.json", "zstd", b"", "zstd"),
    ],
)
def test_the_name_tells_the_compression_or_else_the_first_bytes(
    name: str, setting: str, magic: bytes, expected: str
) -> None:
    assert compression_of(name, setting, lambda: magic) == expected


def test_the_ending_of_a_compression_hides_no_codec() -> None:
    assert strip_suffix("a.json.gz") == "a.json"
    assert strip_suffix("a.zst.csv") == "a.zst.csv"
