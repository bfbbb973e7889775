"""The guest's file system: an archive in the format newc of cpio, which the kernel unpacks into memory.

Archives can follow each other, so that files that change are packed apart from the others.
"""

import os
import re
import stat
import struct
from pathlib import Path

BLOCK = 4
SECTION = "<IIQQQQIIQQ"  # name, type, flags, address, offset, size, ...


class Archive:
    """An archive under construction. `finish` gives its bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0
        self._folders: set[str] = set()

    def add(self, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        """Add an entry. mode: kind and permissions; device: major and minor number."""
        self._count += 1
        path = name.encode() + b"\0"
        numbers = (self._count, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
        head = b"070701" + b"".join(b"%08x" % number for number in numbers)
        self._parts += [head + path, bytes(-(len(head) + len(path)) % BLOCK), data, bytes(-len(data) % BLOCK)]

    def folder(self, name: str) -> None:
        """Add a folder and its parents."""
        if name and name not in self._folders:
            self.folder(name.rpartition("/")[0])
            self._folders.add(name)
            self.add(name, stat.S_IFDIR | 0o755)

    def file(self, name: str, data: bytes, permissions: int = 0o644) -> None:
        """Add a file with its folders."""
        self.folder(name.rpartition("/")[0])
        self.add(name, stat.S_IFREG | permissions, data)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link with its folders."""
        self.folder(name.rpartition("/")[0])
        self.add(name, stat.S_IFLNK | 0o777, target.encode())

    def tree(self, root: Path, leave_out: str) -> None:
        """Add a folder except for files that match a regular expression."""
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if re.search(leave_out, name):
                continue
            if path.is_symlink():
                self.link(name, os.readlink(path))
            elif path.is_file():
                self.file(name, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)

    def finish(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return b"".join(self._parts)


def modules_with_needed(root: Path, wanted: list[str]) -> dict[str, bytes]:
    """Modules of the kernel whose package is unpacked in `root`, each after its dependencies: name and content.

    A missing module is part of the kernel itself.
    """
    files = {path.stem.replace("-", "_"): path for path in root.glob("**/modules/*/kernel/**/*.ko")}
    found: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in found or name not in files:
            return
        content = files[name].read_bytes()
        for needed in needs_of(content):
            add(needed)
        found[name] = content

    for name in wanted:
        add(name)
    return found


def needs_of(module: bytes) -> list[str]:
    """Dependencies of a module, from its section `.modinfo` (ELF, 64 bits)."""
    (offset,) = struct.unpack_from("<Q", module, 0x28)
    size, count, names = struct.unpack_from("<HHH", module, 0x3A)
    sections = [struct.unpack_from(SECTION, module, offset + size * number) for number in range(count)]
    for section in sections:
        start = sections[names][4] + section[0]
        if module[start : module.index(b"\0", start)] == b".modinfo":
            rows = module[section[4] : section[4] + section[5]].split(b"\0")
            values = [row.partition(b"=")[2].decode() for row in rows if row.startswith((b"depends=", b"softdep=pre:"))]
            return [name.replace("-", "_") for value in values for name in re.split(r"[,\s]+", value) if name]
    return []
