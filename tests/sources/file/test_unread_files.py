from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calve.sources.file.codec_settings import CodecSettings, NdjsonCodec
from sources.file.folders import ALL, events, names, opened, write


@pytest.mark.parametrize("path", ["*", "", "_*.ndjson", "**/*"])
def test_of_hidden_files_that_match_one_is_told_once(
    tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("_x.ndjson", "_z.ndjson", "_SUCCESS", "_manifests/1.json"):
        write(tmp_path, name)
    files = opened(tmp_path, str(tmp_path / "in" / path))
    files.start(None, once=True)
    assert files.nothing_found == f"no file matches {tmp_path / 'in' / path}, but hidden ones"
    files.start(None, once=True)
    (said,) = [record.message for record in caplog.records if "is hidden" in record.message]
    assert "_x.ndjson is not read" in said or "_z.ndjson is not read" in said
    named = opened(tmp_path, str(tmp_path / "in" / "_x.ndjson"))
    named.start(None, once=True)
    assert names(named.plan(None, ALL)) == ["_x.ndjson"]


@pytest.mark.parametrize("options", [{}, {"codec": CodecSettings(ndjson=NdjsonCodec())}])
def test_a_file_that_no_codec_helps_to_read_is_told_so(
    tmp_path: Path, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a.ndjson.bz2")
    files = opened(tmp_path, **options)
    files.start(None, once=True)
    assert files.plan(None, ALL) is None
    assert "it is packed with bzip2, which is not read; use gzip or zstd" in caplog.text
    plain = opened(tmp_path, compression="none", codec=CodecSettings(ndjson=NdjsonCodec()))
    plain.start(None, once=True)
    assert events(plain, plain.plan(None, ALL)) == [b'{"a":1}']
