"""`python -m fanin_image ARCHITECTURE...`: `make image`. Exit code 2: not possible here; 1: a file is not writable."""

import os
import sys
import time
from pathlib import Path

from fanin_wire.command_line import Parser

from . import content, oci, packages, wheels
from .packages import NotPossible

TIME = "SOURCE_DATE_EPOCH"  # reproducible-builds.org: the time of all files; by default that of the last commit
LAST_TIME = (1 << 33) - 1  # that a tar file can have: 11 octal digits


class InvalidTime(Exception):
    """The time of all files is not a time, as the message says."""


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def output_of_git(*arguments: str) -> str:
    return packages.output_of(["git", "-C", str(wheels.CHECKOUT), *arguments], "the checkout of git").strip()


def time_of_files() -> int:
    """Seconds since 1970. Raises NotPossible, InvalidTime."""
    text = os.environ.get(TIME) or output_of_git("show", "--no-patch", "--format=%ct", "HEAD")
    if not text.isdecimal() or int(text) > LAST_TIME:
        raise InvalidTime(f"{TIME} is not a whole number of seconds since 1970")
    return int(text)


def labels() -> dict[str, str]:
    from importlib.metadata import version

    changed = output_of_git("status", "--porcelain", "--untracked-files=no")
    return {
        "org.opencontainers.image.title": "fanin",
        "org.opencontainers.image.version": version("fanin"),
        "org.opencontainers.image.revision": output_of_git("rev-parse", "HEAD") + ("-changed" if changed else ""),
        "org.opencontainers.image.licenses": "BSD-3-Clause",
    }


def image(architecture: str, moment: int) -> oci.Image:
    """Raises NotPossible."""
    made = []
    for name, folder in content.layers(architecture, say):
        made.append(oci.layer_of(folder, moment))
        say(f"layer {name}: {len(made[-1].content) / 2**20:.0f} MiB")
    return oci.Image(architecture, made, content.SETTINGS, labels())


def write(path: Path, images: list[oci.Image], name: str, moment: int) -> None:
    oci.write(path, images, name, moment)
    say(f"{path}: {path.stat().st_size / 2**20:.0f} MiB; skopeo inspect oci-archive:{path}")


def make(architectures: list[str], into: Path) -> None:
    """A file for each architecture, and one for all if there are several. Raises NotPossible, InvalidTime."""
    moment, name = time_of_files(), labels()["org.opencontainers.image.version"].replace("+", "_")  # a tag has no "+"
    into.mkdir(parents=True, exist_ok=True)
    images = []
    for architecture in dict.fromkeys(architectures):
        images.append(image(architecture, moment))
        write(into / f"fanin-{architecture}.tar", images[-1:], name, moment)
    if len(images) > 1:
        write(into / "fanin-all.tar", images, name, moment)


def main() -> int:
    parser = Parser(prog="python -m fanin_image", description="Images of Fanin for containers.")
    parser.add_argument("architectures", nargs="+", choices=list(wheels.MACHINES), metavar="amd64|arm64")
    parser.add_argument("--into", type=Path, default=Path("build/image"), help="folder of the files")
    given = parser.parse_args()
    begin = time.monotonic()
    try:
        make(given.architectures, given.into)
    except NotPossible as missing:
        print(f"fanin: NOT_SUPPORTED: make image needs what is not here: {missing}", file=sys.stderr)
        return 2
    except InvalidTime as wrong:
        print(f"fanin: INVALID: {wrong}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"fanin: FAILED: {error}", file=sys.stderr)
        return 1
    say(f"{time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
