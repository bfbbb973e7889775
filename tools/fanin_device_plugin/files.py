"""Files that may be read while they are rewritten."""

from pathlib import Path


def write_file(path: Path, text: str) -> None:
    """Write a file for all readers, whole or not at all: a container may have the old one mounted."""
    if path.exists() and path.read_text() == text:
        return
    part = path.with_suffix(".part")
    part.write_text(text)
    part.chmod(0o644)
    part.rename(path)
