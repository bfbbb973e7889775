"""A port over verbs without a usable libibverbs names the package to install."""

from collections.abc import Iterator

import pytest

from fanin_nic.port.opening import open_ports
from fanin_nic.port.port import PortError
from fanin_nic.port.verbs import library
from fanin_wire.settings import DeviceSettings

SETTINGS = DeviceSettings(name="nic0", address="127.0.0.1", socket="/nowhere", port="verbs://rxe0")


@pytest.fixture
def unloaded() -> Iterator[None]:
    """libibverbs is looked up again, here and later."""
    library.library.cache_clear()
    yield
    library.library.cache_clear()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("libnowhere.so.1", r"needs libibverbs: libnowhere.so.1: .*; install libibverbs \(Debian: libibverbs1 and"),
        ("libc.so.6", "libibverbs is too old for port verbs://rxe0: .*ibv_.*; use that of rdma-core 32 or later"),
    ],
)
def test_refusal(monkeypatch: pytest.MonkeyPatch, unloaded: None, found: str, said: str) -> None:
    monkeypatch.setattr(library, "NAME", found)
    with pytest.raises(PortError, match=said):
        open_ports(SETTINGS)
