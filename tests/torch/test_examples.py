"""The examples, started by torchrun as a user does."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.torch.launch import torchrun

pytestmark = pytest.mark.process
ROUNDING = 1e-3  # of a loss, after as many steps as the examples make


class Outcome(NamedTuple):
    """An example's last line."""

    losses: list[float]
    model: str

    @classmethod
    def of(cls, said: str) -> Outcome:
        losses = [float(loss) for loss in re.findall(r": loss (\S+)", said)]
        return cls(losses, said.rpartition("model: ")[2].strip())


@pytest.mark.parametrize(("program", "arguments"), [("ddp_digits.py", []), ("fsdp_text.py", ["60"])])
def test_example(local: list[str], program: str, arguments: list[str]) -> None:
    """Its losses are Gloo's within rounding, and reproducible runs end with the same bits."""
    fanin = {"FANIN_SOCKET": local[0], "FANIN_TORCH_REPRODUCIBLE": "run"}
    path = f"examples/torch/{program}"
    first, second = (Outcome.of(torchrun(4, path, "fanin", *arguments, **fanin)) for _ in range(2))
    gloo = Outcome.of(torchrun(4, path, "gloo", *arguments))
    assert first.losses == pytest.approx(gloo.losses, rel=ROUNDING)
    assert first.losses[-1] < first.losses[0]
    assert first == second
