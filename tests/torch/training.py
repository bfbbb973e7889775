"""Training by torch's own parallel wrappers, on Fanin beside Gloo."""

import copy  # no `from __future__ import annotations` above: DDP looks at the annotations of a hook
import gc
import os
import time

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.distributed import checkpoint
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import fanin_torch
from fanin.errors import NotSupported

STEPS = 5


def small_model() -> nn.Sequential:
    """The same on every rank."""
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def losses(model: nn.Module) -> list[float]:
    """Of some steps of training, each rank with its own data; averaged over the ranks."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(STEPS):
        data, labels = torch.randn(8, 16, generator=generator), torch.randint(0, 4, (8,), generator=generator)
        loss = nn.functional.cross_entropy(model(data), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        found.append(total.item() / dist.get_world_size())
    return found


def close(found: list[float], wanted: list[float]) -> None:
    """Equal within rounding, and something was learned."""
    assert torch.allclose(torch.tensor(found), torch.tensor(wanted), rtol=1e-5)
    assert found[0] != found[-1]


def data_parallel() -> None:
    """DDP, with buckets of all kinds of sizes."""
    gloo = dist.new_group(backend="gloo")
    wanted = losses(DistributedDataParallel(small_model(), process_group=gloo))
    for size in (0.001, 25):
        close(losses(DistributedDataParallel(small_model(), bucket_cap_mb=size)), wanted)
    close(losses(DistributedDataParallel(small_model(), gradient_as_bucket_view=True)), wanted)
    model = DistributedDataParallel(small_model())
    model.register_comm_hook(None, mean_in_device)
    close(losses(model), wanted)
    with pytest.raises(NotSupported, match="registered buckets need a group of Fanin, not of gloo"):
        fanin_torch.registered_buckets(gloo, None)
    for is_view in (False, True):
        with_registered_buckets(wanted, is_view)


def with_registered_buckets(wanted: list[float], is_view: bool) -> None:
    """The back-end's hook: the same losses, with buckets in the device's memory, which is free after the model."""
    model = DistributedDataParallel(small_model(), bucket_cap_mb=0.003, gradient_as_bucket_view=is_view)
    model.register_comm_hook(None, fanin_torch.registered_buckets)
    close(losses(model), wanted)
    memory = dist.group.WORLD.memory
    assert not all(region.arena.is_free for region in memory._regions)
    if is_view:
        assert all(memory.holds(parameter.grad.numpy()) for parameter in model.parameters())
    assert copied_for(model) == STEPS
    del model
    gc.collect()
    deadline = time.monotonic() + 60
    while not all(region.arena.is_free for region in memory._regions):
        assert time.monotonic() < deadline, "a tensor has not ended"
        time.sleep(0.01)  # the group's thread may still hold the last bucket


def copied_for(model: nn.Module) -> int:
    """Calls with copies of tensors of ordinary memory in STEPS steps. STEPS are for the sum of the losses."""
    before = fanin_torch.copied()["ORDINARY_MEMORY"]
    losses(model)
    return fanin_torch.copied()["ORDINARY_MEMORY"] - before


def mean_in_device(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A hook that lets the device divide."""
    work = dist.all_reduce(bucket.buffer(), dist.ReduceOp.AVG, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def fully_sharded() -> None:
    """FSDP2, each layer and the whole; its buffers in ordinary and in registered memory."""
    gloo = DeviceMesh.from_group(dist.new_group(backend="gloo"), "cpu")
    fanin = init_device_mesh("cpu", (dist.get_world_size(),))
    wanted = losses(sharded(gloo))
    close(losses(sharded(fanin)), wanted)
    model = sharded(fanin)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_allocate_memory_from_process_group_for_comm(True)
    close(losses(model), wanted)
    assert copied_for(model) == STEPS


def fully_sharded_1() -> None:
    """FSDP 1, which frees the storage of what it has gathered, and allocates it again."""
    gloo, found = dist.new_group(backend="gloo"), []
    for group in (gloo, dist.group.WORLD):
        model = FullyShardedDataParallel(small_model(), process_group=group, device_id=torch.device("cpu"))
        found.append(losses(model))
    close(found[1], found[0])


def compiled() -> None:
    """Compiled DDP, whose graph breaks at the hooks of the reducer."""
    gloo = dist.new_group(backend="gloo")
    wanted = losses(DistributedDataParallel(small_model(), process_group=gloo))
    close(losses(torch.compile(DistributedDataParallel(small_model()), backend="eager")), wanted)
    tensor = torch.ones(4)
    torch.compile(dist.all_reduce, backend="eager")(tensor)
    assert torch.all(tensor == dist.get_world_size())


def low_rank() -> None:
    """The hook PowerSGD, which waits for futures in callbacks of others."""
    gloo, found = dist.new_group(backend="gloo"), []
    for group in (gloo, dist.group.WORLD):
        state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model = DistributedDataParallel(small_model(), process_group=group)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        found.append(losses(model))
    close(found[1], found[0])


def sharded(mesh: DeviceMesh) -> nn.Module:
    """The model, sharded by FSDP2."""
    model = small_model()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def checkpointed() -> None:
    """FSDP2 writes its shards, by a distributed checkpoint, into the test's folder, and reads them again; at once, in a
    thread, and from rank 0 alone."""
    folder, mesh = os.environ["FANIN_TEST_FOLDER"], init_device_mesh("cpu", (dist.get_world_size(),))
    model = fully_shard(small_model(), mesh=mesh)
    losses(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names = ("model", "optimizer")
    checkpoint.save(dict(zip(names, get_state_dict(model, optimizer), strict=True)), checkpoint_id=folder)
    other = fully_shard(small_model(), mesh=mesh)
    assert not same_bits(model, other)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    states = dict(zip(names, get_state_dict(other, optimizer), strict=True))
    checkpoint.load(states, checkpoint_id=folder)
    set_state_dict(other, optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"])
    assert same_bits(model, other)
    checkpoint.async_save({"model": get_model_state_dict(model)}, checkpoint_id=f"{folder}/later").result()
    third = fully_shard(small_model(), mesh=mesh)
    states = {"model": get_model_state_dict(third)}
    checkpoint.load(states, checkpoint_id=f"{folder}/later")
    set_model_state_dict(third, states["model"])
    assert same_bits(model, third)
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    fourth = fully_shard(small_model(), mesh=mesh)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(fourth, whole if dist.get_rank() == 0 else {}, options=options)
    assert same_bits(model, fourth)


def same_bits(one: nn.Module, other: nn.Module) -> bool:
    """Whether two models are the same. All ranks call it."""
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    equal = [torch.equal(first.full_tensor(), second.full_tensor()) for first, second in pairs]
    return all(equal)


def tensor_parallel() -> None:
    """Two layers, one cut by columns and one by rows; functional collectives."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("data", "model"))
    model, whole = small_model()[:3], small_model()[:3]
    whole = copy.deepcopy(whole)
    parallelize_module(model, mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    data = torch.ones(3, 16)
    assert torch.allclose(model(data), whole(data), atol=1e-6)
    tensor = torch.ones(4) * dist.get_rank()
    summed = functional.all_reduce(tensor, "sum", dist.group.WORLD)
    size = dist.get_world_size()
    assert torch.all(summed == size * (size - 1) / 2)
    gathered = functional.all_gather_tensor(tensor, 0, dist.group.WORLD)
    assert torch.equal(gathered, torch.arange(float(size)).repeat_interleave(4))
    scattered = functional.reduce_scatter_tensor(gathered, "sum", 0, dist.group.WORLD)
    assert torch.all(scattered == size * dist.get_rank())
