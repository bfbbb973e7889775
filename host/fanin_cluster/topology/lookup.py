"""Components by the names that people give them: in settings, on a command line, in the ids of other programs."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from fanin_cluster.topology.machine import Component
from fanin_cluster.topology.pci import normal_address

T = TypeVar("T")


def canonical(name: str) -> str:
    """The form in which names are compared: a PCI address as Linux writes it, any other name unchanged."""
    return normal_address(name) or name


def by_component(given: Mapping[str, T], there: Iterable[Component]) -> tuple[dict[str, T], list[str]]:
    """`given` by the names of the components, and the names without a component.

    Args:
        given: by name, by a device of the component, or by PCI address in any form. The last of two names for one
            component counts.
    """
    names = {
        name: each.name
        for each in reversed(list(there))
        for name in (*reversed(each.devices), each.address, each.name)
        if name
    }
    found = {names[canonical(name)]: value for name, value in given.items() if canonical(name) in names}
    return found, [name for name in given if canonical(name) not in names]
