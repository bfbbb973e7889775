"""The sum of sparse tensors: devices bring all elements to every rank, and the host adds them.

Ranks have different numbers of elements, so two collectives follow each other, and the call waits for the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fanin.errors import InvalidRequest
from fanin_torch.elements import as_bytes


def allreduce(communicator: Any, tensor: torch.Tensor, seconds: float) -> None:
    """Set `tensor` to the sum of all ranks' tensors, of one shape, each with its own elements."""
    mine = tensor.detach().coalesce()
    indices, values = mine.indices().contiguous(), mine.values().contiguous()
    about = np.array([indices.shape[0], indices.shape[1], *tensor.shape], np.int64)
    rows = communicator.allgather(about, timeout=seconds)
    if np.any(rows[:, 0] != rows[0, 0]) or np.any(rows[:, 2:] != rows[0, 2:]):
        raise InvalidRequest(
            f"an allreduce of sparse tensors of other shapes than {tuple(tensor.shape)} with {indices.shape[0]} sparse "
            "dimensions",
            remedy="Give tensors of one shape on all ranks.",
        )
    counts = [int(count) for count in rows[:, 1]]
    found = sum(counts)
    parts = _together(communicator, indices.t().contiguous(), counts, seconds).view(found, indices.shape[0])
    numbers = _together(communicator, values, counts, seconds).view(found, *values.shape[1:])
    with torch.no_grad():  # a copy into tensor.detach() would not change `tensor`
        tensor.copy_(torch.sparse_coo_tensor(parts.t(), numbers, tensor.shape).coalesce())


def _together(communicator: Any, rows: torch.Tensor, counts: list[int], seconds: float) -> torch.Tensor:
    """The rows of all ranks, one after the other, flat."""
    width = rows[:1].numel() if rows.shape[0] else int(np.prod(rows.shape[1:]))
    whole = torch.empty(sum(counts) * width, dtype=rows.dtype)
    sizes = [count * width * rows.element_size() for count in counts]
    communicator.allgatherv(as_bytes(rows), as_bytes(whole), sizes, timeout=seconds)
    return whole
