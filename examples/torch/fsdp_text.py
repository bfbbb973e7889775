"""A character transformer, its layers sharded by FSDP2, learns the English of Python's own manual.

The text is that of `help("topics")`, which comes with Python. The program only names the back-end.

    torchrun --nproc-per-node 4 examples/torch/fsdp_text.py              # on Fanin; brings a NIC up if there is none
    torchrun --nproc-per-node 4 examples/torch/fsdp_text.py gloo         # the same on Gloo
    torchrun --nproc-per-node 4 examples/torch/fsdp_text.py fanin 1000   # steps of training

The last line has a checksum of the model. With FANIN_TORCH_REPRODUCIBLE=run it is the same in every run.
"""

import hashlib
import sys
import time
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

STEPS, EVERY = 200, 20  # steps of training, and between two lines
CONTEXT, BATCH = 64, 8  # characters, and sequences of each rank in a step
WIDTH, HEADS, LAYERS = 64, 4, 2
CODES = 128  # of ASCII


class Layer(nn.Module):
    """One layer: each position looks at those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixed, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.mixed(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(functional.gelu(self.wide(self.between(x))))


class Transformer(nn.Module):
    """The next character at each position of each sequence, a row of scores for each."""

    def __init__(self) -> None:
        super().__init__()
        self.characters, self.positions = nn.Embedding(CODES, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last = nn.Linear(WIDTH, CODES)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.characters(text) + self.positions(torch.arange(text.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.last(x.flatten(0, 1))


def checksum(model: nn.Module) -> str:
    """Of the bits of all parameters, which all ranks bring together."""
    digest = hashlib.sha256()
    for shard in model.state_dict().values():
        digest.update(shard.full_tensor().numpy().tobytes())
    return digest.hexdigest()[:16]


def main() -> None:
    torch.set_num_threads(1)  # the ranks share the cores
    dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "fanin")
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else STEPS
    rank, size = dist.get_rank(), dist.get_world_size()
    text = torch.tensor(list("\n".join(map(topics.get, sorted(topics))).encode("ascii", "replace")))

    torch.manual_seed(2)  # the same model on every rank
    model, mesh = Transformer(), init_device_mesh("cpu", (size,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in (*model.layers, model):
        module.set_allocate_memory_from_process_group_for_comm(True)  # if the back-end has some
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    places = torch.Generator().manual_seed(rank)
    begin, total = time.perf_counter(), torch.zeros(())
    for step in range(1, steps + 1):
        starts = torch.randint(0, len(text) - CONTEXT - 1, (BATCH,), generator=places)
        sample = torch.stack([text[start : start + CONTEXT + 1] for start in starts])
        loss = functional.cross_entropy(model(sample[:, :-1]), sample[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        if step % EVERY == 0:
            dist.all_reduce(total)
            if rank == 0:
                print(f"step {step}: loss {total.item() / EVERY / size:.6f}", flush=True)
            total.zero_()
    bits = checksum(model)
    if rank == 0:
        print(f"{len(text)} characters; {time.perf_counter() - begin:.1f} s")
        print(f"model: {bits}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
