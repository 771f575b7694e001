"""The documentation is one site: links lead somewhere, every page is in the navigation, and each question has its page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUESTIONS = {
    "guarantees limits": "guarantees",
    "S3 REST catalog": "lakehouse",
    "schema evolution": "inference",
    "bad events": "dead-letters",
    "reprocess": "dead-letters",
    "change key": "changing",
    "several pipelines": "changing",
    "upgrade": "upgrading",
    "memory sizing": "sizing",
    "types": "types",
    "time zones": "time-zones",
    "latency": "tuning",
    "small files": "tuning",
    "monitoring": "monitoring",
    "comparison": "comparison",
}
"""What a user asks, in the words of a search, and the page that answers."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "default", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_links_are_valid_and_every_page_is_in_the_navigation(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (site / page).exists()] == []
    navigation = (site / "index.html").read_text()
    assert [page.as_posix() for page in pages if f'href="{page.as_posix()}"' not in navigation] in ([], ["index.html"])


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(
        r"""(?:<(?:script|img|iframe)[^>]*\ssrc=|<link[^>]*\shref=|url\(|@import )["']?(?:https?:)?//[^"')\s]+"""
    )
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > 40
    assert {path.name: loaded.findall(path.read_text()) for path in files if loaded.search(path.read_text())} == {}


@pytest.mark.parametrize(("words", "page"), QUESTIONS.items())
def test_a_search_for_a_question_finds_its_page(site: Path, words: str, page: str) -> None:
    """The search ranks titles highest, so all words are in the title of the page or of one of its sections."""
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    titles = {entry["title"].lower() for entry in entries if entry["location"].partition("#")[0] == f"{page}.html"}
    assert any(all(word.lower() in title for word in words.split()) for title in titles), titles


@pytest.mark.parametrize("page", sorted(set(QUESTIONS.values())))
def test_the_first_page_links_to_the_answer_of_each_question(page: str) -> None:
    assert f"]({page}.md" in (ROOT / "docs" / "index.md").read_text()
