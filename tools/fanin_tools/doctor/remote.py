"""Check of the devices on other hosts that FANIN_SOCKET names with rdma://."""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator

from fanin_tools.doctor.check import CheckResult, Level
from fanin_tools.fabric.tree import remote_addresses

SECONDS = 10.0  # for a request without data, which waits for no other rank
ENABLES = "programs with this FANIN_SOCKET"
SLOTS, CHUNK = 8, 256  # of that request's job
KEY_BITS = 32


def run_checks() -> Iterator[CheckResult]:
    for address in remote_addresses(os.environ.get("FANIN_SOCKET", "")):
        yield check_device(address)


def check_device(address: str) -> CheckResult:
    """Whether a request goes there over RDMA, and its completion comes back."""
    from fanin.errors import FaninError

    try:
        seconds = _round_trip(address)
    except FaninError as error:
        return CheckResult(address, Level.BROKEN, error.detail, ENABLES, error.remedy)
    return CheckResult(address, Level.OK, f"a request and its completion took {seconds * 1e6:.0f} us", ENABLES)


def _round_trip(address: str) -> float:
    """Seconds. Raises FaninError."""
    from fanin.errors import FaninError, Timeout
    from fanin.verbs import CQ, PD, Address, CollectiveQP, CollectiveWR, Context, Membership
    from fanin_wire.abi import DType, Op

    job, key = (secrets.randbits(KEY_BITS) for _ in range(2))
    with contextlib.closing(Context(address)) as context:
        completions = CQ(context)
        queue_pair = CollectiveQP(PD(context), completions)
        queue_pair.join(Membership(jid=job, key=key, slots=SLOTS, chunk=CHUNK), SECONDS)
        begun = time.perf_counter()
        queue_pair.post_send(CollectiveWR(int(Op.SUM), int(DType.F32), 0, [Address(0, 0)]))
        if not completions.wait(SECONDS):
            raise Timeout(f"no completion has come in {SECONDS:.0f} s", remedy="See the log of the device.")
        seconds = time.perf_counter() - begun
        for completion in completions.poll(1)[1]:
            if completion.status:
                raise FaninError.of(completion.status, "the request of the check")
    return seconds
