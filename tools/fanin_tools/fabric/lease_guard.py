"""A process beside each command that leases a fabric; it ends the lease if the command is killed.

`python -m fanin_tools.fabric.lease_guard NAME PID START_TIME` waits for the end of that process, or of its own input,
whose other end the command has; then it ends the lease. The input alone does not suffice: forked children of the
command have its other end, too, and may outlive the command. The guard has its own process group: Ctrl-C is for the
command.
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
    """A guard for the time of the block, which then ends the lease by itself. After a signal the guard ends what the
    block may have left, since a second signal can interrupt the block."""
    command = [sys.executable, "-m", MODULE, name, str(leaseholder.pid), str(leaseholder.start_time)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0) as guard:
        try:
            yield
        except Exception:
            guard.kill()
            raise
        guard.kill()


def main() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    name, leaseholder = sys.argv[1], ProcessIdentity(int(sys.argv[2]), int(sys.argv[3]))
    wait_for_end(leaseholder, pipe=0)
    from fanin_tools.fabric import lifecycle  # late: it takes long to load, and is seldom needed

    if lifecycle.release(name, leaseholder):
        print(f"fabric {name} has been taken down: its command was killed", file=sys.stderr)


if __name__ == "__main__":
    main()
