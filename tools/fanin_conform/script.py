"""A script: a function that sends packets and expects others, with the numbers of the demands that it checks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fanin_wire.clauses import clause

if TYPE_CHECKING:
    from fanin_conform.tester import Tester
    from fanin_conform.verbs.tester import VerbsTester

# Roles of a device
SWITCH, NIC, NIC_TREE, NIC_RING, ROCEV2 = "switch", "nic", "nic-tree", "nic-ring", "rocev2"

Play = TypeVar("Play", Callable[["Tester"], None], Callable[["VerbsTester"], None])


class Script(NamedTuple):
    """name: "group/function". needs: names of `controls`, or "port" if the target must have its own port (ICRC, UDP).
    role: of the device; "nic" for both routes. Scripts for "rocev2" get a VerbsTester.
    waits: it takes a second or more in real time, as it waits for times of the device."""

    name: str
    clauses: tuple[str, ...]
    text: str
    play: Callable[[Any], None]
    needs: frozenset[str]
    role: str = SWITCH
    waits: bool = False


SCRIPTS: dict[str, Script] = {}


def script(
    *numbers: str, needs: tuple[str, ...] = (), role: str = SWITCH, waits: bool = False
) -> Callable[[Play], Play]:
    """Decorate a script. numbers: of the demands of SPEC.md that it checks. Raises UnknownClause."""
    for number in numbers:
        clause(number)

    def enter(play: Play) -> Play:
        name = f"{play.__module__.rpartition('.')[2]}/{play.__name__}"
        SCRIPTS[name] = Script(
            name, numbers, " ".join((play.__doc__ or "").split()), play, frozenset(needs), role, waits
        )
        return play

    return enter


nic_script = functools.partial(script, role=NIC)
tree_script = functools.partial(script, role=NIC_TREE)
ring_script = functools.partial(script, role=NIC_RING)
verbs_script = functools.partial(script, role=ROCEV2)


def is_for(script: Script, role: str) -> bool:
    """Whether a script is for devices of a role. "nic" has both routes, and ordinary traffic."""
    if role == NIC:
        return script.role != SWITCH
    return script.role == role or (script.role == NIC and role in (NIC_TREE, NIC_RING))
