"""The site shows the manuals of docs/index.md, and nothing that the pages say to the tests."""

import html
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, blocks_of

COLUMNS = 76  # of a drawing: so many fit on a phone, by docs/site.css
INDEX = ROOT / "docs/index.md"
Site = Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The pages as `make docs` builds them."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed (make docs)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    settings = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert ended.returncode == 0, ended.stdout
    return folder


def listed() -> list[str]:
    """Headings and pages of the index, in their order."""
    found = re.findall(r"^## (.+)|^\| \[([^]]+)\]\(", INDEX.read_text(), re.M)
    return [heading or title for heading, title in found]


def navigation_of(page: Path) -> list[str]:
    """What the navigation of a page of the site shows, in its order."""
    inside = page.read_text().partition('<nav class="md-nav md-nav--primary')[2]
    parts = re.findall(r'<span class="md-ellipsis">(.*?)</span>', inside.partition('<div class="md-content"')[0], re.S)
    return [html.unescape(re.sub(r"<[^>]+>", "", part)).strip() for part in parts]


def test_navigation_is_the_index(site: Site) -> None:
    shown = navigation_of(site / "docs/errors.html")
    assert listed()[0] == "Use"
    wanted = set(listed())
    # The page itself stands there twice: for small screens as the title of its own contents
    once = [entry for entry, before in zip(shown, ["", *shown], strict=False) if entry != before]
    assert [entry for entry in once if entry in wanted] == listed()


def test_notes_to_the_tests_are_not_shown(site: Site) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    assert any(block.reason for page in PAGES for block in blocks_of(page))
    titles = {page.name: re.findall(r'class="filename">([^<]*)', page.read_text()) for page in pages}
    assert {page: found for page, found in titles.items() if any("not run" in title for title in found)} == {}


def test_pictures_are_there(site: Site) -> None:
    found = [
        (page, picture)
        for page in site.rglob("*.html")
        for picture in re.findall(r'<img [^>]*src="([^":]+)"', page.read_text())
    ]
    assert found
    for page, picture in found:
        assert (page.parent / picture).is_file(), f"{page.name}: {picture}"


def test_drawings_fit_the_page(site: Site) -> None:
    """Other blocks wrap."""
    wide, count = [], 0
    for page in sorted(site.rglob("*.html")):
        drawings = re.findall(r'<div class="drawing highlight">(.*?)</div>', page.read_text(), re.S)
        count += len(drawings)
        lines = [html.unescape(re.sub(r"<[^>]+>", "", line)) for block in drawings for line in block.splitlines()]
        wide += [f"{page.name}: {line}" for line in lines if len(line) > COLUMNS]
    assert count > 2
    assert wide == []
