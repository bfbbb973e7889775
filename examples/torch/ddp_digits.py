"""Data-parallel training on scikit-learn's handwritten digits: an ordinary program of PyTorch.

All that it says of Fanin is the name of the back-end.

    torchrun --nproc-per-node 4 examples/torch/ddp_digits.py          # on Fanin; brings a NIC up if there is none
    torchrun --nproc-per-node 4 examples/torch/ddp_digits.py gloo     # the same on Gloo
"""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EPOCHS, BATCH, HELD_OUT = 10, 32, 360


def main() -> None:
    torch.set_num_threads(1)  # the ranks share the cores
    dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "fanin")
    rank, size = dist.get_rank(), dist.get_world_size()
    digits = load_digits()
    images, labels = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    training, held_out = order[HELD_OUT:], order[:HELD_OUT]

    torch.manual_seed(2)  # the same model on every rank
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    begin = time.perf_counter()
    for epoch in range(EPOCHS):
        shuffled = training[torch.randperm(len(training), generator=torch.Generator().manual_seed(epoch))]
        total = torch.zeros(())
        batches = [batch for batch in shuffled.split(BATCH * size) if len(batch) == BATCH * size]
        for batch in batches:
            mine = batch[rank::size]
            loss = nn.functional.cross_entropy(model(images[mine]), labels[mine])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: loss {total.item() / len(batches) / size:.6f}", flush=True)
    right = (model(images[held_out]).argmax(1) == labels[held_out]).float().mean()
    if rank == 0:
        print(f"right: {right:.1%} of {HELD_OUT} digits never seen; {time.perf_counter() - begin:.1f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
