"""The program `fanin-device-plugin`."""

import logging
import os
import sys
from pathlib import Path

from fanin_cluster.errors import ClusterError
from fanin_wire.command_line import Parser
from fanin_wire.installation import install_command

WRONG = 2  # exit code: settings that stay wrong


def main() -> int:
    """Run until a signal ends it. Returns the exit code: 2 for wrong settings, 1 if nothing can run."""
    parser = Parser(
        prog="fanin-device-plugin",
        description="A device plugin of Kubernetes: pairs of a GPU and a virtual function of its RoCE NIC, by subnet."
        " SIGTERM ends it; containers keep what they have.",
    )
    parser.add_argument("--settings", type=Path, help="TOML file, docs/deployment.md; default: all settings theirs")
    parser.add_argument("--log-level", default="warning", choices=("debug", "info", "warning", "error"))
    arguments = parser.parse_args()
    logging.basicConfig(level=arguments.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    from fanin_device_plugin.settings import SettingsInvalid, read_settings

    try:
        settings = read_settings(arguments.settings)
    except SettingsInvalid as error:
        return _failed("INVALID_REQUEST", error, WRONG)
    try:
        import asyncio

        from fanin_device_plugin.daemon import AnotherPlugin, Plugin
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        remedy = install_command("kubernetes")
        print(f"fanin: NOT_SUPPORTED: grpcio and protobuf are missing; {remedy}", file=sys.stderr)
        return 1

    async def run() -> None:
        await Plugin(settings).run()

    os.umask(0o077)  # sockets are for root
    try:
        asyncio.run(run())
    except AnotherPlugin as error:
        return _failed("NO_RESOURCES", error, 1)
    except ClusterError as error:
        return _failed("INVALID_REQUEST", error, WRONG)
    except OSError as error:
        print(f"fanin: NOT_SUPPORTED: {error}; run it as root, on a node of Kubernetes", file=sys.stderr)
        return 1
    return 0


def _failed(name: str, error: ClusterError, code: int) -> int:
    print(f"fanin: {name}: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
