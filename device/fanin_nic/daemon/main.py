"""The programs `fanin-nic` and `fanin-switch`.

Their settings come from the command line and a file: TOML with the fields of DeviceSettings, as a service's
/etc/fanin/NAME.toml. Notices to a service manager follow the protocol of sd_notify(3), as of systemd: a datagram of
lines NAME=VALUE goes to the UNIX socket in $NOTIFY_SOCKET, where "@" stands for the zero byte of an abstract name;
without the variable none is sent.
"""

import gc
import logging
import os
import signal
import socket
import sys
import tomllib
from argparse import SUPPRESS
from pathlib import Path
from typing import Any

from fanin_wire.command_line import Parser
from fanin_wire.settings import DeviceSettings, InvalidSetting, convert, description, fields

LOG_LEVELS = ("debug", "info", "warning", "error")
ENVIRONMENT_VARIABLE = "NOTIFY_SOCKET"
REMEDY = "see docs/deployment.md for an example"
log = logging.getLogger(__name__)


# The service manager


class ServiceManager:
    """Sends this process's notices to the socket `address`; "": none. By default it takes the environment's variable,
    which children must not inherit."""

    def __init__(self, address: str | None = None) -> None:
        self._address = os.environ.pop(ENVIRONMENT_VARIABLE, "") if address is None else address

    def status(self, text: str) -> None:
        """Say in one line, for people, what the device does."""
        self._send(f"STATUS={text}")

    def ready(self, text: str) -> None:
        """The device accepts ranks."""
        self._send(f"READY=1\nSTATUS={text}")

    def stopping(self, text: str) -> None:
        self._send(f"STOPPING=1\nSTATUS={text}")

    def _send(self, message: str) -> None:
        """A manager that does not listen ends nothing."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            try:
                sender.sendto(message.encode(), address)
            except OSError as error:
                log.warning("%s=%s does not accept notices: %s", ENVIRONMENT_VARIABLE, self._address, error)


# Settings


def _parse(kind: str) -> tuple[DeviceSettings, str]:
    """Settings and log level. Exits with 2 if they are wrong."""
    parser = _parser(kind)
    arguments: dict[str, Any] = vars(parser.parse_args())
    log_level, path = arguments.pop("log_level"), arguments.pop("settings")
    try:
        given = read_settings(path) if path else {}
    except InvalidSetting as error:
        parser.refuse(f"{error.place}: {error.cause}", error.remedy)
    required = [name for name, field in fields(DeviceSettings).items() if field.required]
    if missing := [name for name in required if name not in arguments and name not in given]:
        remedy = f"give --{missing[0]}" + (f", or add it to {path}" if path else "")
        parser.refuse(f"{', '.join(missing)}: missing", remedy)
    try:
        return convert(given | arguments, DeviceSettings, from_text=True), log_level
    except InvalidSetting as error:
        parser.refuse(f"--{error.place.replace('_', '-')}: {error.cause}", error.remedy)


def _parser(kind: str) -> Parser:
    """A parser with an option for each field of DeviceSettings."""
    parser = Parser(
        prog=f"fanin-{kind}",
        description=f"A collective-offload {kind}. It is ready when its socket answers, and tells a service manager so."
        " SIGTERM ends it at once. After SIGUSR1 it takes no new job, and ends when the present ones have ended.",
    )
    parser.add_argument("--settings", type=Path, help="TOML file with these settings; options have precedence")
    for name, field in fields(DeviceSettings).items():
        text = description(field)
        shown = f"{text} (default {field.default})" if not field.required and field.default else text
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, default=SUPPRESS, help=shown)
    parser.add_argument("--log-level", default="warning", choices=LOG_LEVELS)
    return parser


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a file, with types and bounds checked; required ones may be missing. Raises InvalidSetting, whose
    `place` has the file: it can not be read, is not TOML, or a setting is wrong."""
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidSetting(str(path), error.strerror or str(error), REMEDY) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(str(path), f"not TOML: {error}", REMEDY) from None
    stand_in = {name: _stand_in(name) for name, field in fields(DeviceSettings).items() if field.required}
    try:
        convert(stand_in | values, DeviceSettings)
    except InvalidSetting as error:
        raise InvalidSetting(f"{path}: {error.place}", error.cause, error.remedy) from None
    return values


def _stand_in(name: str) -> str:
    """A value for a required setting, which the command line may give."""
    return "127.0.0.1" if name == "address" else "0"


# The programs


def serve(
    kind: str, device_settings: DeviceSettings, log_level: str = "warning", manager: ServiceManager | None = None
) -> int:
    """Run a device until a signal ends it, it is drained, or its port fails.

    kind: "nic" or "switch". log_level: one of LOG_LEVELS. manager: receives notices; None: none. Returns the exit code:
    1 if the device could not start or go on.
    """
    logging.basicConfig(
        level=log_level.upper(), format=f"%(asctime)s {device_settings.name} %(levelname)s %(name)s: %(message)s"
    )
    gc.disable()  # nothing becomes garbage until the device is ready
    from fanin_nic.daemon.device import Device  # loads the compiled code: not for --help
    from fanin_nic.hostif.listener import SocketInUse
    from fanin_nic.hostif.remote.service import RemoteFailed
    from fanin_nic.port.port import PortError

    tell = manager or ServiceManager(address="")
    tell.status("loading the device code; what the cache lacks is compiled, which takes a minute or two")
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))  # nothing runs here yet
    try:
        device = Device(device_settings, is_switch=kind == "switch", tell=tell.status)
    except (PortError, SocketInUse, RemoteFailed, OSError) as error:
        print(f"fanin-{kind}: {device_settings.name}: {error}", file=sys.stderr)
        return 1
    gc.freeze()
    gc.enable()
    signal.set_wakeup_fd(device.wake_writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: device.stop())
    signal.signal(signal.SIGUSR1, lambda *_: device.drain())
    accepts = "jobs" if kind == "switch" else "ranks"
    told = f"{kind} at {device_settings.address} accepts {accepts}; {device.carries}"
    log.info("%s", told)
    tell.ready(told)
    try:
        device.run()
    finally:
        tell.stopping(device.failure or "ending")
        device.close()
    if device.failure:
        print(f"fanin-{kind}: {device_settings.name}: {device.failure}", file=sys.stderr)
        return 1
    return 0


def nic() -> None:
    """Entry point of `fanin-nic`."""
    sys.exit(serve("nic", *_parse("nic"), ServiceManager()))


def switch() -> None:
    """Entry point of `fanin-switch`."""
    sys.exit(serve("switch", *_parse("switch"), ServiceManager()))
