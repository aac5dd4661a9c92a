# SPDX-License-Identifier: Apache-2.0
"""Every collective against a local computation."""

import torch
import torch.distributed as dist

REAL = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
COUNTS = [0, 1, 7, 1000, 70001]


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def data(of_rank, count, dtype=torch.float32, salt=0):
    """Small integers, which differ by rank and index, so that all sums are exact."""
    values = (torch.arange(count) * 7 + of_rank * 3 + salt) % 5
    if dtype == torch.bool:
        return values > 2
    if dtype.is_complex:
        return torch.complex(values.double(), (values + 1).double()).to(dtype)
    return values.to(dtype)


def everybodys(count, dtype=torch.float32, salt=0):
    return [data(r, count, dtype, salt) for r in range(size())]


def same(got, wanted):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, (got, wanted)
    assert torch.equal(got, wanted), (got, wanted)


def refused(call, text):
    try:
        call()
    except (ValueError, RuntimeError) as error:
        assert text in str(error).lower(), error
        return str(error)
    else:
        raise AssertionError(f"not refused: {text}")


def check_all_reduce_types():
    for dtype in REAL + INTEGERS + COMPLEX:
        for count in COUNTS:
            mine = data(rank(), count, dtype)
            dist.all_reduce(mine)
            same(mine, sum(everybodys(count, dtype)))


def check_all_reduce_operations():
    inputs = torch.stack(everybodys(100, torch.int32))
    folds = {
        dist.ReduceOp.PRODUCT: lambda t: t.prod(0).to(torch.int32),
        dist.ReduceOp.MIN: lambda t: t.amin(0),
        dist.ReduceOp.MAX: lambda t: t.amax(0),
    }
    for op, fold in folds.items():
        mine = inputs[rank()].clone()
        dist.all_reduce(mine, op)
        same(mine, fold(inputs))
    bitwise = {
        dist.ReduceOp.BAND: torch.bitwise_and,
        dist.ReduceOp.BOR: torch.bitwise_or,
        dist.ReduceOp.BXOR: torch.bitwise_xor,
    }
    for op, combine in bitwise.items():
        wanted = inputs[0]
        for other in inputs[1:]:
            wanted = combine(wanted, other)
        mine = inputs[rank()].clone()
        dist.all_reduce(mine, op)
        same(mine, wanted)


def complex_data(of_rank, count, dtype):
    """Whole numbers of three steps of a clock, times rank and index: products are exact."""
    turn = torch.tensor([1, 1j, -1], dtype=dtype)
    return turn[(torch.arange(count) + of_rank) % 3] * (torch.arange(count) % 4 + of_rank + 1)


def check_products_of_complex_tensors():
    """Wherever PyTorch hands them to the backend; all_reduce() of PyTorch refuses them for all backends."""
    group = dist.distributed_c10d._get_default_group()
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.PRODUCT
    for dtype in COMPLEX:
        count = 6 * size()
        inputs = [complex_data(r, count, dtype) for r in range(size())]
        wanted = torch.stack(inputs).prod(0)
        block = slice(6 * rank(), 6 * rank() + 6)
        mine = inputs[rank()].clone()
        group.allreduce([mine], options).wait()
        same(mine, wanted)
        rows = inputs[rank()].clone().view(6, size()).t()  # not dense
        group.allreduce([rows], options).wait()
        same(rows, wanted.view(6, size()).t())
        for root in range(size()):
            mine = inputs[rank()].clone()
            dist.reduce(mine, root, dist.ReduceOp.PRODUCT)
            if rank() == root:
                same(mine, wanted)
        mine = torch.empty(6, dtype=dtype)
        dist.reduce_scatter(mine, list(inputs[rank()].chunk(size())), dist.ReduceOp.PRODUCT)
        same(mine, wanted[block])
        if hasattr(dist, "reduce_scatter_tensor"):
            dist.reduce_scatter_tensor(mine.zero_(), inputs[rank()], dist.ReduceOp.PRODUCT)
            same(mine, wanted[block])
        refused(lambda: dist.all_reduce(mine, dist.ReduceOp.PRODUCT), "complex")
        refused(lambda: dist.reduce(mine, 0, dist.ReduceOp.MIN), "min is not defined for c")


