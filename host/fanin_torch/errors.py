"""Errors of the driver as torch's programs catch them: also as torch.distributed.DistBackendError, a RuntimeError."""

import functools
from typing import Any, NoReturn

from torch.distributed import DistBackendError

from fanin.errors import FaninError
from fanin_wire.status import status_entry

# General remedies for programs of torch.
REMEDIES = {
    "LOCAL_PROTECTION_ERROR": "Give tensors in ordinary memory of the CPU that stays until the work has ended.",
    "PEER_LOST": "See who is named. Go on without them by fanin_torch.survivors, or start all ranks again by torchrun.",
    "TIMEOUT": "See which rank is named as missing, or give init_process_group a longer timeout.",
    "NO_RESOURCES": "Destroy groups that are not needed, or set FANIN_TORCH_SLOTS to fewer slots.",
    "ABORTED": "See the first error of all ranks, which names the cause. Then make a new group.",
    "FLUSHED": "Wait for a work before you destroy its group. Else the first error of the group names the cause.",
    "NOT_SUPPORTED": "Use an operation and a data type that devices compute: docs/pytorch.md has them.",
}


@functools.cache
def _torch_class(kind: Any) -> Any:
    return type(kind.__name__, (kind, DistBackendError), {"__doc__": kind.__doc__, "__module__": __name__})


def as_torch(error: FaninError) -> FaninError:
    """The same error, also as a DistBackendError."""
    if isinstance(error, DistBackendError):
        return error
    kind: Any = type(error)
    made: FaninError = _torch_class(kind).__new__(_torch_class(kind), *error.args)
    made.__dict__.update(error.__dict__)
    entry = status_entry(error.status)
    if error.remedy == entry.remedy:  # the general one is for Fanin's own interface
        made.remedy = REMEDIES.get(entry.name, entry.remedy)
    made.args = (str(error).replace(error.remedy, made.remedy),)
    return made


def refuse(error: FaninError) -> NoReturn:
    """Raise it as torch's programs catch it."""
    raise as_torch(error) from None
