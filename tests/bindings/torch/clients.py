# SPDX-License-Identifier: Apache-2.0
"""Programs that use torch.distributed, with Capstan as their backend: clients.py, by the Python with PyTorch.

Installs each client of the table below beside that PyTorch, runs it by `capstan run -n 2` with the backends
capstan and gloo, compares their results, and writes docs/clients.md. Exits 1 where one differs.
"""

import importlib.metadata
import json
import math
import os
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / "build/release"
RANKS = 2
LIMIT = 300


def samples(of_rank, count):
    import torch

    generator = torch.Generator().manual_seed(of_rank)
    return torch.randn(count, 8, generator=generator)


def network():
    import torch

    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


def numbers_of(model):
    return [float(p.detach().double().sum()) for p in model.parameters()]


def by_torchmetrics(backend, rank):
    import torch
    import torch.distributed as dist
    import torchmetrics

    dist.init_process_group(backend)
    scores = samples(rank, 30 + 10 * rank)
    right = torch.arange(len(scores)) % 8
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=8)
    everything = torchmetrics.CatMetric()  # lengths that differ by rank
    accuracy.update(scores, right)
    everything.update(scores[:, 0])
    found = [float(accuracy.compute()), *everything.compute().tolist()]
    dist.destroy_process_group()
    return found


def by_accelerate(backend, rank):
    import accelerate
    import torch

    torch.distributed.init_process_group(backend)  # accelerate makes those alone whose names it knows
    accelerator = accelerate.Accelerator(cpu=True)
    assert accelerator.num_processes == RANKS
    assert torch.distributed.get_backend() == backend
    model = network()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(5):
        optimizer.zero_grad()
        accelerator.backward(model(samples(rank + 2 * step, 4)).square().mean())
        optimizer.step()
    gathered = accelerator.gather_for_metrics(torch.tensor([float(rank)])).tolist()
    accelerator.wait_for_everyone()
    return gathered + numbers_of(model)


def lightning_module():
    import lightning
    import torch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = network()

        def training_step(self, batch, _):
            loss = self.model(batch[0]).square().mean()
            self.log("loss", loss, sync_dist=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module()


def by_lightning(backend, rank):
    import lightning
    import torch
    from lightning.pytorch.plugins.environments import TorchElasticEnvironment
    from lightning.pytorch.strategies import DDPStrategy

    data = torch.utils.data.TensorDataset(samples(0, 32))
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=RANKS,
        strategy=DDPStrategy(process_group_backend=backend),
        plugins=[TorchElasticEnvironment()],
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = lightning_module()
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=4))
    assert torch.distributed.get_backend() == backend
    return [float(trainer.callback_metrics["loss"]), *numbers_of(module)]


