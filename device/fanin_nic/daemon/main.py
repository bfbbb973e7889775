"""The programs `fanin-nic` and `fanin-switch`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from typing import Any

from fanin_wire import settings
from fanin_wire.settings import DeviceSettings, InvalidSetting

LOG_LEVELS = ("debug", "info", "warning", "error")


def _parser(kind: str) -> argparse.ArgumentParser:
    """Parser with an option for each field of DeviceSettings."""
    parser = argparse.ArgumentParser(
        prog=f"fanin-{kind}", description=f"A collective-offload {kind}. It is ready when its socket answers."
    )
    for name, field in settings.fields(DeviceSettings).items():
        text = settings.description(field)
        shown = f"{text} (default {field.default})" if not field.required and field.default else text
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, required=field.required, default=argparse.SUPPRESS, help=shown)
    parser.add_argument("--log-level", default="warning", choices=LOG_LEVELS)
    return parser


def _parse(kind: str) -> tuple[DeviceSettings, str]:
    """Settings and log level of the command line. Exits with 2 if they are wrong."""
    parser = _parser(kind)
    arguments: dict[str, Any] = vars(parser.parse_args())
    log_level = arguments.pop("log_level")
    try:
        return settings.convert(arguments, DeviceSettings, from_text=True), log_level
    except InvalidSetting as error:
        parser.error(f"--{error.place.replace('_', '-')}: {error.cause}; {error.remedy}")


def serve(kind: str, device_settings: DeviceSettings, log_level: str = "warning") -> int:
    """Run a device until a signal ends it.

    Args:
        kind: "nic" or "switch".
        device_settings: what the device is started with.
        log_level: one of LOG_LEVELS.

    Returns:
        The exit code: 1 if the device could not start.
    """
    logging.basicConfig(
        level=log_level.upper(), format=f"%(asctime)s {device_settings.name} %(levelname)s %(name)s: %(message)s"
    )
    from fanin_nic.daemon.device import Device  # loads the compiled code: not for --help
    from fanin_nic.hostif.listener import SocketInUse
    from fanin_nic.hostif.remote.service import RemoteFailed
    from fanin_nic.port.port import PortError

    try:
        device = Device(device_settings, is_switch=kind == "switch")
    except (PortError, SocketInUse, RemoteFailed, OSError) as error:
        print(f"fanin-{kind}: {device_settings.name}: {error}", file=sys.stderr)
        return 1
    signal.set_wakeup_fd(device.wake_writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: device.stop())
    try:
        device.run()
    finally:
        device.close()
    return 0


def nic() -> None:
    """Entry point of `fanin-nic`."""
    sys.exit(serve("nic", *_parse("nic")))


def switch() -> None:
    """Entry point of `fanin-switch`."""
    sys.exit(serve("switch", *_parse("switch")))
