"""The code blocks of the pages, and the reasons for which a block may not be run."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests/README.md",
    ROOT / "protocol/fanin_wire/SPEC.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```(?P<language>[\w-]*)(?P<rest>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)
LANGUAGES = {
    "python": "all such blocks of a page are one program, which is run",
    "sh": "run by bash; program.py is the program of the page",
    "console": "the lines behind `$ ` are run, and print the lines below them; ... stands for anything",
    "c": "compiled, with warnings as errors",
    "toml": "parsed; a description of a fabric is checked as such",
    "json": "parsed",
    "text": "output, packets, drawings: not code",
}
NOT_RUN = {  # reason in the title of a block -> what the block must have
    "takes minutes": r"\bmake [a-z]|fanin (?:bench|soak|\S*sim)|engine\.(?:segment\.)?kernels|fpga_cosim|--switch rtl",
    "needs an MPI": r"mpirun|mpiexec|mpicc|--mpi\b",
    "needs verbs devices": r"--rdma rdma://",
    "needs torch": r"\.\[torch\]",
    "needs a GPU": r"\bNCCL_NET_PLUGIN\b",
    "needs UCC": r"\bfanin sharp-prefix\b|\bUCC_TLS\b",
    "needs verbs programs": r"\bibv_\w+|\bib_\w+",
    "needs pyverbs": r"\bfanin verbs-lib\b.* python\b|\bpython examples/verbs/",
    "needs a card": r"mlxconfig|ip link set p0|crictl|kubelet|10\.0\.0\.1",
    "needs a cluster": r"\bhelm |\bkubectl ",
    "needs a device of yours": r"--(fanin-)?target (?:udp|nic)://",
    "needs Wireshark": r"\btshark\b",
    "needs root": r"--netns|ip netns|/dev/infiniband|/etc/|systemctl|/opt/",
    "tests/hosts runs it": r"\bssh node1 |\bssh node\$n |fanin fabric check",
    "tests/conformance runs it": r"--target (?:switch|reference)",
    "changes the checkout": r"\bgit |\bmake (?:install|tables)|pip install|pre-commit",
}


class Block(NamedTuple):
    """A fenced block: the line of its fence, its language, its title and its text."""

    line: int
    language: str
    title: str
    text: str

    @property
    def reason(self) -> str:
        """Why the block is not run; empty where it is."""
        return self.title.removeprefix("not run: ") if self.title.startswith("not run: ") else ""


def name(path: Path) -> str:
    """Path of a page in the repository."""
    return path.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page, in their order."""
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        title = re.fullmatch(r' title="([^"]*)"', match["rest"])
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(line, match["language"], title[1] if title else match["rest"], match["text"]))
    return found


def indented_blocks(page: Path) -> list[int]:
    """Lines on which a block begins by indentation alone, which has no language."""
    lines = FENCE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text()).splitlines()
    found, in_list = [], False
    for number, (before, line) in enumerate(zip(["", *lines], lines, strict=False), start=1):
        if line and not line.startswith(" "):
            in_list = bool(re.match(r"[-*] |\d+\. ", line))
        elif line.startswith("    ") and not before.strip() and not in_list:
            found.append(number)
    return found
