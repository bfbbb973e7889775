"""The examples of docs/collectives.md, run in order by three ranks."""

import inspect
import re
from pathlib import Path

import numpy as np

import fanin
from fanin.collectives import definitions
from fanin_wire.collectives import COLLECTIVES

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


def test_example_of_orders_shows_a_difference(capsys):
    (orders,) = (example for example in EXAMPLES if "association" in example)
    exec(compile(orders, str(PAGE), "exec"), {"np": np})
    shown = capsys.readouterr().out.strip()
    assert f"# {shown}: another placement, other bits" in orders
    assert len(set(shown.split())) == 2


def test_methods_show_the_arguments_and_the_text_of_their_definition():
    for row in COLLECTIVES:
        definition = getattr(definitions, row.name)
        _, *defined = inspect.signature(definition).parameters.values()
        for form in (row.name, f"i{row.name}", f"{row.name}_init"):
            method = getattr(fanin.Communicator, form)
            _, *shown = inspect.signature(method).parameters.values()
            expected = [(one.name, one.default) for one in defined]
            assert [(one.name, one.default) for one in shown if one.name != "ordered"] == expected
            assert method.__name__ == form
            assert method.__qualname__ == f"Communicator.{form}"
            assert row.name in method.__doc__ or inspect.getdoc(definition) == method.__doc__
