"""The state of a training as blocks of bytes, and back: arrays of numpy and tensors of torch go without a copy.

A state names only types of numbers, containers, numpy and torch; sender and receiver refuse all others.
"""

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from fanin_train.errors import TrainingError

PACKAGES = ("numpy", "torch", "collections", "_codecs", "fanin_train")
BUILTINS = {"bytearray", "complex", "frozenset", "range", "set", "slice"}


class WrongState(TrainingError):
    """A state that can not be sent."""

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"WRONG_STATE: {cause}", "let state_dict() return numbers, texts, arrays, tensors, and containers of them"
        )


def _require_allowed(module: str, name: str) -> None:
    if module.partition(".")[0] not in PACKAGES and not (module == "builtins" and name in BUILTINS):
        raise WrongState(f"the state holds a {module}.{name}")


def _tensor(data: np.ndarray, dtype: str, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.from_numpy(data.copy()).view(getattr(torch, dtype)).reshape(shape)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind.__module__.partition(".")[0] == "torch" and hasattr(value, "untyped_storage"):
            import torch

            data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            return _tensor, (data, str(value.dtype).removeprefix("torch."), tuple(value.shape))
        if not isinstance(value, type) and not callable(value):
            _require_allowed(kind.__module__, kind.__qualname__)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        _require_allowed(module, name)
        return super().find_class(module, name)


def pack(state: Any) -> list[np.ndarray]:
    """Writable blocks of bytes, the first of which describes the others. WrongState for other types."""
    buffers: list[pickle.PickleBuffer] = []
    text = io.BytesIO()
    try:
        _Pickler(text, protocol=5, buffer_callback=buffers.append).dump(state)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise WrongState(str(error)) from None
    parts: list[Any] = [text.getvalue(), *(buffer.raw() for buffer in buffers)]
    blocks = [np.frombuffer(part, np.uint8) for part in parts]
    return [block if block.flags.writeable else block.copy() for block in blocks]  # a broadcast wants them writable


def unpack(blocks: Sequence[np.ndarray]) -> Any:
    text, *buffers = blocks
    return _Unpickler(io.BytesIO(text.tobytes()), buffers=buffers).load()
