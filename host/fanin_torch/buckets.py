"""Gradient buckets of DDP in registered memory, which the device reads and writes without a copy.

DDP allocates its buckets itself. When the hook first meets a bucket, it gives the bucket's storage other memory with
the same content; DDP's views share the storage, so they follow.
"""  # no `from __future__ import annotations` below: DDP looks at the annotations of a hook

from typing import Any

import torch
import torch.distributed as dist

from fanin.errors import NotSupported
from fanin_torch.errors import as_torch


def registered_buckets(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook for DistributedDataParallel: the device computes the mean, in place.

    model.register_comm_hook(None, fanin_torch.registered_buckets); instead of None the group of the model, if it is not
    the program's first. Raises NotSupported if the group is of another back-end, or this torch can not exchange the
    memory of storages.
    """
    group = dist.group.WORLD if group is None else group
    if group.name() != "fanin":
        remedy = 'Give the group of the model: register_comm_hook(group, ...), made by init_process_group("fanin").'
        raise as_torch(NotSupported(f"registered buckets need a group of Fanin, not of {group.name()}", remedy=remedy))
    buffer = bucket.buffer()
    if group.memory is not None:  # None: one rank, or a group that has been left: allreduce raises that
        group.memory.take_in(buffer)
    mean = dist.AllreduceOptions()
    mean.reduceOp, mean.asyncOp = dist.ReduceOp.AVG, True
    return group.allreduce([buffer], mean).get_future().then(_first)


def _first(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]
