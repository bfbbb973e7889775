"""`python -m tests.arm`: the work of `make arm`. Exit code 1 if a step fails, 2 if it can not run."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from fanin_image.packages import NotPossible

from .image import image
from .machine import Machine, StepFailed, check_namespaces
from .steps import STEPS

FAILED, NOT_POSSIBLE = 1, 2


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def run(names: list[str], work: Path) -> int:
    begin, failed = time.monotonic(), []
    machine = Machine(image(say), work)
    (work / "run").mkdir(mode=0o700)
    try:
        for step in STEPS:
            if step.name not in names:
                continue
            start = time.monotonic()
            try:
                found = step.run(machine)
            except StepFailed as failure:
                failed.append(step.name)
                found = f"FAILED: {failure}"
            print(f"{step.name:9} {time.monotonic() - start:6.0f} s  {found}", flush=True)
    finally:
        machine.close()
    say(f"{time.monotonic() - begin:.0f} s; " + (f"failed: {', '.join(failed)}" if failed else "all steps passed"))
    return FAILED if failed else 0


def main() -> int:
    known = [step.name for step in STEPS]
    parser = argparse.ArgumentParser(prog="python -m tests.arm", description="Fanin on emulated Arm.")
    parser.add_argument("--steps", default=",".join(known), help=f"some of {','.join(known)}")
    names = parser.parse_args().steps.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"{', '.join(unknown)}: not a step; use some of {','.join(known)}")
    with tempfile.TemporaryDirectory(prefix="fanin-arm-") as work:
        try:
            check_namespaces(Path(work))
            return run(names, Path(work))
        except NotPossible as missing:
            print(f"fanin: NOT_SUPPORTED: make arm needs what is not here: {missing}", file=sys.stderr)
            return NOT_POSSIBLE


if __name__ == "__main__":
    sys.exit(main())
