"""Errors of the driver as torch's programs catch them: also as torch.distributed.DistBackendError, a RuntimeError."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

from torch.distributed import DistBackendError

from fanin.errors import FaninError


@functools.cache
def _torch_class(kind: Any) -> Any:
    return type(kind.__name__, (kind, DistBackendError), {"__doc__": kind.__doc__, "__module__": __name__})


def as_torch(error: FaninError) -> FaninError:
    """The same error: its class is that of `error` and DistBackendError, its text and attributes are the same."""
    if isinstance(error, DistBackendError):
        return error
    kind: Any = type(error)
    made = _torch_class(kind).__new__(_torch_class(kind), *error.args)
    made.args = error.args
    made.__dict__.update(error.__dict__)
    return made


def refuse(error: FaninError) -> NoReturn:
    """Raise it as torch's programs catch it."""
    raise as_torch(error) from None
