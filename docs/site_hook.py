"""Adds files from outside `docs/` to the site, and corrects the links to and from them."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "overview",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
}
"""Pages at the root of the repository, and their names in the site."""
FOLDERS = ("deploy",)
UNSEARCHED = ("decisions/", "changelog.html", "kill-matrix.html")
"""Pages that repeat the words of others; a search should find those first."""


def on_config(config: Any) -> Any:
    """Add the decisions to the last part of the navigation, their index first."""
    pages = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    [extend] = config.nav[-1].values()
    extend.append({"Decisions": ["decisions/index.md", *(f"decisions/{name}" for name in pages)]})
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages at the root of the repository, and the files that users copy."""
    for name, page in PAGES.items():
        file = File(name, str(ROOT), config.site_dir, config.use_directory_urls)
        file.dest_uri = f"{page}.html"
        files.append(file)
    copied = (path.relative_to(ROOT).as_posix() for name in FOLDERS for path in sorted((ROOT / name).iterdir()))
    for name in copied:
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Make links of the repository links of the site, in which `docs/` is the root."""
    path = page.file.src_uri
    here = posixpath.dirname(path if path in PAGES else f"docs/{path}")

    def moved(match: re.Match[str]) -> str:
        target, _, anchor = match[1].partition("#")
        if "://" in target or not target:
            return match[0]
        linked = posixpath.normpath(posixpath.join(here, target)).removeprefix("docs/")
        if (ROOT / "docs" / linked).is_dir():
            linked += "/index.md"
        back = posixpath.relpath(linked, posixpath.dirname(path) or ".")
        return f"]({back}{'#' * bool(anchor)}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", moved, markdown)


def on_post_build(*, config: Any) -> None:
    """Leave pages out of the search."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    entries = json.loads(index.read_text())
    entries["docs"] = [entry for entry in entries["docs"] if not entry["location"].startswith(UNSEARCHED)]
    index.write_text(json.dumps(entries))
