"""Data-parallel training, with the results of Gloo."""

import torch
import torch.distributed as dist
from collectives import data, rank, same, size
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def network():
    torch.manual_seed(1)
    layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)]
    return torch.nn.Sequential(*layers)


def trained(group, make_optimizer):
    """The parameters after some steps, each rank with samples of its own."""
    model = DistributedDataParallel(network(), process_group=group, bucket_cap_mb=0.0005)
    optimizer = make_optimizer(model.parameters(), group)
    for step in range(3):
        optimizer.zero_grad()
        model(data(rank(), 32, salt=step).view(4, 8)).square().sum().backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def close(mine, theirs):
    for a, b in zip(mine, theirs):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def sgd(parameters, group):
    return torch.optim.SGD(parameters, lr=1e-3)


def zero(parameters, group):
    return ZeroRedundancyOptimizer(
        parameters, optimizer_class=torch.optim.SGD, process_group=group, lr=1e-3
    )


def check_ddp_and_zero_equal_gloo():
    gloo, capstan = dist.new_group(backend="gloo"), dist.new_group(backend="capstan")
    for optimizer in (sgd, zero):
        mine, theirs = trained(capstan, optimizer), trained(gloo, optimizer)
        close(mine, theirs)
        for parameter in mine:  # and all ranks have the same
            first = parameter.clone()
            dist.broadcast(first, 0)
            same(first, parameter)


def check_fully_sharded():
    if torch.__version__ < "2.6":
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (size(),))
    model = fully_shard(network(), mesh=mesh)
    reference = network()
    samples = [data(r, 32).view(4, 8) for r in range(size())]
    model(samples[rank()]).square().sum().backward()
    sum(reference(s).square().sum() for s in samples).div(size()).backward()
    close(
        [p.grad.full_tensor() for p in model.parameters()],
        [p.grad for p in reference.parameters()],
    )


def check_distributed_tensors():
    if torch.__version__ < "2.6":
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (size(),))
    whole = torch.arange(24.0).view(6, 4)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    same(rows.redistribute(mesh, [Replicate()]).to_local(), whole)
    columns = rows.redistribute(mesh, [Shard(1)])
    same(columns.full_tensor(), whole)
    same(rows.sum().full_tensor(), whole.sum())
