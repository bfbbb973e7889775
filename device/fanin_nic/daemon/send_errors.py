"""The log of packets that could not be sent: a counter grows in silence, an administrator reads the log."""

import errno
import logging
import time
from collections.abc import Sequence

from fanin_nic.port.port import Port

log = logging.getLogger(__name__)

SILENCE = 60.0  # seconds between two lines about one device
OWN_MTU = 0  # in place of an errno
PATIENCE = 1.0  # seconds before an error that mostly passes is logged
FULL_QUEUE = (errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM)
PASSING = (*FULL_QUEUE, errno.ENOTCONN)  # mostly passes
FULL = "the queue of the network interface is full again and again: see ip -s link"
REMEDIES = {
    OWN_MTU: "a packet of this device was longer than its MTU of {mtu} bytes: report this defect",
    **dict.fromkeys(FULL_QUEUE, FULL),
    errno.ENOTCONN: "its queue pair is not known, because it has not answered: see whether that device is up",
    errno.EIO: "the RDMA device has failed: this device's log has said how",
    errno.EMSGSIZE: "the network interface or the route carries less than MTU {mtu}: raise its MTU, or start all"
    " devices of the path with a smaller --mtu",
    errno.EPERM: "a packet filter of this machine refuses them: let UDP port 4791 pass (nft list ruleset)",
    errno.EACCES: "the system refuses them: see its packet filters, and whether it is a broadcast address",
    errno.ENETUNREACH: "no route leads to it: see ip route get {address}, and whether the interface is up",
    errno.EHOSTUNREACH: "it does not answer on its network: see ip neigh show {address}",
    errno.ENETDOWN: "the network interface is down: ip link set up",
    errno.ENODEV: "the network interface is gone",
    errno.EINVAL: "this machine has lost the address of this device, or the kernel can not cut packets of"
    " MTU {mtu}: see ip address",
}


class SendErrors:
    """Logs, for each other device, the first failed packet at once, then at most a line a minute. ports: of all
    lanes."""

    def __init__(self, ports: Sequence[Port]) -> None:
        self._ports = ports
        self._failed = 0
        self._logged: dict[str, tuple[int, float]] = {}  # packets in the last line, and when the next may come
        self._last: dict[str, tuple[int, float]] = {}  # packets so far, and when the last one was lost

    def look(self) -> None:
        """Log what is new; cheap if nothing is."""
        failed = sum(port.failed_sends() for port in self._ports)
        if failed == self._failed:
            return
        self._failed = failed
        for port in self._ports:
            for address, (count, code) in port.send_errors().items():
                self._look_at(port, address, count, code)

    def _look_at(self, port: Port, address: str, count: int, code: int) -> None:
        key, now = f"{port.lane} {address}", time.monotonic()
        told, next_line = self._logged.get(key, (0, now))
        before, lost_at = self._last.get(key, (0, 0.0))
        if count == before and code in PASSING:
            return  # it has passed
        if count != before:
            self._last[key] = count, now
            if code in PASSING and now - lost_at > 2 * PATIENCE:
                next_line = max(next_line, now + PATIENCE)  # for example a queue that was not full before
        if count == told or now < next_line:
            self._logged[key] = told, next_line
            return
        self._logged[key] = count, now + SILENCE
        remedy = REMEDIES.get(code, "the kernel's log may say more").format(mtu=port.mtu, address=address)
        log.warning("%d packets to %s could not be sent: %s; %s", count - told, address, _words(code), remedy)


def _words(code: int) -> str:
    """The name and number of an error."""
    return f"{errno.errorcode.get(code, 'error')} {code}" if code else "longer than the MTU of the device"
