"""The image of an emulated arm64 machine: as tests/rdma/machine/image.py, with Debian's packages for arm64.

Kernel and user land are of the release whose Python runs the agent in the guest (tests/rdma/guest/agent.py).
"""

import hashlib
import os
import tempfile
from pathlib import Path

from fanin_image import packages
from fanin_image.packages import NotPossible, Selection
from fanin_nic.native.cache import cache_root
from tests.rdma.machine import image as of_guests
from tests.rdma.machine import packages as packages_of_guests
from tests.rdma.machine.image import Image, Processor, add_guest, image_in
from tests.rdma.machine.packages import PackagesMissing

from .image import Say

ARM64 = Processor(
    "qemu-system-arm",
    "qemu-system-aarch64",
    ("-cpu", "cortex-a72", "-machine", "virt,gic-version=3"),
    "console=ttyAMA0",
)
KERNEL = Selection("bookworm", "arm64", ("linux-image-arm64",))
USER_LAND = Selection("bookworm", "arm64", packages_of_guests.GUEST)


def image(say: Say) -> Image:
    """The image, made if necessary. Raises NotPossible."""
    home = cache_root()
    if home is None:
        raise NotPossible("a home for the packages of the emulated machine (set FANIN_CACHE_DIR)")
    recipe = repr((ARM64, KERNEL, USER_LAND, of_guests.MODULES, of_guests.NOT_IN_GUEST))
    folder = home / f"arm64-machine-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if not folder.exists():
        packages.check_tools()
        home.mkdir(parents=True, exist_ok=True)
        try:
            _make(folder, say)
        except PackagesMissing as missing:
            raise NotPossible(str(missing)) from None
    return image_in(folder, ARM64)


def _make(folder: Path, say: Say) -> None:
    """Make the image beside `folder`, and rename it when complete."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="arm64-machine-") as temporary:
        work, made = Path(temporary), Path(temporary) / "made"
        made.mkdir()
        say(f"fetching {ARM64.package} of this machine's Debian")
        needed = packages_of_guests.emulator_packages(ARM64.package)
        packages_of_guests.unpack(needed, work / "downloads", made / "emulator")
        say(f"fetching kernel and programs of Debian's {KERNEL.suite}, {KERNEL.architecture}")
        packages.unpack(KERNEL, work / "kernel", work / "apt")
        packages.unpack(USER_LAND, work / "guest", work / "apt", alone=True)
        add_guest(made, work / "kernel", work / "guest")
        try:
            os.rename(made, folder)
        except OSError:
            if not folder.exists():  # another run has been faster
                raise
