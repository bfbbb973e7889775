"""The programs `fanin-nic` and `fanin-switch`."""

import gc
import logging
import signal
import sys
from argparse import SUPPRESS
from pathlib import Path
from typing import Any

from fanin_nic.daemon import settings_file
from fanin_nic.daemon.service_manager import ServiceManager
from fanin_wire import settings
from fanin_wire.command_line import Parser
from fanin_wire.settings import DeviceSettings, InvalidSetting

log = logging.getLogger(__name__)

LOG_LEVELS = ("debug", "info", "warning", "error")


def _parser(kind: str) -> Parser:
    """A parser with an option for each field of DeviceSettings."""
    parser = Parser(
        prog=f"fanin-{kind}",
        description=f"A collective-offload {kind}. It is ready when its socket answers, and tells a service manager so."
        " SIGTERM ends it at once. After SIGUSR1 it takes no new job, and ends when the present ones have ended.",
    )
    parser.add_argument("--settings", type=Path, help="TOML file with these settings; options have precedence")
    for name, field in settings.fields(DeviceSettings).items():
        text = settings.description(field)
        shown = f"{text} (default {field.default})" if not field.required and field.default else text
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, default=SUPPRESS, help=shown)
    parser.add_argument("--log-level", default="warning", choices=LOG_LEVELS)
    return parser


def _parse(kind: str) -> tuple[DeviceSettings, str]:
    """Settings and log level. Exits with 2 if they are wrong."""
    parser = _parser(kind)
    arguments: dict[str, Any] = vars(parser.parse_args())
    log_level, path = arguments.pop("log_level"), arguments.pop("settings")
    try:
        given = settings_file.read(path) if path else {}
    except InvalidSetting as error:
        parser.refuse(f"{error.place}: {error.cause}", error.remedy)
    required = [name for name, field in settings.fields(DeviceSettings).items() if field.required]
    if missing := [name for name in required if name not in arguments and name not in given]:
        remedy = f"give --{missing[0]}" + (f", or add it to {path}" if path else "")
        parser.refuse(f"{', '.join(missing)}: missing", remedy)
    try:
        return settings.convert(given | arguments, DeviceSettings, from_text=True), log_level
    except InvalidSetting as error:
        parser.refuse(f"--{error.place.replace('_', '-')}: {error.cause}", error.remedy)


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
