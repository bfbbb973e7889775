"""A script: a function that sends packets and says which must come, with the numbers of the demands that it checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from fanin_wire.clauses import clause

if TYPE_CHECKING:
    from fanin_conform.tester import Tester

Play = Callable[["Tester"], None]


class Script(NamedTuple):
    """name: "group/function". needs: "port" if the target must have a port of its own (ICRC, UDP)."""

    name: str
    clauses: tuple[str, ...]
    text: str
    play: Play
    needs: frozenset[str]


SCRIPTS: dict[str, Script] = {}


def script(*numbers: str, needs: tuple[str, ...] = ()) -> Callable[[Play], Play]:
    """Decorate a script. numbers: of the demands of SPEC.md that it checks; UnknownClause if there is no such one."""
    for number in numbers:
        clause(number)

    def enter(play: Play) -> Play:
        name = f"{play.__module__.rpartition('.')[2]}/{play.__name__}"
        SCRIPTS[name] = Script(name, numbers, " ".join((play.__doc__ or "").split()), play, frozenset(needs))
        return play

    return enter
