"""Data-parallel training on handwritten digits: an ordinary program of PyTorch.

It only names the back-end, and the hook with which devices find gradients where DDP has them. The digits are
scikit-learn's; without it the program draws some, which are easier to tell apart.

    torchrun --nproc-per-node 4 examples/torch/ddp_digits.py          # on Fanin; brings a NIC up if there is none
    torchrun --nproc-per-node 4 examples/torch/ddp_digits.py gloo     # the same on Gloo

The last line has a checksum of the model. With FANIN_TORCH_REPRODUCIBLE=run it is the same in every run.
"""

import hashlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import fanin_torch

EPOCHS, BATCH, HELD_OUT = 10, 32, 360
DRAWN = 1797  # as many as scikit-learn has
GLYPHS = (  # five rows of three points each
    *("111101101101111", "010110010010111", "111001111100111", "111001111001111", "101101111001001"),
    *("111100111001111", "111100111101111", "111001010010010", "111101111101111", "111101111001111"),
)


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Images of 64 points from 0 to 1, and what they show."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return drawn_digits()
    found = load_digits()
    return torch.tensor(found.data / 16, dtype=torch.float32), torch.tensor(found.target)


def drawn_digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Instead of scikit-learn's: glyphs somewhere in the image, and noise."""
    if dist.get_rank() == 0:
        print("scikit-learn is not installed: these are drawn digits", flush=True)
    generator = torch.Generator().manual_seed(3)
    glyphs = torch.tensor([[float(point) for point in glyph] for glyph in GLYPHS]).view(10, 5, 3)
    labels = torch.randint(0, 10, (DRAWN,), generator=generator)
    images = 0.4 * torch.rand(DRAWN, 8, 8, generator=generator)
    for image, label in zip(images, labels, strict=True):
        row, column = (int(torch.randint(0, 8 - length + 1, (), generator=generator)) for length in (5, 3))
        image[row : row + 5, column : column + 3] += 0.6 * glyphs[label]
    return images.view(DRAWN, 64), labels


def checksum(model: nn.Module) -> str:
    """Of the bits of all parameters."""
    bits = nn.utils.parameters_to_vector(model.parameters()).detach().numpy().tobytes()
    return hashlib.sha256(bits).hexdigest()[:16]


def main() -> None:
    torch.set_num_threads(1)  # the ranks share the cores
    backend = sys.argv[1] if len(sys.argv) > 1 else "fanin"
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels = digits()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    training, held_out = order[HELD_OUT:], order[:HELD_OUT]

    torch.manual_seed(2)  # the same model on every rank
    module = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    model = DistributedDataParallel(module, gradient_as_bucket_view=True)
    if backend == "fanin":
        model.register_comm_hook(None, fanin_torch.registered_buckets)
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
        print(f"model: {checksum(model)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
