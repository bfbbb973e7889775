"""Fanin for programs: collective communication in the network devices.

    import fanin
    with fanin.Communicator() as communicator:
        result = communicator.allreduce(array, op="sum")

`fanin.verbs` is the interface below, in the habits of pyverbs; `fanin.errors` has an exception for each status.
"""

from fanin.driver import build_it
from fanin.errors import DriverMissing, FaninError

try:
    from fanin._binding import Request
except ImportError as error:
    raise DriverMissing(f"the extension of this package can not be loaded ({error})", remedy=build_it()) from None

from fanin.api.capabilities import Capabilities
from fanin.api.communicator import Communicator
from fanin.collectives.offload import Reason
from fanin.collectives.variants import Persistent
from fanin.job import Job, JobNode
from fanin.membership.member import Progress
from fanin.verbs.context import device_status

__all__ = [
    "Capabilities",
    "Communicator",
    "FaninError",
    "Job",
    "JobNode",
    "Persistent",
    "Progress",
    "Reason",
    "Request",
    "__version__",
    "device_status",
]


def __getattr__(name: str) -> str:
    """Looked up on demand, since it opens files."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("fanin")
    raise AttributeError(f"module {__name__} has no attribute {name}")
