"""The parts of a training's state: objects with torch's state_dict and load_state_dict, arrays, numpy's generators."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fanin import Communicator
from fanin_train import transfer
from fanin_train.packing import WrongState, unpack


def _get(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return part
    if isinstance(part, np.random.Generator):
        return part.bit_generator.state
    return part.state_dict()


def _set(part: Any, content: Any) -> None:
    if isinstance(part, np.ndarray):
        part[...] = content
    elif isinstance(part, np.random.Generator):
        part.bit_generator.state = content
    else:
        part.load_state_dict(content)


class State:
    """Parts by name: model, optimiser, random numbers, the place in the data.

    steady: names of parts that a step changes only after its last collective, as an optimiser does. The others are
    copied before each step, so that a step that fails half-way can be repeated; a large model should be steady.
    """

    def __init__(self, parts: Mapping[str, Any], steady: Iterable[str] = ()) -> None:
        self.parts, self.steady = dict(parts), frozenset(steady)
        if unknown := self.steady - self.parts.keys():
            raise WrongState(f"no part is named {', '.join(sorted(unknown))}")
        for name, part in self.parts.items():
            if not isinstance(part, np.ndarray | np.random.Generator) and not (
                hasattr(part, "state_dict") and hasattr(part, "load_state_dict")
            ):
                raise WrongState(f"part {name} is a {type(part).__name__}, without state_dict and load_state_dict")

    def copies(self) -> dict[str, Any]:
        """Copies for the case that the step fails."""
        return {name: copy.deepcopy(_get(part)) for name, part in self.parts.items() if name not in self.steady}

    def put_back(self, contents: Mapping[str, Any]) -> None:
        for name, content in contents.items():
            _set(self.parts[name], content)

    def send(self, group: Communicator, timeout: float) -> None:
        """Send all parts to the others, which receive them from this rank."""
        transfer.send(group, {name: _get(part) for name, part in self.parts.items()}, timeout)

    def receive(self, group: Communicator, root: int, timeout: float, load: bool = True) -> None:
        """Receive the parts of `root`. load: False if this rank has them already, to drop them."""
        blocks = transfer.receive(group, root, timeout)
        if load:
            self.put_back(unpack(blocks))
