"""The schema of device and job settings: types, defaults and bounds, in msgspec (record 0048).

`convert` is the only way in for values that a user gave; InvalidSetting names the setting, the value, cause and remedy.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec import inspect as schema

from fanin_wire import limits

T = TypeVar("T", bound=Struct)

BROADCAST = ipaddress.IPv4Address("255.255.255.255")  # RFC 919, section 7
WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


class InvalidSetting(ValueError):
    """A setting that is missing, unknown, or has a wrong value.

    place: the setting, as "lanes" or "device[0].ranks". cause: what is wrong, with the value. remedy: what to do.
    """

    def __init__(self, place: str, cause: str, remedy: str) -> None:
        super().__init__(f"{place}: {cause}; {remedy}")
        self.place = place
        self.cause = cause
        self.remedy = remedy


# Checks beyond the type system. Each returns what is wrong with a value; "" if nothing is.


def power_of_two(value: int) -> str:
    """Check a value above 0."""
    return f"{value} is not a power of two" if value & (value - 1) else ""


def ipv4_address(value: str) -> str:
    """Whether a device can have this IPv4 address: packets carry it, and others answer to it."""
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        return f"{value!r} is not an IPv4 address"
    if address.is_unspecified:
        return f"{value} stands for all addresses of a machine, and a device has one"
    # Linux routes 240.0.0.0/4, which Python calls reserved, except the broadcast address.
    return f"{value} is not one machine's address" if address.is_multicast or address == BROADCAST else ""


def optional_ipv4_address(value: str) -> str:
    return ipv4_address(value) if value else ""


def optional_multicast_address(value: str) -> str:
    try:
        return "" if not value or ipaddress.IPv4Address(value).is_multicast else f"{value} is not a multicast address"
    except ValueError:
        return f"{value!r} is not an IPv4 address"


def _checked(check: Callable[[Any], str], remedy: str) -> dict[str, Any]:
    """Metadata of a type: a check that runs after the bounds, and its remedy."""
    return {"check": check, "remedy": remedy}


Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,23}$", extra={"remedy": "use 1 to 24 of a-z, 0-9 and '-'"})]
ADDRESS_REMEDY = "write four numbers, as in 127.77.0.1, the address of an interface"
Address = Annotated[str, Meta(extra=_checked(ipv4_address, ADDRESS_REMEDY))]
OptionalAddress = Annotated[str, Meta(extra=_checked(optional_ipv4_address, ADDRESS_REMEDY))]
OptionalMulticastAddress = Annotated[str, Meta(extra=_checked(optional_multicast_address, "use one of 239.0.0.0/8"))]
VERBS_PREFIX, RAW_SUFFIX = "verbs://", "?raw"  # around the name of a verbs device; ?raw: RAW_PACKET, not UD
PortName = Annotated[
    str,
    Meta(
        pattern=rf"^(udp|{VERBS_PREFIX}[A-Za-z0-9_.-]{{1,63}}({re.escape(RAW_SUFFIX)})?)$",
        extra={"remedy": "use udp, or verbs:// and the name of a verbs device, with ?raw for a RAW_PACKET queue pair"},
    ),
]
RDMA_PREFIX = "rdma://"
HostName = Annotated[
    str,
    Meta(
        pattern=rf"^({RDMA_PREFIX}[A-Za-z0-9_.-]{{1,63}}@\d+\.\d+\.\d+\.\d+:\d{{1,5}})?$",
        extra={"remedy": "write it as in rdma://mlx5_0@192.168.100.2:4792"},
    ),
]
Mtu = Annotated[int, Meta(ge=limits.MIN_MTU, le=limits.MAX_MTU)]
Lanes = Annotated[int, Meta(ge=1, le=limits.MAX_LANES, extra=_checked(power_of_two, "use for example 2"))]
Detection = Annotated[float, Meta(ge=limits.MIN_DETECTION, le=limits.MAX_DETECTION)]
DeviceSlots = Annotated[
    int,
    Meta(
        ge=limits.MIN_DEVICE_SLOTS,
        le=limits.MAX_DEVICE_SLOTS,
        extra=_checked(power_of_two, f"use for example {limits.DEFAULT_DEVICE_SLOTS}"),
    ),
]
JobSlots = Annotated[
    int,
    Meta(
        ge=limits.MIN_JOB_SLOTS,
        le=limits.MAX_JOB_SLOTS,
        extra=_checked(power_of_two, f"use for example {limits.DEFAULT_JOB_SLOTS}"),
    ),
]
# Of a link; "": unshaped
Rate = Annotated[str, Meta(pattern=r"^(\d+(\.\d+)?[kmg]?bit)?$", extra={"remedy": "write it as tc does: 1gbit"})]


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """`convert` checks types and bounds; construction only runs the checks of the metadata."""

    def __post_init__(self) -> None:
        for name, extra in _checks_of(type(self)):
            if wrong := extra["check"](getattr(self, name)):
                raise InvalidSetting(name, wrong, extra["remedy"])


@functools.cache
def _checks_of(kind: type[Struct]) -> list[tuple[str, dict[str, Any]]]:
    """The fields with a check, each with its metadata."""
    metadata = ((name, _extra(field.type)) for name, field in fields(kind).items())
    return [(name, extra) for name, extra in metadata if "check" in extra]


class DeviceSettings(Settings, frozen=True, kw_only=True):
    """The options of `fanin-nic` and `fanin-switch`."""

    name: Annotated[str, Meta(description="name in logs and in the status")]
    address: Annotated[Address, Meta(description="IPv4 address of the device; it receives on UDP port 4791")]
    socket: Annotated[str, Meta(description="path of the control socket")]
    mtu: Annotated[Mtu | None, Meta(description="MTU of the path, in bytes; else that of the interface")] = None
    slots: Annotated[DeviceSlots, Meta(description="segment buffers of each lane: a power of two")] = (
        limits.DEFAULT_DEVICE_SLOTS
    )
    port: Annotated[
        PortName, Meta(description="what carries packets: udp, or verbs://DEVICE for a queue pair of a verbs device")
    ] = "udp"
    rdma: Annotated[
        HostName, Meta(description="where clients on another host find it: rdma://VERBS-DEVICE@ADDRESS:TCP-PORT")
    ] = ""
    token_file: Annotated[str, Meta(description="file with the token that clients over RDMA must show")] = ""
    receive_buffer: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="bytes of the socket's buffer")] = (
        None
    )
    lanes: Annotated[Lanes, Meta(description=f"cores to use: a power of two up to {limits.MAX_LANES}")] = 1
    detection: Annotated[
        Detection, Meta(description="seconds of silence after which a neighbour is lost; alike on all devices")
    ] = limits.DEFAULT_DETECTION
    group: Annotated[
        OptionalMulticastAddress, Meta(description="multicast address for results, if all devices below receive it")
    ] = ""
    group_size: Annotated[
        Annotated[int, Meta(ge=0)],
        Meta(description="devices that receive it; results go there only if most of them want the result"),
    ] = 0
    parent_group: Annotated[OptionalMulticastAddress, Meta(description="--group of the device above")] = ""


class JobSettings(Settings, frozen=True):
    """How devices compute a job.

    slots: segment buffers that the job leases on each device, a power of two. reproducible: "none": contributions are
    added in the order of arrival; "run": the same bits in every run over one route; "shape": the same bits in a ring
    and in a tree of one switch as well. wide: partials of f16 and bf16 travel as f32.
    """

    slots: JobSlots = limits.DEFAULT_JOB_SLOTS
    reproducible: Literal["none", "run", "shape"] = "none"
    wide: bool = False


def convert(values: Mapping[str, Any], kind: type[T], *, from_text: bool = False) -> T:
    """Settings of class `kind` from `values`, a mapping as TOML, JSON or a command line gives it.

    Nested tables are mappings, lists of tables are lists. from_text: numbers may be text, as on a command line. Raises
    InvalidSetting for the first wrong setting.
    """
    try:
        return msgspec.convert(values, kind, strict=not from_text)
    except msgspec.ValidationError as error:
        raise _explain(error, values, kind) from None


def validate(settings: T) -> T:
    """Check types and bounds of settings made by a program; returns them. Raises InvalidSetting."""
    convert(msgspec.to_builtins(settings), type(settings))
    return settings


MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?")
MISSING = re.compile(r"Object missing required field `(.*)`")
UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
WRONG_TYPE = re.compile(r"Expected `(\w+)(?: \| null)?`, got `?(\w+)`?")
WRONG_LENGTH = re.compile(r"Expected `array` of length (\d+), got \d+")


def _explain(error: msgspec.ValidationError, values: Any, kind: type[Struct]) -> InvalidSetting:
    """A finding of msgspec as an InvalidSetting."""
    found = MESSAGE.fullmatch(str(error))
    assert found is not None
    what, path = found["what"], found["path"] or ""
    if isinstance(error.__cause__, InvalidSetting):
        cause = error.__cause__
        return InvalidSetting(_join(path, cause.place), cause.cause, cause.remedy)
    value, type_ = _follow(path, values, schema.type_info(kind))
    if missing := MISSING.fullmatch(what):
        return InvalidSetting(_join(path, missing[1]), "missing", f"add {missing[1]} = ...")
    if unknown := UNKNOWN.fullmatch(what):
        names = ", ".join(field.encode_name for field in _plain(type_).fields)
        return InvalidSetting(_join(path, unknown[1]), "unknown key", f"use {names}")
    if length := WRONG_LENGTH.fullmatch(what):
        return InvalidSetting(path, f"{value!r} has {len(value)} elements", f"give {length[1]}")
    if wrong := WRONG_TYPE.fullmatch(what):
        word = WORDS.get(wrong[1], wrong[1])
        return InvalidSetting(path, f"{value!r} is not {word}", f"give {word}")
    return _explain_value(path, value, type_)


def _explain_value(path: str, value: Any, type_: Any) -> InvalidSetting:
    """Explain a value that has the right type but is not allowed."""
    plain = _plain(type_)
    if isinstance(plain, schema.LiteralType):
        return InvalidSetting(path, f"{value!r} is not known", f"use one of {', '.join(map(str, plain.values))}")
    low, high = getattr(plain, "ge", None), getattr(plain, "le", None)
    if low is not None or high is not None:
        remedy = f"use {low:g} or more" if high is None else f"use {low} to {high}"
        return InvalidSetting(path, f"{value} is out of range", remedy)
    return InvalidSetting(path, f"{value!r} is not allowed", _extra(type_).get("remedy", "see the documentation"))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _follow(path: str, value: Any, type_: Any) -> tuple[Any, Any]:
    """The value at a path of msgspec's ("device[0].ranks"), and its type in the schema."""
    for name, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        plain = _plain(type_)
        if name:
            value = value[name]
            type_ = next(field.type for field in plain.fields if field.encode_name == name)
        else:
            value = value[int(index)]
            items = getattr(plain, "item_types", None)
            type_ = items[int(index)] if items else plain.item_type
    return value, type_


def _plain(type_: Any) -> Any:
    """A type of the schema without metadata, and without None if it is optional."""
    while True:
        if isinstance(type_, schema.Metadata):
            type_ = type_.type
        elif isinstance(type_, schema.UnionType):
            type_ = next(part for part in type_.types if not isinstance(part, schema.NoneType))
        else:
            return type_


def _extra(type_: Any) -> dict[str, Any]:
    """Our metadata of a type."""
    found: dict[str, Any] = {}
    while isinstance(type_, schema.Metadata):
        found |= type_.extra or {}
        type_ = type_.type
    return found


def fields(kind: type[Struct]) -> dict[str, schema.Field]:
    """The settings of a class, by name."""
    return {field.name: field for field in schema.type_info(kind).fields}  # type: ignore[attr-defined]


def description(field: schema.Field) -> str:
    """A field's description, for the help of a command line."""
    text = field.type.extra_json_schema if isinstance(field.type, schema.Metadata) else None
    return str((text or {}).get("description", ""))
