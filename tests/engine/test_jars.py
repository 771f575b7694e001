"""Jars are fetched once; afterwards no network and no Java is needed for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.engine import jars
from calve.errors import EngineError

NOWHERE = """<ivysettings><settings defaultResolver="none"/>
<resolvers><filesystem name="none"><artifact pattern="/nonexistent/[artifact].[ext]"/></filesystem></resolvers>
</ivysettings>"""


def test_a_cached_jar_needs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    file = tmp_path / "jars" / "com.example_thing-1.0.jar"
    file.write_bytes(b"jar")
    monkeypatch.setattr(jars, "_run_ivy", lambda *_: pytest.fail("nothing is to be downloaded"))
    assert jars.resolve(["com.example:thing:1.0"], tmp_path) == [file]


def test_s3_needs_one_jar_more() -> None:
    assert set(jars.needed(needs_s3=True)) - set(jars.needed()) == {jars.AWS}


@pytest.mark.spark
def test_a_jar_that_cannot_be_fetched_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(NOWHERE)
    monkeypatch.setenv(jars.IVY_SETTINGS, str(settings))
    with pytest.raises(EngineError, match=r"com\.example:thing:1\.0") as failed:
        jars.resolve(["com.example:thing:1.0"], tmp_path)
    assert "calve.engine.jars" in failed.value.hint
    assert "\n" not in str(failed.value)
    assert list((tmp_path / "jars").iterdir()) == []
    assert "Downloading thing" in capsys.readouterr().err
