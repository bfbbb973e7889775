"""Debian packages by name: from the archive into a folder, without installation on this machine."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

KERNEL = "linux-image-amd64"  # names the package of the newest kernel; the flavour cloud-amd64 has no rxe
GUEST = (  # the guest's whole user land, without this machine's
    *("busybox-static", "libc6"),
    *(
        "python3.11-minimal",
        "libpython3.11-minimal",
        "libpython3.11-stdlib",
        "libpython3.11",
        "libexpat1",
        "zlib1g",
        "libffi8",
    ),
    *("python3-pyverbs", "libibverbs1", "ibverbs-providers", "librdmacm1", "libnl-3-200", "libnl-route-3-200"),
    *("iproute2", "libbpf1", "libelf1", "libmnl0", "libcap2", "libselinux1", "libpcre2-8-0", "libbsd0", "libmd0"),
    *("libdb5.3", "libtirpc3", "libxtables12", "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libcom-err2"),
    *("libkrb5support0", "libkeyutils1", "libssl3"),
    *("perftest", "ibverbs-utils", "libibumad3", "libpci3", "libudev1"),
)
TOOLS = ("apt-get", "apt-cache", "dpkg-deb")
SECONDS = 600  # for one command


class PackagesMissing(Exception):
    """The packages of the virtual machine are unavailable here. The message names the missing part."""


def check_host() -> None:
    """Raises PackagesMissing if the packages could not run, or not be fetched."""
    if platform.machine() != "x86_64":
        raise PackagesMissing(f"an x86-64 processor for the virtual machine (this one is {platform.machine()})")
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise PackagesMissing(f"{tool}, which fetches Debian's packages for the virtual machine")


def output_of(*command: str, folder: Path | None = None) -> str:
    """The output of a command of apt. Raises PackagesMissing."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise PackagesMissing(f"Debian's packages of the virtual machine ({' '.join(command[:2])}: {''.join(last)})")
    return done.stdout


def kernel_package() -> str:
    found = re.search(r"Depends: (linux-image-\d\S*)", output_of("apt-cache", "depends", KERNEL))
    if found is None:
        raise PackagesMissing(f"a kernel that {KERNEL} depends on")
    return found[1]


def emulator_packages(emulator: str) -> list[str]:
    """The missing packages to run the emulator, a package too; none if it is installed."""
    plan = output_of("apt-get", "--simulate", "--quiet", "--no-install-recommends", "install", emulator)
    return re.findall(r"^Inst (\S+)", plan, re.M)


def unpack(packages: list[str], downloads: Path, target: Path) -> None:
    """Download packages into one folder, and unpack them into another. `/bin`, `/sbin` and `/lib` become `/usr/...`."""
    downloads.mkdir()
    target.mkdir()
    if packages:
        output_of("apt-get", "--quiet", "download", *packages, folder=downloads)
    for file in sorted(downloads.iterdir()):
        output_of("dpkg-deb", "--extract", str(file), str(target))
    shutil.rmtree(downloads)
    for name in ("bin", "sbin", "lib", "lib64"):
        if (target / name).is_dir() and not (target / name).is_symlink():
            shutil.copytree(target / name, target / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(target / name)
