"""The examples of docs/collectives.md, run in their order by three ranks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import fanin

PAGE = Path(__file__).parents[2] / "docs/collectives.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)


def test_examples(run_ranks, device):
    assert len(EXAMPLES) > 8
    assert "fanin.Communicator()" in EXAMPLES[0]

    def program(communicator):
        names = {"communicator": communicator, "rank": communicator.rank, "size": 3, "np": np, "fanin": fanin}
        for example in EXAMPLES[1:]:
            exec(compile(example, str(PAGE), "exec"), names)
        return True

    assert run_ranks(device, 3, program) == [True] * 3
