"""What is in an image: Debian with Python, the packages that Fanin needs, Fanin, and its compiled device code.

Each is a layer, so that a new version of Fanin replaces only the last. Nothing of it is run here: packages are
unpacked, C is cross-compiled, device code is compiled by `fanin_nic.daemon.cross`.
"""

import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fanin_nic.native.cache import cache_root

from . import cross_compiler, packages, wheels
from .packages import NotPossible, Selection

# bash and iproute2 are for those who look into a container; a container with a verbs device loads its provider.
DEBIAN = ("bash", "coreutils", "dash", "ibverbs-providers", "iproute2", "libibverbs1", "libstdc++6")  # and Python
USELESS = ("usr/share/doc", "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man", "var")
USER = 4791  # a number, as kubelets want it: RoCEv2's port
USERS = f"root:x:0:0:root:/root:/bin/bash\nfanin:x:{USER}:{USER}:Fanin:/tmp:/bin/bash\n"
GROUPS = f"root:x:0:\nfanin:x:{USER}:\n"
EMPTY = ("dev", "etc/fanin", "proc", "root", "run/fanin", "sys")
CODE = "/var/cache/fanin"
SITE = "usr/local/lib/{python}/dist-packages"
COMMANDS = {
    "fanin": ("fanin_tools.cli.app", "main"),
    "fanin-device-plugin": ("fanin_device_plugin.__main__", "main"),
    "fanin-nic": ("fanin_nic.daemon.main", "nic"),
    "fanin-switch": ("fanin_nic.daemon.main", "switch"),
}
START = wheels.CHECKOUT / "deploy/image/fanin-start"  # where addresses are those of interfaces
SCRIPT = """#!/usr/bin/{python}
import sys

from {module} import {function}

sys.exit({function}())
"""
SETTINGS: dict[str, Any] = {
    "User": f"{USER}:{USER}",
    "Env": [
        "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        f"FANIN_CACHE_DIR={CODE}",
        "HOME=/tmp",
        "LANG=C.UTF-8",
        "PYTHONDONTWRITEBYTECODE=1",
    ],
    "Cmd": ["fanin", "--help"],
    "WorkingDir": "/tmp",
    "StopSignal": "SIGTERM",
}

Say = Callable[[str], None]


def layers(architecture: str, say: Say) -> Iterator[tuple[str, Path]]:
    """The folders of an image, the lowest layer first, with names. All but Fanin's are kept in the cache folder: remove
    it to get newer Debian packages.

    Raises NotPossible, which says what is missing.
    """
    home = cache_root()
    if home is None:
        raise NotPossible("a home for the packages (set FANIN_CACHE_DIR)")
    debian = Selection(wheels.suite(), architecture, (wheels.python_name(), *DEBIAN))
    versions = wheels.constraints()
    requirements = wheels.dependencies()
    say(f"Debian's {debian.suite} for {architecture}")
    yield "debian", kept(home / "image", repr((debian, USELESS, USERS)), lambda folder: _debian(debian, folder))
    say(f"Python packages for {architecture}: {' '.join(requirements)}")
    recipe = repr((debian.suite, architecture, requirements, versions))
    yield "python", kept(home / "image", recipe, lambda folder: _python(requirements, architecture, versions, folder))
    compiler = None  # that of this machine
    if architecture == "arm64" and platform.machine() != wheels.MACHINES[architecture]:
        say("cross compiler")
        made = kept(home / "image", repr((cross_compiler.COMPILER, cross_compiler.RUN_TOOL)), _compiler)
        compiler = made / "cc"
    say(f"Fanin and its device code for {architecture}")
    with tempfile.TemporaryDirectory(prefix="fanin-image-") as work:
        _fanin(architecture, compiler, Path(work))
        yield "fanin", Path(work)


def kept(home: Path, recipe: str, make: Callable[[Path], None]) -> Path:
    """A folder that is made once for each `recipe`; it gets its name when it is complete."""
    folder = home / hashlib.sha256(recipe.encode()).hexdigest()[:16]
    if not folder.exists():
        packages.check_tools()
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as temporary:
            made = Path(temporary) / "made"
            make(made)
            try:
                os.rename(made, folder)
            except OSError:
                if not folder.exists():  # another run has been faster
                    raise
    return folder


def _compiler(folder: Path) -> None:
    cross_compiler.unpack(folder, folder.with_name("work"))


def _debian(selection: Selection, folder: Path) -> None:
    packages.unpack(selection, folder, folder.with_name("work"))
    copyrights = folder.with_name("copyrights")
    for file in sorted((folder / "usr/share/doc").glob("*/copyright")):  # licences demand them
        (copyrights / file.parent.name).mkdir(parents=True)
        shutil.copy(file, copyrights / file.parent.name)
    for name in USELESS:
        shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(copyrights, folder / "usr/share/doc")
    for name in EMPTY:
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    (folder / "tmp").chmod(0o1777)
    (folder / "etc/passwd").write_text(USERS)
    (folder / "etc/group").write_text(GROUPS)
    (folder / "usr/bin/python3").unlink(missing_ok=True)
    (folder / "usr/bin/python3").symlink_to(wheels.python_name())
    wheels.compile_bytecode(folder / "usr/lib" / wheels.python_name(), folder)


def _python(requirements: list[str], architecture: str, versions: str, folder: Path) -> None:
    site = folder / SITE.format(python=wheels.python_name())
    wheels.install(requirements, architecture, versions, site)
    shutil.rmtree(site / "bin", ignore_errors=True)
    for tests in [path for path in site.rglob("tests") if path.is_dir() and path.parent.name != "testing"]:
        shutil.rmtree(tests)  # a third of it
    wheels.compile_bytecode(site, folder)


def _fanin(architecture: str, compiler: Path | None, folder: Path) -> None:
    site = folder / SITE.format(python=wheels.python_name())
    wheels.install_fanin(architecture, compiler, site)
    wheels.compile_bytecode(site, folder)
    programs = folder / "usr/local/bin"
    programs.mkdir(parents=True)
    for name, (module, function) in COMMANDS.items():
        script = SCRIPT.format(python=wheels.python_name(), module=module, function=function)
        cross_compiler.write_command(programs / name, script)
    shutil.copy(START, programs)
    command = [sys.executable, "-m", "fanin_nic.daemon.cross", "--target", architecture, str(folder) + CODE]
    packages.output_of(command, f"device code for {architecture}")
