"""A process beside each command that leases a fabric. It ends the lease if the command is killed.

`python -m fanin_tools.fabric.lease_guard NAME PID START_TIME` waits for the end of that process, or of its input, of
which the command has the other end, and then ends the lease of that process. The input alone would not do: children
that the command has forked have its other end, too, and may outlive it. The guard is in a process group of its own:
Ctrl-C is for the command.
"""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

from fanin_tools.fabric.processes import ProcessIdentity, wait_for_end

MODULE = "fanin_tools.fabric.lease_guard"


@contextlib.contextmanager
def guarded(name: str, leaseholder: ProcessIdentity) -> Iterator[None]:
    """Let a guard stand by for the time of the block, which ends the lease by itself.

    After a signal the guard ends what the block may have left, since a second signal can interrupt that, too.
    """
    command = [sys.executable, "-m", MODULE, name, str(leaseholder.pid), str(leaseholder.start_time)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0) as guard:
        try:
            yield
        except Exception:
            guard.kill()
            raise
        guard.kill()


def main() -> None:
    """Entry point of the module."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    name, leaseholder = sys.argv[1], ProcessIdentity(int(sys.argv[2]), int(sys.argv[3]))
    wait_for_end(leaseholder, pipe=0)
    from fanin_tools.fabric import lifecycle  # late: it takes long to load, and is mostly not needed

    if lifecycle.release(name, leaseholder):
        print(f"fabric {name} has been taken down: its command was killed", file=sys.stderr)


if __name__ == "__main__":
    main()
