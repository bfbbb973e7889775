"""What a device implements, stated by its maker in a TOML file. The suite names other scripts and skips them."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from fanin_wire.abi import MAX_CHILDREN, JobFlag
from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS, Operation
from fanin_wire.settings import InvalidSetting, Settings, convert

SHIPPED = Path(__file__).with_name("profiles")
SERVICES = ("RC", "UC", "UD")
TYPES = tuple(each.name for each in DATATYPES)
NAMES = tuple(each.name for each in OPERATIONS)
# The flags of CONFIG that need a feature
FEATURES = {
    "wide": int(JobFlag.WIDE | JobFlag.REPRODUCIBLE_SHAPE),
    "reproducible": int(JobFlag.REPRODUCIBLE_RUN | JobFlag.REPRODUCIBLE_SHAPE),
}


class LeftOut(Exception):
    """A script needs a feature, the argument, that the device does not implement."""


class Profile(Settings, frozen=True):
    """A device under test.

    role: in a job; "nic": of trees and rings; "rocev2": of ordinary traffic alone.
    operations, types: that it computes, by names as in SPEC.md.
    children: its limit. lanes: their number.
    middle: whether it may stand below another switch.
    full: whether it answers a full CONFIG with a full CONFIG_ACK, so that the path is proved both ways.
    ahead: whether it sends data ahead of the result; of a NIC: whether it sets AHEAD.
    detection_s, ageing_s: its times. In real time, scripts of more than 10 s are skipped.
    services, atomics: of its queue pairs for ordinary traffic.
    wide: whether partials of f16 and bf16 may travel as f32. reproducible: whether it folds in the order of the bits.
    shares: whether it limits a child's share of jobs and slots.
    """

    role: Literal["switch", "nic", "nic-tree", "nic-ring", "rocev2"] = "switch"
    operations: tuple[str, ...] = NAMES
    types: tuple[str, ...] = TYPES
    children: Annotated[int, Meta(ge=3, le=MAX_CHILDREN)] = MAX_CHILDREN
    lanes: Annotated[int, Meta(ge=1, le=256)] = 1
    middle: bool = True
    full: bool = True
    ahead: bool = True
    detection_s: Annotated[float, Meta(gt=0)] = 5.0
    ageing_s: Annotated[float, Meta(gt=0)] = 60.0
    wide: bool = True
    reproducible: bool = True
    shares: bool = True
    services: tuple[str, ...] = SERVICES
    atomics: bool = True

    def has(self, operation: Operation, datatype: DataType) -> bool:
        return operation.name in self.operations and datatype.name in self.types

    def require(self, operation: Operation, datatype: DataType) -> None:
        """Raises LeftOut if the device does not compute an operation with a type."""
        if not self.has(operation, datatype):
            raise LeftOut(f"{operation.name} of {datatype.name}")

    def require_flags(self, flags: int) -> None:
        """Raises LeftOut if the device has no jobs with these flags of CONFIG."""
        for feature, needing in FEATURES.items():
            if flags & needing and not getattr(self, feature):
                raise LeftOut(f"{feature} jobs")

    def require_children(self, children: int) -> None:
        """Raises LeftOut if the device can not have so many children."""
        if children > self.children:
            raise LeftOut(f"{children} children")

    def require_middle(self) -> None:
        """Raises LeftOut if the device can be a top only."""
        if not self.middle:
            raise LeftOut("place below another switch")

    def require_full(self) -> None:
        """Raises LeftOut if the device answers no CONFIG in full length."""
        if not self.full:
            raise LeftOut("CONFIG_ACK of full length")

    def require_ahead(self) -> None:
        """Raises LeftOut if the device sends nothing ahead of the result."""
        if not self.ahead:
            raise LeftOut("data ahead of the result")

    def require_service(self, service: str) -> None:
        """Raises LeftOut if the device has no queue pairs of a service."""
        if service not in self.services:
            raise LeftOut(f"queue pairs of {service}")

    def require_atomics(self) -> None:
        """Raises LeftOut if the device has no atomics."""
        if not self.atomics:
            raise LeftOut("atomics")

    def require_shares(self) -> None:
        """Raises LeftOut if no child can reach a limit of the device."""
        if not self.shares:
            raise LeftOut("limit of jobs and slots")

    def require_lanes(self, lanes: int) -> None:
        """Raises LeftOut if the device has fewer lanes."""
        if lanes > self.lanes:
            raise LeftOut(f"{lanes} lanes")


EVERYTHING = Profile()
EVERY_NIC = Profile(role="nic")


def shipped() -> list[str]:
    """Names of the profiles in the package."""
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


def load(place: str) -> Profile:
    """The profile of a file, or the shipped one of this name. Raises InvalidSetting."""
    file = SHIPPED / f"{place}.toml" if place in shipped() else Path(place)
    try:
        return read(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else "no text"
        raise InvalidSetting("profile", cause, f"give a file in TOML, or one of {', '.join(shipped())}") from None


def read(text: str) -> Profile:
    """The profile of a text in TOML. Raises InvalidSetting."""
    try:
        profile = convert(tomllib.loads(text), Profile)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting("profile", str(error), "write it in TOML, as docs/conformance.md shows") from None
    lists = [("operations", profile.operations, NAMES), ("types", profile.types, TYPES)]
    for place, given, names in [*lists, ("services", profile.services, SERVICES)]:
        if unknown := sorted(set(given) - set(names)):
            raise InvalidSetting(place, f"{unknown[0]!r} is unknown", f"use some of {', '.join(names)}")
    return profile
