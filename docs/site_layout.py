"""Hook of mkdocs: gives the site the layout of the repository.

mkdocs takes pages from one folder only, and calls a link that leads out of it broken. Here README.md, SPEC.md and
others stand beside what they describe. So the hook names every page by its path in the repository, and adds each file
that a page links to.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "protocol/fanin_wire/SPEC.md", "tests/README.md")
OWN = Path(__file__).relative_to(ROOT).as_posix()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replaces the pages of docs/ by the same pages under their paths in the repository, and adds all others."""
    ours = {f"docs/{file.src_uri}" for file in files if file.src_dir == config.docs_dir} - {OWN}
    ours.update(PAGES)
    linked = {target for page in ours if page.endswith(".md") for target in linked_files(page)}
    add_to_navigation(config, sorted(page for page in ours if page.endswith(".md")))
    theirs = [file for file in files if file.src_dir != config.docs_dir]
    return Files([*theirs, *(file_of(path, config) for path in sorted(ours | linked))])


def add_to_navigation(config: MkDocsConfig, pages: list[str]) -> None:
    """Puts pages that mkdocs.yml does not name at the end, by folder: decisions and others that become many."""
    named = set(re.findall(r"'([^']+\.md)'", str(config.nav)))
    others: dict[str, list[str]] = {}
    for page in pages:
        if page not in named:
            others.setdefault(posixpath.dirname(page).rpartition("/")[2].capitalize(), []).append(page)
    config.nav = [*(config.nav or []), *({folder: found} for folder, found in others.items())]


def file_of(path: str, config: MkDocsConfig) -> File:
    """The file at a path relative to the repository, which it keeps on the site."""
    return File(path, src_dir=str(ROOT), dest_dir=config.site_dir, use_directory_urls=config.use_directory_urls)


def linked_files(page: str) -> set[str]:
    """Paths of the files of the repository to which a page links."""
    targets = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text())
    paths = {posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) for target in targets}
    return {path for path in paths if (ROOT / path).is_file()}
