"""The system's pyverbs for programs in an environment without it: PyPI has only its source, without libibverbs."""

import contextlib
import importlib.util
import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from fanin_tools.errors import UsageError

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PLACES = ("/usr/lib/python3/dist-packages", f"/usr/lib64/python{PYTHON}/site-packages")  # Debian's, Fedora's


def find() -> Path:
    """The system's package. Raises UsageError if there is none for this Python."""
    folders = [folder for place in PLACES if (folder := Path(place) / "pyverbs").is_dir()]
    for folder in folders:
        if any(folder.glob(f"device.*{sysconfig.get_config_var('SOABI')}*.so")):
            return folder
    if not folders:
        cause, remedy = f"no pyverbs is in {' or '.join(PLACES)}", "install it (Debian: python3-pyverbs)"
    else:
        cause = f"{folders[0]} is not for Python {PYTHON}, which runs this command"
        remedy = "make the environment with the system's Python: rm -r .venv; PYTHON=/usr/bin/python3 make install"
    raise UsageError(cause, f"{remedy}, or leave out --pyverbs", "NOT_SUPPORTED")


@contextlib.contextmanager
def added(command: Sequence[str]) -> Iterator[list[str]]:
    """The command with pyverbs, but no other package of the system, in its PYTHONPATH during the block. As `find`."""
    if importlib.util.find_spec("pyverbs"):
        yield list(command)
        return
    found = find()
    with tempfile.TemporaryDirectory(prefix="fanin-pyverbs-") as folder:
        (Path(folder) / "pyverbs").symlink_to(found)
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        yield ["env", f"PYTHONPATH={path}", *command]
