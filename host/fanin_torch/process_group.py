"""FaninProcessGroup: the collectives of torch.distributed on the devices, for tensors of the CPU.

A ProcessGroup in Python needs no compilation against a version of torch. torch's C++ parts (DDP, functional
collectives) call the methods that torch forwards to Python; the functions of torch.distributed call all of them.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import sys
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup
from torch.distributed import distributed_c10d as c10d

from fanin.api.communicator import JOIN_TIMEOUT, Communicator
from fanin.errors import FaninError, InvalidRequest, NotSupported
from fanin_torch import monitored
from fanin_torch.call import Call
from fanin_torch.counts import Counts, Reason
from fanin_torch.device import Device, device_of, job_of
from fanin_torch.elements import as_bytes, in_order, is_memory, require_plain
from fanin_torch.errors import as_torch, refuse
from fanin_torch.local_fabric import SUBGROUP_SHARE, Settings
from fanin_torch.messages import ANY, Messages
from fanin_torch.registered_memory import RegisteredMemory
from fanin_torch.untraced import leave_untraced
from fanin_torch.work import Completer, Ending, FaninWork
from fanin_wire.limits import MIN_JOB_SLOTS

log = logging.getLogger("fanin")
Tensors = Sequence[torch.Tensor]
SHUTDOWN_SECONDS = 60.0  # for other ranks to take what this one sent

_groups: weakref.WeakSet[FaninProcessGroup] = weakref.WeakSet()  # open ones
_numbers = itertools.count()


class FaninProcessGroup(ProcessGroup):
    """One rank's view of a group. All ranks make it, and exchange what they need through `store`.

    Raises NoDevice, Timeout naming the missing ranks, and what else joining a job raises.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, global_ranks: Sequence[int] = ()) -> None:
        super().__init__(rank, size)
        self._rank, self._size, self.timeout = rank, size, timeout.total_seconds()
        self._name, self._description = "", ""
        self.global_ranks = tuple(global_ranks) or tuple(range(size))
        self._sequence = 0
        self._coalescing: list[FaninWork] | None = None
        self.communicator: Communicator | None = None
        self._messages: Messages | None = None
        self._device: Device | None = None
        try:
            self._settings = Settings.from_environment()
            self.counts = Counts(self._settings.strict)
            # A group of the same name may be made again with the same store.
            times = store.add(f"fanin/times/{rank}", 1)
            self._store = dist.PrefixStore(f"fanin-{times}", store)
            self._monitored = monitored.MonitoredBarrier(self._store, rank, self.global_ranks)
            if size > 1:
                self._join()
        except FaninError as error:
            refuse(error)
        number = next(_numbers)
        self._completer = Completer(f"fanin-group-{number}")
        # Collectives end in the order of their calls, messages do not.
        self._message_completer = Completer(f"fanin-group-{number}-messages")
        _groups.add(self)

    @property
    def memory(self) -> RegisteredMemory | None:
        """The device's registered memory; None in a group of one rank, and in one that has been left."""
        return self._device.memory if self._device is not None else None

    def _join(self) -> None:
        self._device = device = device_of(self._store, self._rank, self._size)
        settings = self._settings
        if _groups:
            settings = settings._replace(slots=max(MIN_JOB_SLOTS, settings.slots // SUBGROUP_SHARE))
        try:
            job, domains = job_of(device, self._store, self._rank, self._size, settings)
            self._messages = Messages(device.connection.context, self._store, self._rank, domains, self.timeout)
            limit = min(self.timeout, JOIN_TIMEOUT)
            self.communicator = Communicator(job, self._rank, device.connection, timeout=limit)
        except BaseException:
            self._device = None
            device.release()
            raise

    # ---- What torch asks of a group ----

    def getBackendName(self) -> str:
        return "fanin"

    def name(self) -> str:
        return "fanin"

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    getRank, getSize = rank, size

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: Any) -> Any:
        """What does the calls for a kind of device: the group itself, for the CPU; RuntimeError for others."""
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"groups of Fanin do not support tensors on device {device}")
        return self

    def supports_tensor_alloc(self, device: Any) -> bool:
        """Whether FSDP2 may ask for its buffers here (set_allocate_memory_from_process_group_for_comm)."""
        return torch.device(device).type == "cpu" and self.memory is not None

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
        """A tensor of `size` elements in registered memory, which the device reads and writes without a copy."""
        if self.memory is None or not self.supports_tensor_alloc(device):
            remedy = "Ask a group of several ranks that has not been left, for tensors of the CPU."
            raise as_torch(
                NotSupported(f"registered memory is not supported for tensors on device {device}", remedy=remedy)
            )
        return self.memory.empty(size, dtype)

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._description

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    setGroupName, setGroupDesc = _set_group_name, _set_group_desc

    def getGroupName(self) -> str:
        return self._name

    def getGroupDesc(self) -> str:
        return self._description

    def get_group_store(self) -> Any:
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """Seconds for all ranks of a collective and for the peer of a message, from the next call on."""
        self.timeout = timeout.total_seconds()
        if self._messages is not None:
            self._messages.timeout = self.timeout

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.set_timeout(timeout)

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    # ---- Reductions ----

    def allreduce(self, tensors: Tensors | torch.Tensor, opts: Any = None) -> FaninWork:
        """Every rank gets the combined elements of all, in place."""
        opts, tensors = _options(c10d.AllreduceOptions, opts), _listed(tensors)
        return self._begin("allreduce", opts, tensors, _for_all(Call.allreduce, tensors))

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> FaninWork:
        """Several allreduces, as one work."""
        opts = _options(c10d.AllreduceCoalescedOptions, opts)
        return self._begin("allreduce_coalesced", opts, tensors, _for_all(Call.allreduce, tensors))

    def reduce(self, tensors: Tensors | torch.Tensor, opts: Any = None) -> FaninWork:
        """The root gets the combined elements of all, in place."""
        opts, tensors = _options(c10d.ReduceOptions, opts), _listed(tensors)
        return self._begin("reduce", opts, tensors, _for_all(Call.reduce, tensors))

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> FaninWork:
        """Rank r gets the combined elements of the r-th inputs of all."""
        opts = _options(c10d.ReduceScatterOptions, opts)

        def steps(call: Call) -> None:
            for output, parts in zip(outputs, inputs, strict=True):
                call.reduce_scatter(output, parts)

        return self._begin("reduce_scatter", opts, outputs, steps)

    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> FaninWork:
        """Rank r gets the combined elements of the r-th parts of the inputs of all."""
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> FaninWork:
        """Several, as one work."""
        opts = _options(c10d.ReduceScatterOptions, opts)

        def steps(call: Call) -> None:
            for output, source in zip(outputs, inputs, strict=True):
                call.reduce_scatter_single(output, source)

        return self._begin("reduce_scatter", opts, outputs, steps)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- Data in motion ----

    def broadcast(self, tensors: Tensors | torch.Tensor, opts: Any = None) -> FaninWork:
        """Every rank gets what the root has, in place."""
        opts, tensors = _options(c10d.BroadcastOptions, opts), _listed(tensors)
        return self._begin("broadcast", opts, tensors, _for_all(Call.broadcast, tensors))

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> FaninWork:
        """Every rank gets the inputs of all, each in a tensor of its own."""
        opts = _options(c10d.AllgatherOptions, opts)

        def steps(call: Call) -> None:
            for parts, source in zip(outputs, inputs, strict=True):
                call.allgather(parts, source)

        return self._begin("allgather", opts, list(itertools.chain(*outputs)), steps)

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> FaninWork:
        """Several: outputs[r][k] gets inputs[k] of rank r."""
        return self.allgather(list(zip(*outputs, strict=True)), inputs, opts)

    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> FaninWork:
        """Every rank gets the inputs of all, one after the other."""
        return self.all_gather_single_coalesced([output], [source], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> FaninWork:
        """Several, as one work."""
        opts = _options(c10d.AllgatherOptions, opts)

        def steps(call: Call) -> None:
            for output, source in zip(outputs, inputs, strict=True):
                call.allgather_single(output, source)

        return self._begin("allgather", opts, outputs, steps)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> FaninWork:
        """The root gets the inputs of all, each in a tensor of its own."""
        opts = _options(c10d.GatherOptions, opts)
        parts = outputs[0] if outputs else []
        return self._begin("gather", opts, parts, lambda call: call.gather(parts, inputs[0]))

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> FaninWork:
        """Rank r gets the r-th input of the root."""
        opts = _options(c10d.ScatterOptions, opts)
        parts = inputs[0] if inputs else []
        return self._begin("scatter", opts, outputs, lambda call: call.scatter(outputs[0], parts))

    def all_to_all_single(
        self,
        output: torch.Tensor,
        source: torch.Tensor,
        output_sizes: Sequence[int] | None = None,
        input_sizes: Sequence[int] | None = None,
        opts: Any = None,
    ) -> FaninWork:
        """Rank r gets the r-th part of each rank's input. sizes: of the parts, in rows."""
        opts = _options(c10d.AllToAllOptions, opts)

        def steps(call: Call) -> None:
            parts, pieces = call.whole(output), call.source(source)
            call.all_to_all(self._parts(parts, output_sizes, "output"), self._parts(pieces, input_sizes, "input"))

        return self._begin("all_to_all", opts, [output], steps)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> FaninWork:
        """Output r is input r of rank r."""
        opts = _options(c10d.AllToAllOptions, opts)
        return self._begin("all_to_all", opts, outputs, lambda call: call.all_to_all(outputs, inputs))

    alltoall_base = all_to_all_single

    def _parts(self, tensor: torch.Tensor, sizes: Sequence[int] | None, what: str) -> Tensors:
        rows = tensor.shape[0] if tensor.dim() else 0
        if not sizes:
            if rows % self._size:
                raise InvalidRequest(
                    f"the {what} of an all_to_all has {rows} rows, which {self._size} ranks can not share evenly",
                    remedy="Give the sizes of the parts.",
                )
            sizes = [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows:
            raise InvalidRequest(
                f"{what} sizes {list(sizes)} of a tensor of {rows} rows for {self._size} ranks",
                remedy="Give one for each rank; together they must make up the tensor.",
            )
        return tensor.split(list(sizes))

    def barrier(self, opts: Any = None) -> FaninWork:
        """Ends when all ranks have come."""
        opts = _options(c10d.BarrierOptions, opts)
        return self._begin("barrier", opts, [], lambda call: call.barrier())

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier that names late ranks. It goes through the store, and the group survives its failure."""
        try:
            self.counts.miss("monitored_barrier", Reason.MONITORED)
        except FaninError as error:
            refuse(error)
        seconds = self.timeout if timeout is None or timeout.total_seconds() < 0 else timeout.total_seconds()
        self._monitored.wait(seconds, wait_all_ranks)

    # ---- Messages ----

    def send(self, tensors: Tensors, destination: int, tag: int = 0) -> FaninWork:
        try:
            source = in_order(tensors[0])
            messages = self._peers(destination)
            step = messages.send(as_bytes(source), destination, tag)
        except FaninError as error:
            refuse(error)
        self._count("send", messages.stays_on_host(destination))
        return self._keep_message(FaninWork(f"send to {destination}", [step], tensors), [step])

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> FaninWork:
        try:
            require_plain(tensors[0])
            into = tensors[0] if is_memory(tensors[0]) else torch.empty(tensors[0].shape, dtype=tensors[0].dtype)
            messages = self._peers(source)
            step = messages.receive(as_bytes(into), source, tag)
        except FaninError as error:
            refuse(error)

        def conclude() -> None:
            work._source = step.source
            if into is not tensors[0]:
                tensors[0].detach().copy_(into)

        self._count("recv", messages.stays_on_host(source))
        work = FaninWork(f"receive from {source}", [step], tensors, conclude, source)
        return self._keep_message(work, [step])

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> FaninWork:
        return self.recv(tensors, ANY, tag)

    def _peers(self, peer: int) -> Messages:
        if self._messages is None or (peer != ANY and not 0 <= peer < self._size) or peer == self._rank:
            raise InvalidRequest(
                f"rank {self._rank} can not exchange a message with rank {peer} of {self._size}",
                remedy="Give another rank of the group.",
            )
        return self._messages

    def _count(self, name: str, stays_on_host: bool) -> None:
        if stays_on_host:
            self.counts.miss(name, Reason.SAME_HOST)
        else:
            self.counts.note(name)

    # ---- Batches ----

    def _start_coalescing(self, device: Any = None) -> None:
        self._coalescing = []

    def _end_coalescing(self, device: Any = None) -> FaninWork:
        works, self._coalescing = self._coalescing or [], None
        return self._keep_message(FaninWork("a batch", [_AsStep(work) for work in works]), works)

    # ---- The end ----

    def shutdown(self) -> None:
        """Leave the group, after the others have taken what this rank sent."""
        self._end(leave=True)

    def abort(self) -> None:
        """Leave it at once: what is under way fails, here and on the other ranks."""
        self._end(leave=False)

    def _end(self, leave: bool) -> None:
        communicator, self.communicator = self.communicator, None
        messages, self._messages = self._messages, None
        if self._settings.report and self._rank == 0 and self in _groups:
            print(self.counts.report(self._name or "without a name"), file=sys.stderr)
        _groups.discard(self)
        if messages is not None:
            messages.close()
        if communicator is not None:
            if leave:
                try:
                    communicator.flush(min(self.timeout, SHUTDOWN_SECONDS))
                except FaninError as error:
                    log.warning("rank %d leaves group %s: %s", self._rank, self._name, error)
            communicator.end(leave)
        device, self._device = self._device, None
        if device is not None:
            device.release()
        self._completer.close()
        self._message_completer.close()

    # ---- How each collective is started ----

    def _begin(self, name: str, opts: Any, result: Tensors, start: Callable[[Call], object]) -> FaninWork:
        """Start one; the thread that ends works gets it, unless the caller waits at once."""
        self._sequence += 1
        call = Call(self, name, opts)
        try:
            start(call)
        except Exception as error:
            for request in call.requests:  # they are posted, and use the tensors
                _await_end(request)
            if isinstance(error, FaninError):
                refuse(error)
            raise
        if self._size > 1:
            self.counts.note_copies(call.copied)
        work = FaninWork(name, call.requests, result, call.conclude)
        if self._coalescing is not None:
            self._coalescing.append(work)
        if self._coalescing is not None or getattr(opts, "asyncOp", True):
            self._completer.take(work)
        return work

    def _keep_message(self, work: FaninWork, steps: Sequence[Ending]) -> FaninWork:
        """Let a thread end it after its steps, whether or not anybody waits."""
        if self._coalescing is not None:
            self._coalescing.append(work)
        self._message_completer.take_when_ended(work, steps)
        return work


def _options(kind: Callable[[], Any], given: Any) -> Any:
    """Options as torch gives them; or from the operation or root of a short form; or the defaults."""
    is_operation = isinstance(given, (dist.ReduceOp, dist.ReduceOp.RedOpType))
    if given is not None and not is_operation and not isinstance(given, int):
        return given
    made = kind()
    if is_operation:
        made.reduceOp = given
    elif given is not None:
        made.rootRank = given
    return made


def _listed(tensors: Tensors | torch.Tensor) -> Tensors:
    """Short forms of torch's methods take one tensor."""
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def _for_all(start: Callable[[Call, torch.Tensor], None], tensors: Tensors) -> Callable[[Call], None]:
    """Start the same for each tensor."""

    def all_of_them(call: Call) -> None:
        for tensor in tensors:
            start(call, tensor)

    return all_of_them


class _AsStep:
    """A work as a part of another."""

    def __init__(self, work: FaninWork) -> None:
        self._work = work

    def wait(self, timeout: float | None = None) -> None:
        self._work.wait(None if timeout is None else timedelta(seconds=timeout))

    def test(self) -> bool:
        return self._work.is_completed()

    @property
    def done(self) -> bool:
        """Whether it has ended; without looking."""
        return self._work.has_ended


def _await_end(request: Any) -> None:
    try:
        request.wait()
    except FaninError as error:
        log.warning("%s", error)


@atexit.register
def _end_of_program() -> None:
    """Before the driver's: a thread that waits for messages must not outlive the connection to the device."""
    for group in list(_groups):
        if group._messages is not None:
            group._messages.close()


def not_offloaded(group: FaninProcessGroup | None = None) -> dict[str, int]:
    """Calls of a group (None: the first) that the devices did not do, by reason."""
    return dict(_group_of(group).counts.not_offloaded)


def copied(group: FaninProcessGroup | None = None) -> dict[str, int]:
    """Calls of a group (None: the first) whose tensors were copied, or read where they are, by reason."""
    return dict(_group_of(group).counts.copied)


def survivors(group: FaninProcessGroup | None = None, timeout: float = 30.0) -> list[int]:
    """The ranks of a group that are left after the loss of one, in their order. All that are left call this.

    They agree as in `fanin.Communicator.shrink`, and the group is left. Make a new one by init_process_group with the
    new rank and number of ranks, and a store, or a prefix of one, that was not used before.
    """
    found = _group_of(group)
    communicator = found.communicator
    if communicator is None:
        raise as_torch(InvalidRequest("the group has been left", remedy="Call survivors before it is destroyed."))
    try:
        with communicator.shrink(timeout) as left:
            return [int(rank) for rank in left.allgather(np.array(found.rank()))]
    except FaninError as error:
        refuse(error)


def _group_of(group: FaninProcessGroup | None) -> FaninProcessGroup:
    found = dist.group.WORLD if group is None else group
    if not isinstance(found, FaninProcessGroup):
        raise as_torch(
            InvalidRequest(f"{found!r} is not a group of Fanin", remedy='init_process_group("fanin") makes one.')
        )
    return found


leave_untraced(FaninProcessGroup, FaninWork)
