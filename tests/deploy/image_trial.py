"""`python -m tests.deploy.image_trial build/image/fanin-amd64.tar`: `make image-trial`. Needs root.

It unpacks an image, and runs its programs as a container would: in their own namespaces, with the image as a read-only
root, as the image's user. One for arm64 is emulated on x86-64.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fanin_image import oci
from fanin_image.packages import NotPossible
from tests.arm import namespace
from tests.arm.image import image
from tests.arm.steps import shown_in

CHECKOUT = Path(__file__).parents[2]
LOADED = CHECKOUT / "tests/arm/programs/loaded.py"
# Not leased: under qemu-user a process's start time differs from what others see, so a lease would look orphaned.
SHAPE = "--name demo --nodes 2 --ranks-per-node 2 --lanes 1"
DEMO = f"fanin demo --json {SHAPE} --bytes 64K --sections allreduce,collectives"
SCRIPT = f"fanin fabric up {SHAPE} >&2 && {DEMO}"
# Without gRPC it would end with NOT_SUPPORTED, before it looks at the node.
PLUGIN = """mkdir -p /tmp/sys/devices && echo 'sysfs = "/tmp/sys"' >/tmp/plugin.toml
echo 'files = "/tmp/files"' >>/tmp/plugin.toml
echo 'state = "/tmp/state"' >>/tmp/plugin.toml
timeout 10 fanin-device-plugin --settings /tmp/plugin.toml 2>&1 || test $? = 124 || test $? = 1"""
# $1 the root; then user:group, and the command. Only /tmp can be written, as in a pod with a volume there.
ENTER = """set -e
root=$1 user=$2; shift 2
mount --rbind "$root" "$root"
mount -o remount,bind,ro "$root"
cd /
exec chroot --userspec="$user" "$root" "$@"
"""


class TrialFailed(Exception):
    """A program of the image failed. The message has its output."""


def run(root: Path, emulator: str, config: dict[str, object], command: list[str], work: Path) -> str:
    """The output of a program of an image. Raises TrialFailed, NotPossible."""
    settings = config["config"]
    assert isinstance(settings, dict)
    inside = ["/usr/bin/env", "-i", *settings["Env"], *command]
    line = ["/bin/sh", "-c", ENTER, "enter", str(root), settings["User"], *inside]
    whole = namespace.command_in(namespace.Root(str(root), emulator, []), work / "root.json", line, emulated=False)
    done = subprocess.run(whole, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode == namespace.FAILED:
        raise NotPossible(done.stderr.strip())
    if done.returncode:
        raise TrialFailed(f"{shlex.join(command)[:200]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def trial(path: Path, work: Path) -> None:
    """Try an image. Raises TrialFailed, NotPossible."""
    root = work / "root"
    root.mkdir()
    config = oci.unpack(path, root)
    emulator = shutil.which("true") or ""  # any program: nothing is emulated
    if config["architecture"] == "arm64":
        emulator = str(image(print).emulator)
    begin = time.monotonic()
    python = f"/usr/bin/{os.readlink(root / 'usr/bin/python3')}"
    loaded = shown_in(run(root, emulator, config, [python, "-c", LOADED.read_text()], work), "{")
    if loaded.get("compiled") != [] or loaded.get("counted") != 1:
        raise TrialFailed(f"a device compiles: {loaded}")
    print(f"a device loads its code for {loaded['cpu']}, and compiles nothing: {time.monotonic() - begin:.0f} s")
    said = run(root, emulator, config, ["/bin/sh", "-c", PLUGIN], work)
    if "NO_RESOURCES" not in said:
        raise TrialFailed(f"the device plugin does not look at its node: {said}")
    print("the device plugin looks at its node, and finds nothing to give")
    begin = time.monotonic()
    shown = shown_in(run(root, emulator, config, ["/bin/sh", "-c", SCRIPT], work), "{\n")
    if not shown.get("verified") or not shown.get("routes") or not shown.get("collectives"):
        raise TrialFailed(f"not verified: {json.dumps(shown)[:1000]}")
    counts = f"{len(shown['routes'])} allreduces and {len(shown['collectives'])} collectives verified"
    print(f"{DEMO}: {counts}: {time.monotonic() - begin:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.image_trial", description=__doc__)
    parser.add_argument("image", type=Path)
    given = parser.parse_args()
    if os.geteuid():
        print("fanin: NOT_SUPPORTED: an image is tried by root: its files have owners", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="fanin-image-") as work:
        try:
            trial(given.image, Path(work))
        except NotPossible as missing:
            print(f"fanin: NOT_SUPPORTED: an image can not be tried here: {missing}", file=sys.stderr)
            return 2
        except (OSError, ValueError, KeyError, TrialFailed) as error:
            print(f"fanin: FAILED: {given.image}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
