from __future__ import annotations

import random
from pathlib import Path

import pytest

from calve.errors import PositionLostError, SourceError
from calve.sources.http.body import split
from calve.sources.log import record, segment
from calve.sources.log.record import SEGMENT_HEAD_BYTES
from calve.sources.log.segment import MARK_BYTES, Segment


def one(durable: int, rows: int = 2, key: bytes = b"") -> bytes:
    events = split(b"[" + b",".join([b'{"a":1}'] * rows) + b"]")
    return b"".join(record.pack(events, key, b"", durable, 1))


def write(folder: Path, *groups: int) -> tuple[Path, list[int]]:
    """Write groups of so many records; give the file and where each record begins, and the end."""
    data, borders = record.segment_head(0), []
    for count in groups:
        durable = len(data)
        for _ in range(count):
            borders.append(len(data))
            data += one(durable)
    path = folder / segment.name(1)
    path.write_bytes(data)
    return path, [*borders, len(data)]


def load(path: Path, last: bool = True, border: int = 0) -> Segment:
    loaded = segment.load(path, last, border)
    assert loaded is not None
    return loaded


def test_a_sound_segment_is_known_again(tmp_path: Path) -> None:
    path, borders = write(tmp_path, 1, 3)
    for last in (True, False):
        found = load(path, last)
        assert (found.number, found.end, found.rows) == (1, borders[-1], 8)


def test_keys_are_found_with_their_times(tmp_path: Path) -> None:
    path = tmp_path / segment.name(1)
    path.write_bytes(record.segment_head(0) + one(SEGMENT_HEAD_BYTES, key=b"k-1"))
    assert load(path).keys == [(1, b"k-1")]


@pytest.mark.parametrize("lost", [1, 10, 43, 50])
def test_a_torn_tail_is_passed_over(tmp_path: Path, lost: int) -> None:
    path, borders = write(tmp_path, 1, 1)
    path.write_bytes(path.read_bytes()[:-lost])
    found = load(path)
    assert (found.end, found.rows) == (borders[1], 2)


def test_a_group_of_which_only_the_later_records_reached_the_disk_is_passed_over(tmp_path: Path) -> None:
    path, borders = write(tmp_path, 1, 3)
    data = bytearray(path.read_bytes())
    data[borders[1] : borders[2]] = bytes(borders[2] - borders[1])
    path.write_bytes(data)
    assert load(path).end == borders[1]


def test_any_flipped_byte_before_the_last_group_is_damage_and_never_silence(tmp_path: Path) -> None:
    path, borders = write(tmp_path, 2, 1)
    sound = path.read_bytes()
    places = random.Random(1).sample(range(borders[2]), 60)
    for place in places:
        data = bytearray(sound)
        data[place] ^= 0x55
        path.write_bytes(data)
        with pytest.raises(SourceError, match="damaged"):
            segment.load(path, True, 0)


def test_damage_in_a_closed_segment_is_no_torn_tail(tmp_path: Path) -> None:
    path, _ = write(tmp_path, 1, 1)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SourceError, match="damaged"):
        segment.load(path, False, 0)


@pytest.mark.parametrize("size", [0, 1, 31])
def test_a_segment_that_died_at_birth_is_none(tmp_path: Path, size: int) -> None:
    path = tmp_path / segment.name(1)
    path.write_bytes(record.segment_head(0)[:size])
    assert segment.load(path, True, 0) is None


def test_a_position_inside_a_record_is_lost(tmp_path: Path) -> None:
    path, borders = write(tmp_path, 3)
    assert load(path, border=borders[1]).rows_before(borders[1]) == 2
    for wrong in (borders[1] + 1, borders[-1] + 1):
        with pytest.raises(PositionLostError):
            segment.load(path, True, wrong)


def test_an_event_cannot_forge_a_record() -> None:
    with pytest.raises(UnicodeDecodeError):
        record.MAGIC[:1].decode()
    with pytest.raises(UnicodeDecodeError):
        record.MAGIC[3:].decode()


def test_a_record_within_the_bytes_of_a_torn_one_proves_nothing(tmp_path: Path) -> None:
    path, borders = write(tmp_path, 1)
    forged = one(1 << 40)
    torn = record.pack(record.RecordEvents(1, len(forged).to_bytes(4, "little"), forged), b"", b"", borders[-1], 1)
    path.write_bytes(path.read_bytes() + b"".join(torn)[:-1])
    assert load(path).end == borders[-1]
    path.write_bytes(path.read_bytes() + b"\0" + one(borders[-1]))
    assert load(path).rows == 2


def test_cuts_fall_on_marks_and_always_move_on() -> None:
    each = Segment(1, 0)
    for _ in range(20):
        each.grow(each.end + MARK_BYTES // 3, 1)
    offsets = [offset for offset, _ in each.marks]
    assert each.cut(SEGMENT_HEAD_BYTES, 1) == offsets[1]
    assert each.cut(SEGMENT_HEAD_BYTES, MARK_BYTES * 3) == offsets[2]
    assert each.cut(offsets[-1], 1) == each.end
    assert each.cut(SEGMENT_HEAD_BYTES, 1 << 40) == each.end