def check_averages_and_factors():
    mine = torch.full((9,), float(rank() * size()))
    dist.all_reduce(mine, dist.ReduceOp.AVG)
    same(mine, torch.full((9,), float(sum(range(size())))))
    make = getattr(dist, "_make_nccl_premul_sum", None)
    from torch._C import _distributed_c10d as c10d

    make = make or c10d._make_nccl_premul_sum
    mine = data(rank(), 9)
    dist.all_reduce(mine, make(0.5))
    same(mine, sum(everybodys(9)) * 0.5)


def check_integers_of_16_bits():
    """They wrap around, and are averaged without."""
    types = [torch.int16] + ([torch.uint16] if hasattr(torch, "uint16") else [])
    for dtype in types:
        inputs = [((torch.arange(60) + r) * 1111).to(torch.int32).to(dtype) for r in range(size())]
        wide = torch.stack([part.to(torch.int32) for part in inputs])
        wanted = wide.sum(0).to(torch.int32).to(dtype)
        block = slice(rank() * 60 // size(), (rank() + 1) * 60 // size())
        mine = inputs[rank()].clone()
        dist.all_reduce(mine)
        same(mine, wanted)
        mine = inputs[rank()].clone()
        dist.all_reduce(mine, dist.ReduceOp.MIN)
        same(mine, wide.amin(0).to(dtype))
        rows = inputs[rank()].clone().view(6, 10).t()  # not dense
        dist.all_reduce(rows)
        same(rows, wanted.view(6, 10).t())
        mine = (inputs[rank()] * 0).to(dtype) + 30000 if dtype == torch.int16 else inputs[0].clone()
        expected = mine.clone()
        dist.all_reduce(mine, dist.ReduceOp.AVG)
        same(mine, expected)
        mine = inputs[rank()].clone()
        dist.reduce(mine, 0)
        if rank() == 0:
            same(mine, wanted)
        blocks = list(inputs[rank()].chunk(size()))
        got = torch.empty_like(blocks[rank()])
        dist.reduce_scatter(got, blocks)
        same(got, wanted[block])
        lists = [torch.zeros(60, dtype=dtype) for _ in range(size())]
        dist.all_gather(lists, inputs[rank()])
        for part, other in zip(lists, inputs):
            same(part, other)


def sparse(of_rank, dense_dimensions):
    """A matrix, or rows of one, with as many elements as its rank says."""
    column = (of_rank + 2 * torch.arange(of_rank)) % 7
    places = torch.stack([column] * (2 - dense_dimensions))
    values = data(of_rank, of_rank * 9**dense_dimensions).view([of_rank] + [9] * dense_dimensions)
    shape = (7, 9) if dense_dimensions else (7, 7)
    return torch.sparse_coo_tensor(places, values, shape)


def check_sparse_all_reduce():
    for dense_dimensions in (0, 1):
        wanted = sum(sparse(r, dense_dimensions).to_dense() for r in range(size()))
        for op, divisor in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, size())):
            mine = sparse(rank(), dense_dimensions)
            dist.all_reduce(mine, op)
            same(mine.to_dense(), wanted / divisor)
    refused(lambda: dist.all_reduce(sparse(1, 0), dist.ReduceOp.MAX), "only sum and avg")
    if size() > 1:
        other = torch.sparse_coo_tensor(size=(7 + rank(), 9))
        refused(lambda: dist.all_reduce(other), "different shapes")
        dist.barrier()  # the group goes on


