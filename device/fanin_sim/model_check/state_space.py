"""The states of an instance: the initial state, and the successors of each state."""

from collections.abc import Iterator
from typing import NamedTuple

from fanin_sim.model_check.device_model import CRASH, DEATH, RANK, RESTART, TIMER, DeviceModel, DeviceSummary, Packets
from fanin_sim.model_check.instances import Instance, World
from fanin_sim.model_check.timeouts import Timeouts, describe_event

Numbers = tuple[int, ...]  # numbers of the states of all devices, or of packets; see `device_model`


class State(NamedTuple):
    """A state of the instance: of each device, the packets under way, and the faults that may still happen."""

    devices: Numbers
    packets: Numbers
    losses: int
    copies: int
    early_timers: int
    deaths: int
    crashes: int
    restarts: int


class StateSpace:
    """The transitions of an instance. `models`: its devices, by number."""

    def __init__(self, instance: Instance, world: World) -> None:
        self.instance = instance
        self._packets = Packets()
        self.models = [DeviceModel(world, device, self._packets) for device in world.simulation.devices.values()]
        self._timeouts = Timeouts(instance, self.models, world.job.placement)
        self._index = {model.device.address: n for n, model in enumerate(self.models)}

    def start(self) -> State:
        """The initial state. With `from_join` no rank has joined; else all have, and nothing is posted."""
        devices = tuple(model.initial for model in self.models)
        packets: Numbers = ()
        if not self.instance.from_join:
            ranks = [(n, index) for n, one in enumerate(self.models) for index in range(len(one.ranks.members))]
            for number, index in ranks:
                devices, packets = self.apply_event(devices, packets, number, RANK - index)
            while packets:
                devices, packets = self.deliver_all(devices, packets)
                if not packets and not self._all_joined(devices):
                    devices, packets = self.expire_all(devices)
        instance = self.instance
        faults = instance.losses, instance.copies, instance.early_timers, instance.deaths
        return State(devices, packets, *faults, instance.crashes, instance.restarts)

    def _all_joined(self, devices: Numbers) -> bool:
        now = zip(self.models, self.summaries(devices), strict=True)
        return all(len(seen.ready) == len(model.ranks.members) for model, seen in now)

    def summaries(self, devices: Numbers) -> list[DeviceSummary]:
        return [model.summaries[state] for model, state in zip(self.models, devices, strict=True)]

    # Transitions

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """Every state that may follow, with a description of the event."""
        yield from self._packet_steps(state)
        yield from self._failures(state)
        for number, seen in enumerate(self.summaries(state.devices)):
            for event in seen.ready:
                yield f"rank {RANK - event} of device {number} takes a step", self._after(state, number, event)
            if not state.packets:
                yield f"timers of device {number}", self._after(state, number, TIMER)
            elif state.early_timers:
                followed = self._after(state, number, TIMER)
                yield f"timers of device {number}, early", followed._replace(early_timers=state.early_timers - 1)

    def _packet_steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Packets arrive, are lost, or are duplicated."""
        for place, packet in enumerate(state.packets):
            if place and state.packets[place - 1] == packet:
                continue  # a duplicate has the same successors
            rest = state.packets[:place] + state.packets[place + 1 :]
            name = self._name(packet)
            yield f"{name} arrives", self._after(state._replace(packets=rest), self._receiver(packet), packet)
            if state.losses:
                yield f"{name} is lost", state._replace(packets=rest, losses=state.losses - 1)
            if state.copies:
                more = _with(state.packets, (packet,))
                yield f"{name} is duplicated", state._replace(packets=more, copies=state.copies - 1)

    def _failures(self, state: State) -> Iterator[tuple[str, State]]:
        """Ranks die or stop waiting, devices crash and restart, jobs age."""
        seen = self.summaries(state.devices)
        for number, event in [(n, event) for n, one in enumerate(seen) for event in one.killable if state.deaths]:
            followed = self._after(state, number, event)
            yield f"rank {DEATH - event} of device {number} dies", followed._replace(deaths=state.deaths - 1)
        for number in self._may_crash(seen) if state.crashes else []:
            followed = self._after(state, number, CRASH)
            yield f"device {number} crashes", followed._replace(crashes=state.crashes - 1)
        for number in [n for n, one in enumerate(seen) if one.is_gone and state.restarts]:
            followed = self._after(state, number, RESTART)
            yield f"device {number} restarts", followed._replace(restarts=state.restarts - 1)
        for number, event in self.timeouts(state.devices, state.packets):
            yield f"{describe_event(event)} at device {number}", self._after(state, number, event)

    def _may_crash(self, seen: list[DeviceSummary]) -> list[int]:
        """NICs, or else switches, that may crash: only with work left, as a crash has no effect otherwise."""
        now = zip(self.models, seen, strict=True)
        return [n for n, (m, one) in enumerate(now) if m.is_nic != self.instance.switches_crash and not one.is_done]

    def timeouts(self, devices: Numbers, packets: Numbers) -> list[tuple[int, int]]:
        """(device, event) of all time-outs that may happen."""
        return self._timeouts.events(self.summaries(devices), quiet=not packets)

    # Events

    def _after(self, state: State, number: int, event: int) -> State:
        devices, packets = self.apply_event(state.devices, state.packets, number, event)
        return state._replace(devices=devices, packets=packets)

    def apply_event(self, devices: Numbers, packets: Numbers, number: int, event: int) -> tuple[Numbers, Numbers]:
        """Devices and packets after an event of a device."""
        after, sent = self.models[number].step(devices[number], event)
        return (*devices[:number], after, *devices[number + 1 :]), _with(packets, sent)

    def deliver_all(self, devices: Numbers, packets: Numbers) -> tuple[Numbers, Numbers]:
        """Devices and packets after all packets have arrived."""
        following: Numbers = ()
        for packet in packets:
            devices, following = self.apply_event(devices, following, self._receiver(packet), packet)
        return devices, following

    def expire_all(self, devices: Numbers) -> tuple[Numbers, Numbers]:
        """Devices and packets after the timers of all devices have expired. No packet may be under way."""
        packets: Numbers = ()
        for number in range(len(self.models)):
            devices, packets = self.apply_event(devices, packets, number, TIMER)
        return devices, packets

    def _receiver(self, packet: int) -> int:
        return self._index[self._packets.by_number[packet].destination]

    def _name(self, number: int) -> str:
        packet = self._packets.by_number[number]
        link = f"{self._index[packet.source]} -> {self._index[packet.destination]}"
        return f"{packet.opcode.name} of position {packet.position}, {link},"


def _with(packets: Numbers, more: Numbers) -> Numbers:
    return tuple(sorted(packets + more)) if more else packets
