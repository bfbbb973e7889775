"""A launch agent for mpiexec: a script that replaces ssh, and starts a command in the namespace of a host."""

from pathlib import Path

from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.namespaces import namespace

VALUED = "BbcDEeFIiJLlmOoPpQRSWw"  # options of ssh that take the next word as their value
# Arguments as of ssh: options, host, command. Each host gets its own name: MPIs take equal names for one host.
SCRIPT = """#!/bin/sh
PATH=$PATH:/usr/sbin:/sbin
while [ "${1#-}" != "$1" ]; do
    case $1 in -[%(valued)s]) shift ;; esac
    shift
done
host=$1
shift
case $host in
%(cases)s
*)
    echo "UNKNOWN_HOST: '$host' is no host of the fabric '%(fabric)s'; its hosts are %(hosts)s:" \
        "name these to the launcher, or write the launch agent anew if the fabric has changed" >&2
    exit 255
    ;;
esac
exec ip netns exec "$network" unshare --uts sh -c "hostname $network; $*"
"""


def write(fabric: Fabric, path: Path) -> Path:
    """For the hosts of a fabric, each named by the address of its NIC."""
    cases = [f"{nic.address}) network={namespace(fabric, nic.host)} ;;" for nic in fabric.nics]
    hosts = ", ".join(nic.address for nic in fabric.nics)
    path.write_text(SCRIPT % {"valued": VALUED, "cases": "\n".join(cases), "fabric": fabric.name, "hosts": hosts})
    path.chmod(0o700)
    return path


def inside_first(fabric: Fabric) -> list[str]:
    """The words before mpiexec that run it on the first host, under that host's name."""
    name = namespace(fabric, fabric.nics[0].host)
    return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh"]
