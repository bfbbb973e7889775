"""The examples of docs/collectives.md, run in their order by three ranks, and that of docs/reproducible.md."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np

import fanin
from fanin.collectives.variants import ARGUMENTS

PAGE, REPRODUCIBLE = (Path(__file__).parents[2] / "docs" / name for name in ("collectives.md", "reproducible.md"))
EXAMPLES, (ORDERS,) = (
    re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S) for page in (PAGE, REPRODUCIBLE)
)


def test_examples(run_ranks, device):
    assert len(EXAMPLES) > 8
    assert "fanin.Communicator()" in EXAMPLES[0]

    def program(communicator):
        names = {"communicator": communicator, "rank": communicator.rank, "size": 3, "np": np, "fanin": fanin}
        for example in EXAMPLES[1:]:
            exec(compile(example, str(PAGE), "exec"), names)
        return True

    assert run_ranks(device, 3, program) == [True] * 3


def test_example_of_orders_shows_a_difference(capsys):
    exec(compile(ORDERS, str(REPRODUCIBLE), "exec"), {})
    shown = capsys.readouterr().out.strip()
    assert f"# {shown}: another placement, other bits" in ORDERS
    assert len(set(shown.split())) == 2


def test_methods_of_the_extension_have_the_arguments_that_are_checked():
    """The extension documents them; the functions that make the calls define them."""
    assert len(ARGUMENTS) == 8
    for name, arguments in ARGUMENTS.items():
        _, *checked = inspect.signature(arguments).parameters.values()
        for form in (name, f"i{name}"):
            _, *documented = inspect.signature(getattr(fanin.Communicator, form)).parameters.values()
            assert [(one.name, one.default) for one in documented] == [(one.name, one.default) for one in checked]
            assert name in getattr(fanin.Communicator, form).__doc__ or form == name
