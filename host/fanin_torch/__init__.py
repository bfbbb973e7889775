"""Fanin for PyTorch: `torch.distributed.init_process_group("fanin")` for CPU tensors.

An environment that has torch and Fanin is enough: at its import torch calls `register` (entry point group
`torch.backends`). If that is switched off (TORCH_DEVICE_BACKEND_AUTOLOAD=0), `import fanin_torch` does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanin_torch.registration import register

if TYPE_CHECKING:
    from fanin_torch.buckets import registered_buckets
    from fanin_torch.process_group import copied, not_offloaded, survivors

__all__ = ["copied", "not_offloaded", "register", "registered_buckets", "survivors"]


def __getattr__(name: str) -> Any:
    """Load what needs the driver when it is used, since torch imports this package in every program."""
    if name == "registered_buckets":
        from fanin_torch import buckets

        return buckets.registered_buckets
    if name in __all__:
        from fanin_torch import process_group

        return getattr(process_group, name)
    raise AttributeError(f"module {__name__} has no attribute {name}")


register()
