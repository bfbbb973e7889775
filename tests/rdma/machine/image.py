"""The parts of the virtual machine: emulator, kernel and file system, in the user's folder for caches.

It is made once, in half a minute. To get newer packages, remove the folder.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fanin_nic.native.cache import cache_root

from . import initramfs, packages

# crc32_generic: rxe loads it by name, without a declared dependency.
MODULES = [
    *("virtio_pci", "virtio_net", "virtio_console", "virtio_rng", "crc32_generic", "rdma_rxe", "ib_uverbs"),
    *("9pnet_virtio", "9p", "overlay"),  # the files of this machine
    *("veth", "sch_netem"),  # a link with loss within the guest
]
NOT_IN_GUEST = (
    r"^usr/(share|lib/python3/dist-packages/pyverbs/providers|lib/python3\.11/(test|idlelib|lib2to3)|include)/"
)
GUEST_FILES = Path(__file__).parents[1] / "guest"
SOURCES = [Path(packages.__file__), Path(initramfs.__file__), Path(__file__)]


class Processor(NamedTuple):
    """The configuration of a virtual machine. package, program: of the emulator; options: of the emulator; console:
    arguments of the kernel."""

    package: str
    program: str
    options: Sequence[str]
    console: str


X86_64 = Processor("qemu-system-x86", "qemu-system-x86_64", ("-cpu", "max", "-machine", "pc"), "console=ttyS0 edd=off")
FOLDERS = ("dev", "proc", "sys", "run", "tmp", "root", "etc")


class Image(NamedTuple):
    """Paths. environment: of the emulator's process."""

    emulator: Path
    emulator_options: list[str]
    environment: Mapping[str, str]
    kernel: Path
    file_system: Path
    processor: Processor = X86_64


def image() -> Image:
    """The image, made if necessary. Raises PackagesMissing."""
    root = cache_root()
    if root is None:
        raise packages.PackagesMissing("a home for the packages of the virtual machine")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]
    folder = root / f"rdma-guest-{digest}"
    if not folder.exists():
        packages.check_host()
        root.mkdir(parents=True, exist_ok=True)
        _make(folder)
    return image_in(folder, X86_64)


def image_in(folder: Path, processor: Processor) -> Image:
    """The image in a folder with `kernel`, `file-system` and maybe `emulator`; else this machine's emulator."""
    emulator, kernel, file_system = (folder / name for name in ("emulator", "kernel", "file-system"))
    own = emulator / "usr/bin" / processor.program
    if not own.exists():
        return Image(Path(processor.program), [], {}, kernel, file_system, processor)
    libraries = [str(path) for path in sorted(emulator.glob("usr/lib/*-linux-gnu*"))]
    options = ["-L", str(emulator / "usr/share/qemu"), "-L", str(emulator / "usr/share/seabios")]
    return Image(own, options, {"LD_LIBRARY_PATH": ":".join(libraries)}, kernel, file_system, processor)


def _make(folder: Path) -> None:
    """Make the image beside `folder`, and rename it when complete."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="rdma-guest-") as temporary:
        work = Path(temporary)
        made = work / "made"
        made.mkdir()
        packages.unpack(packages.emulator_packages(X86_64.package), work / "downloads", made / "emulator")
        packages.unpack([packages.kernel_package()], work / "downloads", work / "kernel")
        packages.unpack(list(packages.GUEST), work / "downloads", work / "guest")
        add_guest(made, work / "kernel", work / "guest")
        try:
            os.rename(made, folder)
        except OSError:
            if not folder.exists():  # another run has been faster
                raise


def add_guest(made: Path, kernel: Path, guest: Path) -> None:
    """Write `kernel` and `file-system` into a folder. kernel, guest: folders of their unpacked packages."""
    (image_of_kernel,) = (kernel / "boot").glob("vmlinuz-*")
    shutil.copy(image_of_kernel, made / "kernel")
    (made / "file-system").write_bytes(_file_system(kernel, guest))


def _file_system(kernel: Path, guest: Path) -> bytes:
    archive = initramfs.Archive()
    for name in FOLDERS:
        archive.folder(name)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    for name in ("bin", "sbin", "lib", "lib64"):
        archive.link(name, f"usr/{name}")
    archive.tree(guest, NOT_IN_GUEST)
    modules = initramfs.modules_with_needed(kernel, MODULES)
    for number, (name, content) in enumerate(modules.items()):
        archive.file(f"modules/{number:03}-{name}.ko", content)
    return archive.finish()


def with_agent(file_system: bytes) -> bytes:
    """The file system with the files of the folder `guest`, which change more often."""
    archive = initramfs.Archive()
    for path in sorted(GUEST_FILES.iterdir()):
        if path.is_file():
            archive.file(path.name, path.read_bytes(), 0o755)
    return file_system + archive.finish()
