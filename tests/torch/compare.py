"""torch's own tests of back-ends on Fanin and on Gloo: the tests that differ, and how many do not.

python -m tests.torch.compare [FANIN.json GLOO.json]: without files it runs both, which takes minutes. The exit code is
1 if Fanin fails a test that Gloo passes, unless EXPECTED says why.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from fanin_tools.fabric import lease
from fanin_tools.fabric.generate import Plan, Shape
from tests.torch.launch import ROOT

# Tests that Gloo passes and Fanin does not, and the reason.
EXPECTED = {"test_ddp_logging_data_cpu": "DDP's log says that the back-end is `fanin`, and the test wants `gloo`"}


def measured(backend: str, environment: dict[str, str], folder: Path) -> Path:
    """Run the suite on a back-end; the file of its outcomes."""
    results = folder / f"{backend}.json"
    own = os.environ | environment | {"FANIN_SUITE_RESULTS": str(results)}
    with (folder / f"{backend}.log").open("w") as log:
        command = [sys.executable, "-m", "tests.torch.suite", backend]
        subprocess.run(command, cwd=ROOT, env=own, stdout=log, stderr=log, check=True)
    return results


def both() -> tuple[Path, Path]:
    """Fanin by a NIC of its own, then Gloo."""
    folder = Path(tempfile.mkdtemp(prefix="fanin-suite-"))
    print(f"the output of the tests is in {folder}", flush=True)
    with lease.leased(Plan(lease.private_name(), Shape(nodes=1, ranks_per_node=4)), print) as running:
        socket = running.state.socket(running.fabric.nics[0].name)
        found = measured("fanin", {"FANIN_SOCKET": str(socket)}, folder)
    return found, measured("gloo", {}, folder)


def outcomes(path: Path) -> dict[str, dict[str, Any]]:
    """Each test's row, by its name."""
    return {row["test"]: row for row in json.loads(path.read_text())}


def main() -> None:
    if len(sys.argv) not in (1, 3):
        sys.exit("usage: python -m tests.torch.compare [FANIN.json GLOO.json]")
    files = tuple(map(Path, sys.argv[1:])) or both()
    fanin, gloo = map(outcomes, files)
    print(f"{'on Fanin':10}{'on Gloo':10}tests")
    pairs = Counter((row["outcome"], gloo[name]["outcome"]) for name, row in fanin.items())
    for (ours, theirs), count in sorted(pairs.items()):
        print(f"{ours:10}{theirs:10}{count}")
    worse = [name for name, row in fanin.items() if row["outcome"] == "failed" and gloo[name]["outcome"] == "passed"]
    for name in worse:
        print(f"{name}: {EXPECTED.get(name) or fanin[name]['why'].strip().splitlines()[-1]}")
    sys.exit(any(name not in EXPECTED for name in worse))


if __name__ == "__main__":
    main()
