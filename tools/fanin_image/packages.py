"""Debian packages of another release or processor, unpacked into a folder. Nothing is installed on this machine.

apt runs with a state of its own, which knows only the wanted release. It checks the archive's signature, and through it
the SHA-256 of each package.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TOOLS = ("apt-get", "dpkg-deb", "tar")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHIVE = "http://deb.debian.org/debian"  # of Debian; apt's settings may say how it is reached
MERGED = ("bin", "lib", "lib64", "sbin")  # links to folders of the same name below /usr
SECONDS = 900  # for one command


class NotPossible(Exception):
    """The message says what is missing."""


class Selection(NamedTuple):
    """Packages of a Debian release, with their dependencies. apart: those that go into the target's folder `apart`."""

    suite: str
    architecture: str
    names: Sequence[str]
    apart: Sequence[str] = ()


def output_of(
    command: Sequence[str | Path], what: str, environment: dict[str, str] | None = None, folder: Path | None = None
) -> str:
    """The output of a command, run in `folder`. Raises NotPossible with `what` and its last line if it fails."""
    variables = os.environ | (environment or {})
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=variables, cwd=folder)
    except FileNotFoundError:
        raise NotPossible(f"{what}: there is no {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise NotPossible(f"{what}: {command[0]} has not ended within {SECONDS} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotPossible(f"{what}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout


def check_tools() -> None:
    """NotPossible if Debian's packages can not be fetched."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise NotPossible(f"{tool}, which fetches Debian's packages; use Debian, or a container of it")
    if not KEYRING.exists():
        raise NotPossible(f"{KEYRING}, which checks Debian's packages (Debian: debian-archive-keyring)")


def unpack(selection: Selection, target: Path, work: Path, *, alone: bool = False) -> list[str]:
    """Fetch packages, and unpack them into a new folder. Returns the names of their files.

    work: a folder for apt's state and the packages; made, and removed. alone: without dependencies. Raises NotPossible
    if they can not be fetched or checked.
    """
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    options = f"[arch={selection.architecture} signed-by={KEYRING}]"
    (work / "sources.list").write_text(f"deb {options} {ARCHIVE} {selection.suite} main\n")
    apt = ["apt-get", "--quiet"]
    for setting in (
        f"Dir::State={work}/state",
        f"Dir::State::status={work}/status",
        f"Dir::Cache={work}/cache",
        f"Dir::Etc::sourcelist={work}/sources.list",
        "Dir::Etc::sourceparts=-",
        f"APT::Architecture={selection.architecture}",
        f"APT::Architectures={selection.architecture}",
        "APT::Sandbox::User=root",  # the folder may be one that another user can not read
        "APT::Update::Error-Mode=any",  # else an archive that is not reached is a warning
    ):
        apt += ["-o", setting]
    output_of([*apt, "update"], f"the list of Debian's packages ({selection.suite}, {selection.architecture})")
    fetch = ["download"] if alone else ["--yes", "--no-install-recommends", "--download-only", "install"]
    archives = work / "cache/archives"
    output_of([*apt, *fetch, *selection.names], f"Debian's packages {' '.join(selection.names)}", folder=archives)
    files = sorted(archives.glob("*.deb"))
    for file in files:
        _extract(file, target / "apart" if file.name.partition("_")[0] in selection.apart else target)
    shutil.rmtree(work)
    return [file.name for file in files]


def _extract(package: Path, target: Path) -> None:
    """Unpack a package into a folder, in which `/bin` and its like are links."""
    for name in MERGED:
        (target / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (target / name).is_symlink():
            (target / name).symlink_to(f"usr/{name}")
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as archive:
        extracted = subprocess.run(
            ["tar", "--extract", "--keep-directory-symlink", "--no-same-owner", "--directory", target],
            stdin=archive.stdout,
            capture_output=True,
            text=True,
        )
    if archive.returncode or extracted.returncode:
        raise NotPossible(f"{package.name} can not be unpacked: {extracted.stderr.strip()}")
