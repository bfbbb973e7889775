"""The name `fanin` among the back-ends of torch.distributed.

torch calls `register` at the end of its import, in every program of the environment. So this file loads torch then, and
the driver only when a group is made.
"""

from typing import Any

NAME = "fanin"


def register() -> None:
    """Make the back-end known, once. A torch that was built without torch.distributed has no back-ends."""
    import torch.distributed as dist

    if dist.is_available() and NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, make_group, extended_api=True, devices=["cpu"])


def make_group(options: Any, _: Any) -> Any:
    """The process group. options: torch's DistributedBackendOptions."""
    from fanin_torch.process_group import FaninProcessGroup

    return FaninProcessGroup(
        options.store, options.group_rank, options.group_size, options.timeout, tuple(options.global_ranks_in_group)
    )