def check_bool():
    inputs = torch.stack(everybodys(50, torch.bool))
    for op, wanted in ((dist.ReduceOp.MAX, inputs.any(0)), (dist.ReduceOp.MIN, inputs.all(0))):
        mine = inputs[rank()].clone()
        dist.all_reduce(mine, op)
        same(mine, wanted)
    refused(lambda: dist.all_reduce(inputs[0].clone()), "sums of bool")


def check_refused_types():
    short = torch.ones(3, dtype=torch.int16)
    refused(lambda: dist.broadcast(torch.ones(3).to_sparse(), 0), "sparse")
    refused(lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND), "bit")
    dist.broadcast(short.mul_(rank() + 5), 0)  # but it can be moved
    same(short, torch.full((3,), 5, dtype=torch.int16))


def check_small_floats():
    names = [n for n in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, n)]
    for dtype in (getattr(torch, n) for n in names):
        mine = data(rank(), 40).to(dtype)
        dist.all_reduce(mine)
        same(mine.float(), sum(everybodys(40)))


def check_broadcast_and_reduce():
    for count in COUNTS:
        for root in range(size()):
            mine = data(rank(), count)
            dist.broadcast(mine, root)
            same(mine, data(root, count))
            mine = data(rank(), count)
            dist.reduce(mine, root)
            if rank() == root:
                same(mine, sum(everybodys(count)))


def check_gathers():
    for count in COUNTS:
        parts = [torch.empty(count) for _ in range(size())]
        dist.all_gather(parts, data(rank(), count))
        for r, part in enumerate(parts):
            same(part, data(r, count))
        whole = torch.empty(size() * count)
        dist.all_gather_into_tensor(whole, data(rank(), count))
        same(whole, torch.cat(everybodys(count)))
        root = size() - 1
        parts = [torch.empty(count) for _ in range(size())] if rank() == root else None
        dist.gather(data(rank(), count), parts, root)
        for r, part in enumerate(parts or []):
            same(part, data(r, count))


def check_uneven_gather():
    parts = [torch.empty(r + 2) for r in range(size())]
    dist.all_gather(parts, data(rank(), rank() + 2))
    for r, part in enumerate(parts):
        same(part, data(r, r + 2))


def check_scatters():
    for count in COUNTS:
        for root in range(size()):
            mine = torch.empty(count)
            parts = [data(root, count, salt=r) for r in range(size())]
            dist.scatter(mine, parts if rank() == root else None, root)
            same(mine, data(root, count, salt=rank()))
        blocks = [data(rank(), count, salt=r) for r in range(size())]
        wanted = sum(everybodys(count, salt=rank()))
        mine = torch.empty(count)
        dist.reduce_scatter(mine, blocks)
        same(mine, wanted)
        mine = torch.empty(count)
        dist.reduce_scatter_tensor(mine, torch.cat(blocks))
        same(mine, wanted)


def check_uneven_reduce_scatter():
    blocks = [data(rank(), r + 1, salt=r) for r in range(size())]
    mine = torch.empty(rank() + 1)
    dist.reduce_scatter(mine, blocks)
    same(mine, sum(everybodys(rank() + 1, salt=rank())))


def check_all_to_all():
    for count in COUNTS:
        blocks = [data(rank(), count, salt=r) for r in range(size())]
        wanted = [data(r, count, salt=rank()) for r in range(size())]
        whole = torch.empty(size() * count)
        dist.all_to_all_single(whole, torch.cat(blocks))
        same(whole, torch.cat(wanted))
        parts = [torch.empty(count) for _ in range(size())]
        dist.all_to_all(parts, blocks)
        same(torch.cat(parts), torch.cat(wanted))


