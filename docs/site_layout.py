"""Hook of mkdocs: gives the site the layout of the repository, and the navigation of docs/index.md.

mkdocs takes pages from one folder only, and calls a link that leads out of it broken. Here README.md, SPEC.md and
others stand beside what they describe. So the hook names every page by its path in the repository, and adds each file
that a page links to.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
START, INDEX = "README.md", "docs/index.md"
PAGES = (START, "CHANGELOG.md", "CONTRIBUTING.md", "protocol/fanin_wire/SPEC.md", "tests/README.md")
OWN = Path(__file__).relative_to(ROOT).as_posix()
REASON = re.compile(r'^( *```\w+) title="not run: [^"\n]*"$', re.M)  # why the tests do not run a block
TEXT = re.compile(r"^```text\n(.*?)^```$", re.M | re.S)
DRAWN = re.compile(r"[|+]--|--[>+]|[━─]")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replaces the pages of docs/ by the same pages under their paths in the repository, and adds all others."""
    ours = {f"docs/{file.src_uri}" for file in files if file.src_dir == config.docs_dir} - {OWN}
    ours.update(PAGES)
    linked = {target for page in ours if page.endswith(".md") for target in linked_files(page)}
    config.nav = navigation()
    theirs = [file for file in files if file.src_dir != config.docs_dir]
    return Files([*theirs, *(file_of(path, config) for path in sorted(ours | linked))])


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Takes away the notes of the pages to the tests, and marks drawings, whose lines may not wrap."""
    return TEXT.sub(as_drawing, REASON.sub(r"\1", markdown))


def as_drawing(block: re.Match[str]) -> str:
    """A block of text, with the class `drawing` if it is one."""
    return f"``` {{.text .drawing}}\n{block[1]}```" if DRAWN.search(block[1]) else block[0]


def navigation() -> list[dict[str, Any]]:
    """The headings of docs/index.md, each with the pages that the first column of its table links to."""
    manuals: list[dict[str, Any]] = [{"Start": START}, {"All pages": INDEX}]
    for section in (ROOT / INDEX).read_text().split("\n## ")[1:]:
        rows = re.findall(r"^\| \[([^]]+)\]\(([^)]+)\)", section, re.M)
        pages = [{title: posixpath.normpath(posixpath.join("docs", path))} for title, path in rows]
        manuals.append({section.partition("\n")[0]: pages})
    return manuals


def file_of(path: str, config: MkDocsConfig) -> File:
    """The file at a path relative to the repository, which it keeps on the site."""
    return File(path, src_dir=str(ROOT), dest_dir=config.site_dir, use_directory_urls=config.use_directory_urls)


def linked_files(page: str) -> set[str]:
    """Paths of the files of the repository to which a page links."""
    targets = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text())
    paths = {posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) for target in targets}
    return {path for path in paths if (ROOT / path).is_file()}
