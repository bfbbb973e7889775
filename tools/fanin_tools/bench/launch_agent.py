"""What an mpiexec calls in the place of ssh: a script that starts a command in the namespace of a host."""

from __future__ import annotations

from pathlib import Path

from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.namespaces import namespace

# Called as ssh is: options, host, command. Each host has a name of its own: MPIs take equal names for one host.
SCRIPT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
case $host in
%s
esac
exec ip netns exec "$network" unshare --uts sh -c "hostname $network; $*"
"""


def write(fabric: Fabric, path: Path) -> Path:
    """The script for the hosts of a fabric, which are called by the addresses of their NICs."""
    cases = [f"{nic.address}) network={namespace(fabric, nic.host)} ;;" for nic in fabric.nics]
    path.write_text(SCRIPT % "\n".join(cases))
    path.chmod(0o700)
    return path


def inside_first(fabric: Fabric) -> list[str]:
    """What to put before mpiexec: it runs on the first host, whose name it must know."""
    name = namespace(fabric, fabric.nics[0].host)
    return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh"]
