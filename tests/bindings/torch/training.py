# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training, with the results of Gloo."""

import torch
import torch.distributed as dist
from collectives import data, rank, same, size
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def network():
    torch.manual_seed(1)
    layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)]
    return torch.nn.Sequential(*layers)


def trained(group, make_optimizer, prepare=lambda model, group: None):
    """The parameters after some steps, each rank with samples of its own."""
    model = DistributedDataParallel(network(), process_group=group, bucket_cap_mb=0.0005)
    prepare(model, group)
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


def compressed_by_power_sgd(model, group):
    """Its callbacks wait for futures of calls that they start."""
    state = power_sgd.PowerSGDState(
        group, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=0.5
    )
    model.register_comm_hook(state, power_sgd.powerSGD_hook)


def sum_after_a_sum(model, group):
    """A callback waits for a future whose callback waits for another one."""

    def reduced(tensor, then=lambda tensor: tensor):
        future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
        return future.then(lambda done: then(done.value()[0]))

    def hook(_, bucket):
        def again(tensor):
            return reduced(tensor / size(), lambda t: reduced(t / size()).wait()).wait()

        return reduced(bucket.buffer(), lambda t: again(t / size()))

    model.register_comm_hook(None, hook)


def check_hooks_that_wait_equal_gloo():
    gloo, capstan = dist.new_group(backend="gloo"), dist.new_group(backend="capstan")
    close(
        trained(capstan, sgd, compressed_by_power_sgd), trained(gloo, sgd, compressed_by_power_sgd)
    )
    close(trained(capstan, sgd, sum_after_a_sum), trained(gloo, sgd))


def check_sparse_embeddings_equal_gloo():
    def embedded(group):
        torch.manual_seed(1)
        table = torch.nn.Embedding(50, 4, sparse=True)
        model = DistributedDataParallel(table, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            places = torch.arange(5 + rank()) * (rank() + 2) + step
            model(places).square().sum().backward()
            optimizer.step()
        return [table.weight.detach().clone()]

    gloo, capstan = dist.new_group(backend="gloo"), dist.new_group(backend="capstan")
    close(embedded(capstan), embedded(gloo))


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