def check_uneven_all_to_all():
    sent = [rank() + r for r in range(size())]  # rows of two
    blocks = [data(rank(), 2 * n, salt=r).view(n, 2) for r, n in enumerate(sent)]
    whole = torch.empty(sum(sent), 2)
    dist.all_to_all_single(whole, torch.cat(blocks), sent, sent)
    wanted = [data(r, 2 * n, salt=rank()).view(n, 2) for r, n in enumerate(sent)]
    same(whole, torch.cat(wanted))
    refused(
        lambda: dist.all_to_all_single(whole, torch.cat(blocks), [n + 1 for n in sent], sent),
        "split sizes",
    )


def check_tensors_that_are_not_dense():
    wide = torch.stack([data(rank(), 6), torch.full((6,), 9.0)], dim=1)
    dist.all_reduce(wide[:, 0])
    same(wide, torch.stack([sum(everybodys(6)), torch.full((6,), 9.0)], dim=1))
    turned = torch.empty(3, 2 * size()).t()
    dist.all_gather_into_tensor(turned, data(rank(), 6).view(3, 2).t().contiguous().t().t())
    wanted = [d.view(3, 2).t() for d in everybodys(6)]
    same(turned, torch.cat(wanted))


def check_asynchronous_works():
    tensors = [data(rank(), 1000, salt=s) for s in range(20)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    for work in works:
        work.wait()
        assert work.is_completed() and work.is_success()
    for salt, tensor in enumerate(tensors):
        same(tensor, sum(everybodys(1000, salt=salt)))
    future = dist.all_reduce(data(rank(), 30), async_op=True).get_future()
    doubled = future.then(lambda f: f.value()[0] * 2)
    same(doubled.wait(), sum(everybodys(30)) * 2)
    work = dist.all_reduce(data(rank(), 30), async_op=True)
    while not work.is_completed():
        pass
    same(work.result()[0], sum(everybodys(30)))


def check_groups():
    for members in [list(range(size())), [size() - 1], list(range(size()))[::-1][:2]]:
        members = sorted(set(members))
        group = dist.new_group(members)
        if rank() not in members:
            continue
        mine = data(rank(), 10)
        dist.all_reduce(mine, group=group)
        same(mine, sum(data(r, 10) for r in members))


def check_groups_of_one_name():
    """Each rank makes another group, which PyTorch gives the same name."""
    alone = dist.new_group([rank()])
    x = data(rank(), 10)
    got = x.clone()
    dist.all_reduce(got, group=alone)
    same(got, x)


def check_objects():
    objects = [None] * size()
    dist.all_gather_object(objects, {"rank": rank(), "text": "x" * rank()})
    assert objects == [{"rank": r, "text": "x" * r} for r in range(size())]
    listed = [("from", 0), 1.5] if rank() == 0 else [None, None]
    dist.broadcast_object_list(listed, 0)
    assert listed == [("from", 0), 1.5]
    gathered = [None] * size() if rank() == 0 else None
    dist.gather_object(rank() * 10, gathered, 0)
    assert gathered in (None, [r * 10 for r in range(size())])
    mine = [None]
    dist.scatter_object_list(mine, list(range(size())) if rank() == 0 else None, 0)
    assert mine == [rank()]


def check_barriers():
    dist.barrier()
    dist.barrier(async_op=True).wait()
    options = dist.BarrierOptions()
    options.device_ids = [rank()]  # accelerate passes them to all backends
    dist.distributed_c10d._get_default_group().barrier(options).wait()


def check_coalesced():
    for dtype in (torch.float32, torch.int64):
        tensors = [data(rank(), n, dtype) for n in (3, 50)]
        dist.all_reduce_coalesced(tensors)
        for n, tensor in zip((3, 50), tensors):
            same(tensor, sum(everybodys(n, dtype)))
    if torch.__version__ < "2":
        return
    inputs = [data(rank(), 5, salt=s) for s in range(3)]
    outputs = [torch.empty(5 * size()) for _ in inputs]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as batch:
        for output, part in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, part)
    batch.wait()
    for salt, output in enumerate(outputs):
        same(output, torch.cat(everybodys(5, salt=salt)))
