"""A loss of ours in a plain loop on several processes, with accelerate or with DDP: nothing to gather, no flag to set.

    python examples/accelerate_ddp.py                                       one process
    torchrun --nproc-per-node=2 examples/accelerate_ddp.py                  two: the same losses and weights
    torchrun --nproc-per-node=2 examples/accelerate_ddp.py --plain          the same without accelerate

(Seconds on two cores; the first needs accelerate.) Each process brings its half of every batch; the loss knows its
peers by `torch.distributed`, compares with everyone's embeddings, and DDP averages the gradient to that of one process.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

import isotherm


def wrapped(network: nn.Module, optimizer: torch.optim.Optimizer, plain: bool):
    """The network as it is trained on this process among its peers; its rank and how many there are."""
    if not plain:
        from accelerate import Accelerator  # noqa: PLC0415 - not with --plain

        accelerator = Accelerator(cpu=True)
        network, optimizer = accelerator.prepare(network, optimizer)
        return network, accelerator.backward, accelerator.process_index, accelerator.num_processes
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return network, torch.Tensor.backward, 0, 1
    dist.init_process_group("gloo")
    return nn.parallel.DistributedDataParallel(network), torch.Tensor.backward, dist.get_rank(), size


def main(plain: bool) -> list[float]:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8)).double()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    data = torch.randn(64, 16, dtype=torch.float64)
    model, backward, rank, size = wrapped(network, optimizer, plain)
    loss, values = isotherm.nn.NTXentLoss(temperature=0.1), []
    for step in range(5):
        noise = torch.Generator().manual_seed(step)
        views = [data + 0.2 * torch.randn(data.shape, generator=noise, dtype=data.dtype) for _ in range(2)]
        mine = [view.chunk(size)[rank] for view in views]
        value = loss(*(model(view) for view in mine))
        optimizer.zero_grad()
        backward(value)
        optimizer.step()
        values.append(value.item())
    if rank == 0:
        print(" ".join(f"{v:.12f}" for v in values), f"{network[0].weight.abs().sum().item():.12f}")
    return values


if __name__ == "__main__":
    main("--plain" in sys.argv)
    if dist.is_initialized():  # after the model is gone, which else waits for its peers
        dist.destroy_process_group()