def by_transformers(backend, rank):
    import torch
    import transformers

    torch.distributed.init_process_group(backend)  # as for accelerate, by which it runs
    transformers.set_seed(1)
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    data = [{"input_ids": torch.arange(i, i + 6) % 50, "labels": i % 2} for i in range(32)]
    options = transformers.TrainingArguments(
        output_dir=os.environ["CLIENT_FOLDER"],
        use_cpu=True,
        max_steps=4,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    result = transformers.Trainer(model=model, args=options, train_dataset=data).train()
    assert torch.distributed.get_backend() == backend
    return [result.training_loss, *numbers_of(model)]


def by_wrapper_of_nccl(group, rank):
    """vLLM calls NCCL by a wrapper of its own, which SGLang has, too: it loads Capstan's library."""
    import ctypes

    import torch
    from vllm.distributed.device_communicators import pynccl_wrapper as wrapper

    library = wrapper.NCCLLibrary(str(BUILD / "bindings/nccl/libnccl.so.2"))
    unique = group.broadcast_object(bytes(library.ncclGetUniqueId().internal) if rank == 0 else None, 0)
    given = wrapper.ncclUniqueId()
    ctypes.memmove(ctypes.byref(given), unique, len(unique))
    comm, stream = library.ncclCommInitRank(RANKS, given, rank), wrapper.cudaStream_t(None)
    own, found = torch.full((1000,), rank + 1.0), torch.zeros(1000)
    source, target = (wrapper.buffer_type(one.data_ptr()) for one in (own, found))
    f32 = wrapper.ncclDataTypeEnum.from_torch(torch.float32)
    library.ncclAllReduce(source, target, 1000, f32, 0, comm, stream)
    assert found.eq(3).all()
    library.ncclBroadcast(source, target, 1000, f32, 1, comm, stream)
    assert found.eq(2).all()
    library.ncclReduceScatter(source, target, 500, f32, 0, comm, stream)
    library.ncclAllGather(source, target, 500, f32, comm, stream)
    assert found[:500].eq(1).all() and found[500:].eq(2).all()
    library.ncclGroupStart()
    library.ncclSend(source, 1000, f32, 1 - rank, comm, stream)
    library.ncclRecv(target, 1000, f32, 1 - rank, comm, stream)
    library.ncclGroupEnd()
    assert found.eq(2 - rank).all()
    library.ncclCommDestroy(comm)


def by_vllm(backend, rank):
    import torch
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.distributed import parallel_state as groups
    from vllm.model_executor.layers.linear import ColumnParallelLinear, RowParallelLinear
    from vllm.platforms import current_platform

    with set_current_vllm_config(VllmConfig()):
        groups.init_distributed_environment(RANKS, rank, "env://", rank, backend=current_platform.dist_backend)
        groups.initialize_model_parallel(tensor_model_parallel_size=RANKS)
        group = groups.get_tp_group()
        assert torch.distributed.get_backend(group.device_group) == backend
        own = samples(rank, 4)
        found = [group.all_reduce(own.clone()), group.broadcast(own.clone(), 1)]
        found += [group.all_gather(own, dim) for dim in (0, 1, -1)] + [group.reduce_scatter(own.contiguous(), 0)]
        gathered = group.gather(own, 0)
        found += [own if gathered is None else gathered]
        found += [group.broadcast_tensor_dict({"a": samples(7, 3)} if rank == 0 else None, 0)["a"]]
        first = rank == 0
        if first:
            group.send(own, 1)
        found += [group.recv(own.size(), own.dtype, 1 - rank)]
        if not first:
            group.send(own, 0)
        if backend == "capstan":  # vLLM's own communicator for processors has none of these
            sizes = [3, 5]
            whole = group.all_gatherv(samples(rank, sizes[rank]), sizes=sizes)
            assert torch.equal(whole, torch.cat([samples(r, n) for r, n in enumerate(sizes)]))
            parts = group.reduce_scatterv(torch.ones(8, 2), dim=0, sizes=sizes)
            assert torch.equal(parts, torch.full((sizes[rank], 2), 2.0))
            by_wrapper_of_nccl(group, rank)
        torch.manual_seed(1)
        up, down = ColumnParallelLinear(8, 32, bias=False), RowParallelLinear(32, 8, bias=False)
        weights = [torch.randn(32, 8), torch.randn(8, 32)]
        for layer, weight in zip((up, down), weights):
            layer.weight_loader(layer.weight, weight)
            layer.quant_method.process_weights_after_loading(layer)
        found += [down(up(samples(3, 4))[0])[0]]
        assert torch.allclose(found[-1], samples(3, 4) @ weights[0].T @ weights[1].T, atol=1e-4)
        sums = group.all_gather(torch.stack([one.detach().double().square().sum() for one in found]), 0)
    groups.destroy_model_parallel()
    groups.destroy_distributed_environment()
    return sums.tolist()


# Package, version, program, and what its ranks do.
CLIENTS = [
    ("torchmetrics", "1.9", by_torchmetrics, "an accuracy, and samples of different numbers on the ranks"),
    ("accelerate", "1.15", by_accelerate, "five steps of training, and `gather_for_metrics`"),
    ("lightning", "2.6", by_lightning, "two epochs by `DDPStrategy`, with a loss of all ranks"),
    ("transformers", "5.24", by_transformers, "four steps of `Trainer` with a small BERT"),
    ("vllm", "0.33.0", by_vllm, "every call of a tensor parallel group and two layers, by `capstan_vllm`; its wrapper of NCCL on `libnccl.so.2`"),
]


def python_of(package):
    """vLLM wants other versions of what others want: it has an environment of its own over this one."""
    if package != "vllm":
        return sys.executable
    folder = ROOT / "build/vllm"
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        ours, theirs = (
            subprocess.check_output([one, "-c", "import site; print(site.getsitepackages()[0])"], text=True).strip()
            for one in (sys.executable, python)
        )
        (pathlib.Path(theirs) / "pytorch.pth").write_text(ours + "\n")
    return str(python)


def install(package, version):
    """vLLM's wheels are for CUDA. Its source runs groups on processors without anything compiled."""
    options, variables = [], {}
    if package == "vllm":
        if version_of(package) == version:  # to make it takes minutes
            return
        subprocess.run(
            [python_of(package), "-m", "pip", "install", "-q", "setuptools>=78,<81", "setuptools-rust", "setuptools-scm", "wheel"],
            check=True,
        )
        options = ["--no-binary", "vllm", "--no-build-isolation"]
        variables = {"VLLM_TARGET_DEVICE": "empty", "VLLM_VERSION_OVERRIDE": version}
    torch = importlib.metadata.version("torch").partition("+")[0]
    wanted = f"{package}=={version}" if options else f"{package}~={version}.0"
    subprocess.run(
        [python_of(package), "-m", "pip", "install", "-q", f"torch=={torch}", wanted, *options],
        env={**os.environ, **variables},
        check=True,
    )


def version_of(package):
    code = f"import importlib.metadata as m; print(m.version('{package}'))"
    return subprocess.run([python_of(package), "-c", code], capture_output=True, text=True).stdout.strip()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def results(name, backend):
    """The numbers that the ranks have found, in their order."""
    folder = BUILD / "tests/bindings/torch/clients"
    folder.mkdir(parents=True, exist_ok=True)
    variables = {
        "PYTHONPATH": str(BUILD / "bindings/torch/own"),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "CLIENT_FOLDER": str(folder),
        **({"VLLM_PLUGINS": "capstan"} if backend == "capstan" else {"VLLM_TARGET_DEVICE": "cpu"}),
    }
    ranks = [str(BUILD / "bin/capstan"), "run", "-n", str(RANKS), "--timeout", str(LIMIT), "--"]
    ended = subprocess.run(
        [*ranks, python_of(name), __file__, name, backend],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    found = [json.loads(line.partition("RESULT")[2]) for line in ended.stdout.splitlines() if "RESULT" in line]
    if ended.returncode or len(found) != RANKS:
        sys.exit(f"{name} with {backend}: exit status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return found


def alike(a, b):
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-6) for x, y in zip(a, b))


def run_one(name, backend):
    import capstan_torch  # noqa: F401
    import torch

    rank = os.environ["CAPSTAN_RANK"]
    torch.set_num_threads(1)
    elastic = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)}
    os.environ.update(elastic, GROUP_RANK="0", TORCHELASTIC_RUN_ID="clients")
    program = next(run for package, _, run, _ in CLIENTS if package == name)
    print("RESULT" + json.dumps(program(backend, int(rank))), flush=True)


def row(package, program, does):
    ours, gloos = results(package, "capstan"), results(package, "gloo")
    holds = alike(ours[0], ours[1]) and all(alike(a, b) for a, b in zip(ours, gloos))
    print(f"{package}: {'as by Gloo' if holds else f'differs: {ours} {gloos}'}", flush=True)
    version = version_of(package)
    return holds, f"| {package} | {version} | {does} | {'as by Gloo' if holds else '**differs**'} |"


def main():
    for package, version, _, _ in CLIENTS:
        install(package, version)
    rows = [row(package, program, does) for package, _, program, does in CLIENTS]
    page = ROOT / "docs/clients.md"
    head = page.read_text().partition("| client |")[0]
    table = ["| client | version | what two ranks do | results |", "| --- | --- | --- | --- |"]
    page.write_text(head + "\n".join(table + [text for _, text in rows]) + "\n")
    sys.exit(not all(holds for holds, _ in rows))


if __name__ == "__main__":
    run_one(*sys.argv[1:]) if len(sys.argv) > 1 else main()
