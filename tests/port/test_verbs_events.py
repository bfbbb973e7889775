"""A port's reactions to the asynchronous events of its verbs device."""

from collections.abc import Iterator

import pytest

from fanin_nic.port.verbs.events import Event, Watch

PORT = 2


class Device:
    name, address, port = "rxe1", "10.9.0.1", PORT

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []
        self.has = True

    def events(self) -> Iterator[tuple[int, int]]:
        while self.told:
            yield self.told.pop(0)

    def has_address(self) -> bool:
        return self.has

    def is_active(self) -> bool:
        return True


@pytest.fixture
def device() -> Device:
    return Device()


def test_port_that_goes_down_and_up(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch(device)
    device.told = [(Event.PORT_ERR, PORT + 1)]
    assert not watch.take()
    assert watch.status() == {"device": "rxe1", "port": "active", "has_address": True, "events": {}}
    device.told = [(Event.PORT_ERR, PORT)]
    assert not watch.take()
    assert (watch.status()["port"], watch.status()["events"]) == ("down", {"PORT_ERR": 1})
    device.told = [(Event.PORT_ACTIVE, PORT), (Event.PORT_ERR, PORT), (Event.PORT_ACTIVE, PORT)]
    assert watch.take()
    assert (watch.status()["port"], watch.status()["events"]) == ("active", {"PORT_ERR": 2, "PORT_ACTIVE": 2})
    assert [record.message.partition(" is ")[2] for record in caplog.records] == [
        "down: nothing is sent or received until it is up again",
        "up again",
    ] * 2


def test_address_that_is_taken_away(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    """Another address may have changed."""
    watch = Watch(device)
    for has, said in ((True, 0), (False, 1), (False, 1), (True, 2)):
        device.has, device.told = has, [(Event.GID_CHANGE, PORT)]
        watch.take()
        assert (watch.status()["has_address"], len(caplog.records)) == (has, said)
    assert "verbs device rxe1 has lost the address 10.9.0.1" in caplog.text
    assert "verbs device rxe1 has the address 10.9.0.1 again" in caplog.text


@pytest.mark.parametrize("event", [Event.DEVICE_FATAL, Event.CQ_ERR])
def test_device_that_has_failed(device: Device, event: Event) -> None:
    """Earlier listeners hear it once, later ones at once."""
    told: list[str] = []
    watch = Watch(device)
    watch.on_failure(told.append)
    device.told = [(event, 0), (Event.DEVICE_FATAL, 0)]
    watch.take()
    cause = f"verbs device rxe1 has failed (IBV_EVENT_{event.name})"
    assert told == [f"{cause}; restart this device when the verbs device is back"]
    late: list[str] = []
    watch.on_failure(late.append)
    assert late == told


def test_other_events_are_counted(device: Device) -> None:
    watch = Watch(device)
    device.told = [(Event.QP_FATAL, 0x1000), (99, 0), (Event.QP_FATAL, 0x1000)]
    assert not watch.take()
    assert (watch.failure, watch.status()["events"]) == ("", {"QP_FATAL": 2, "event 99": 1})
