"""The state of fabrics on disk: a folder for each fabric, readable by its owner only.

| file | contents |
| --- | --- |
| fabric.toml | the description; written first, so that `down` can clean up after a later crash |
| uplinks | the uplinks of each NIC (`tree.render_uplinks`) |
| processes.json | identity of every device's process |
| leases.json | identities of the commands that lease the fabric; missing if the fabric is permanent |
| DEVICE.sock, DEVICE.log | control socket and output of a device |
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from fanin_tools.errors import ToolError
from fanin_tools.fabric import description_file, tree
from fanin_tools.fabric.checks import check_name
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.processes import ProcessIdentity

SOCKET_PATH_LIMIT = 107  # bytes of sockaddr_un.sun_path without the final zero, unix(7)


def root() -> Path:
    """$XDG_RUNTIME_DIR/fanin, or /tmp/fanin-UID, created with mode 0700. Raises ToolError PERMISSION_DENIED if it can
    not be created, or another user may have created it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(runtime) / "fanin" if runtime else Path(f"/tmp/fanin-{os.getuid()}")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        cause = f"{path}: {error.strerror}"
        raise ToolError("PERMISSION_DENIED", cause, "set XDG_RUNTIME_DIR to a folder of yours") from error
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ToolError(
            "PERMISSION_DENIED", f"{path} is not your own folder of mode 0700", "remove it, or set XDG_RUNTIME_DIR"
        )
    return path


def tag() -> list[str]:
    """For names that the whole machine shares; none for the folder of the login session."""
    path = root().resolve()
    if path == Path(f"/run/user/{os.getuid()}/fanin"):
        return []
    return [hashlib.sha256(os.fsencode(path)).hexdigest()[:8]]


def names() -> list[str]:
    """Of all fabrics with a folder, also after a crash."""
    return sorted(path.name for path in root().iterdir() if path.is_dir())


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold the lock under which this user's fabrics change. It is on the root folder, so no file is left."""
    descriptor = os.open(root(), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError, as of a full disk, into ToolError BAD_PATH. path: what is being written."""
    try:
        yield
    except OSError as error:
        cause = f"{path} can not be written: {error.strerror}"
        raise ToolError("BAD_PATH", cause, "make room there, or set XDG_RUNTIME_DIR to another folder") from error


class FabricState:
    """The folder of one fabric. Raises DescriptionError unless `name` is valid: `remove` deletes its path."""

    def __init__(self, name: str) -> None:
        check_name(name, "--name")
        self.name = name
        self.folder = root() / name

    @property
    def exists(self) -> bool:
        """Whether there is a folder, of a fabric that is up or has crashed."""
        return self.folder.exists()

    def create(self, fabric: Fabric) -> None:
        """Create the folder with the description and the uplinks of each NIC."""
        for device in fabric.daemons:
            if len(os.fsencode(self.socket(device.name))) > SOCKET_PATH_LIMIT:
                cause = f"{self.socket(device.name)} is too long for the path of a UNIX socket"
                raise ToolError("BAD_PATH", cause, "set XDG_RUNTIME_DIR to a shorter path")
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
        self._write("fabric.toml", description_file.render(fabric))
        self._write(tree.UPLINKS_NAME, tree.render_uplinks(fabric))

    def description(self) -> Fabric | None:
        """None if a crash came before it was written."""
        path = self.folder / "fabric.toml"
        return description_file.read(path) if path.exists() else None

    def required_description(self) -> Fabric:
        """Raises ToolError NO_FABRIC, which names existing fabrics."""
        fabric = self.description()
        if fabric is None:
            others = ", ".join(names())
            up = "fanin fabric up" + ("" if self.name == "default" else f" --name {self.name}")
            remedy = f"name one with --name: {others}; or {up}" if others else up
            raise ToolError("NO_FABRIC", f"there is no fabric {self.name}", remedy)
        return fabric

    def record(self, processes: dict[str, ProcessIdentity]) -> None:
        """Record the processes of all started devices."""
        rows = {name: [process.pid, process.start_time] for name, process in processes.items()}
        self._write("processes.json", json.dumps(rows))

    def processes(self) -> dict[str, ProcessIdentity]:
        """As recorded, by device. They may have ended."""
        try:
            rows = json.loads((self.folder / "processes.json").read_text())
        except FileNotFoundError:
            return {}
        return {name: ProcessIdentity(*row) for name, row in rows.items()}

    def set_leaseholders(self, leaseholders: list[ProcessIdentity]) -> None:
        self._write(
            "leases.json", json.dumps([[leaseholder.pid, leaseholder.start_time] for leaseholder in leaseholders])
        )

    def make_permanent(self) -> None:
        """Until it is taken down."""
        (self.folder / "leases.json").unlink(missing_ok=True)

    @property
    def leaseholders(self) -> list[ProcessIdentity] | None:
        """None if the fabric is permanent. A command with two leases appears twice."""
        try:
            return [ProcessIdentity(*row) for row in json.loads((self.folder / "leases.json").read_text())]
        except FileNotFoundError:
            return None

    def socket(self, device: str) -> Path:
        return self.folder / f"{device}.sock"

    def log(self, device: str) -> Path:
        return self.folder / f"{device}.log"

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name: str, text: str) -> None:
        """Replace a file atomically: a crash leaves the old or the new one."""
        fresh = self.folder / f".{name}"
        with writing(self.folder):
            fresh.write_text(text)
            fresh.replace(self.folder / name)
