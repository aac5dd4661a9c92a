# SPDX-License-Identifier: Apache-2.0
"""Programs for torch.distributed, NCCL and LightGBM, on Capstan: clients.py [NAME...], by the Python with PyTorch.

Installs each client of the table below beside that PyTorch, runs it by `capstan run -n 2`, where it is one of
PyTorch's with the backends capstan and gloo, compares their results, and writes docs/clients.md; so it does with
PyTorch's own tests (pytorch). Exits 1 where a client differs.
"""

import json
import math
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

from client_packages import install, python_of, version_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / "build/release"
NCCL = BUILD / "bindings/nccl/libnccl.so.2"
PATHS = os.pathsep.join(
    str(ROOT / folder)
    for folder in ("build/release/bindings/torch/own", "build/release/bindings/python", "tests/bindings/python")
)
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


def exchange_in_file(rank):
    """A function that gives every rank the bytes of rank 0."""
    file = pathlib.Path(os.environ["CLIENT_FOLDER"]) / "exchanged"

    def exchange(value):
        if rank == 0:
            file.with_suffix(".new").write_bytes(value)
            file.with_suffix(".new").rename(file)
        for _ in range(6000):
            if file.exists():
                return file.read_bytes()
            time.sleep(0.01)
        raise TimeoutError(f"rank 0 has written no {file}")

    return exchange


def by_sglang(_, rank):
    import clients_of_nccl as clients

    wrapper = clients.module_in("sglang", "srt/distributed/device_communicators/pynccl_wrapper.py")
    clients.check_wrapper(wrapper, NCCL, exchange_in_file(rank), rank)


def by_nccl4py(_, rank):
    import clients_of_nccl

    clients_of_nccl.check_nccl4py(exchange_in_file(rank), rank)


def by_lightgbm(_, rank):
    import capstan as cs
    import lightgbm_training

    with cs.init() as comm:
        for learner in ("data", "voting"):
            lightgbm_training.compare(comm, learner)


def by_vllm(backend, rank):
    import clients_of_nccl
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
            from vllm.distributed.device_communicators import pynccl_wrapper

            clients_of_nccl.check_wrapper(pynccl_wrapper, NCCL, lambda value: group.broadcast_object(value, 0), rank)
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


WRAPPER = "its wrapper of NCCL on `libnccl.so.2`"
# Package, version, program, what its ranks do, and what the results are: Gloo's, or checked by the program.
CLIENTS = [
    ("torchmetrics", "1.9", by_torchmetrics, "an accuracy, and samples of different numbers on the ranks", "as by Gloo"),
    ("accelerate", "1.15", by_accelerate, "five steps of training, and `gather_for_metrics`", "as by Gloo"),
    ("lightning", "2.6", by_lightning, "two epochs by `DDPStrategy`, with a loss of all ranks", "as by Gloo"),
    ("transformers", "5.24", by_transformers, "four steps of `Trainer` with a small BERT", "as by Gloo"),
    ("vllm", "0.33.0", by_vllm, f"every call of a tensor parallel group and two layers, by `capstan_vllm`; {WRAPPER}", "as by Gloo"),
    ("sglang", "0.5.23", by_sglang, f"{WRAPPER}: collectives, messages in a group", "right"),
    ("nccl4py", "0.6.0", by_nccl4py, "communicators, a split, groups, and calls by its bindings on `libnccl.so.2`", "right"),
    ("lightgbm", "4.7.0", by_lightgbm, "30 trees by the learners `data` and `voting`, by `capstan_lightgbm`", "as by its sockets"),
]
# Backends whose names PyTorch's own tests of a backend are for, and which of them runs them.
SUITES = [("capstan", "capstan"), ("gloo", "capstan"), ("gloo", "gloo")]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def results(name, backend):
    """The numbers that the ranks have found, in their order."""
    folder = BUILD / "tests/bindings/torch/clients"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    variables = {
        "PYTHONPATH": PATHS,
        "CAPSTAN_CUDA_DEVICES": str(RANKS),
        "LD_LIBRARY_PATH": str(NCCL.parent) if name == "nccl4py" else "",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "CLIENT_FOLDER": str(folder),
        **({"VLLM_PLUGINS": "capstan"} if backend == "capstan" else {"VLLM_TARGET_DEVICE": "cpu"}),
    }
    ranks = [str(BUILD / "bin/capstan"), "run", "-n", str(RANKS), "--timeout", str(LIMIT), "--"]
    ended = subprocess.run(
        [*ranks, python_of(name), __file__, "--rank", name, backend],
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
    program = next(run for package, _, run, *_ in CLIENTS if package == name)
    print("RESULT" + json.dumps(program(backend, int(rank)) or []), flush=True)


def row(package, does, results_are):
    ours = results(package, "capstan")
    gloos = results(package, "gloo") if results_are == "as by Gloo" else ours
    holds = alike(ours[0], ours[1]) and all(alike(a, b) for a, b in zip(ours, gloos))
    print(f"{package}: {results_are if holds else f'differs: {ours} {gloos}'}", flush=True)
    return holds, f"| {package} | {version_of(package)} | {does} | {results_are if holds else '**differs**'} |"


def suite_row(tests_of, backend):
    """PyTorch's own tests, of which some fail for reasons that docs/pytorch.md tells."""
    command = [sys.executable, "-W", "ignore", str(pathlib.Path(__file__).with_name("pytorch_suite.py")), tests_of, backend]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": PATHS}, capture_output=True, text=True)
    found = next((line for line in ended.stdout.splitlines() if "RESULT" in line), None)
    if found is None:
        sys.exit(f"tests for {tests_of} with {backend}: no result\n{ended.stdout}{ended.stderr}")
    counts = json.loads(found.partition("RESULT")[2])
    failed, skipped = counts["failed"], counts["skipped"]
    names = f" ({', '.join(f'`{name}`' for name in failed)})" if failed else ""
    print(f"tests for {tests_of} with {backend}: {counts}", flush=True)
    return (
        f"| {tests_of} | {backend} | {counts['passed']} | {len(failed)}{names} "
        f"| {sum(skipped.values())}, {skipped['needs a GPU']} of them for GPUs |"
    )


def tables_of(page):
    """The text before each of the two tables, and their rows by client."""
    text, suites = page.read_text().split("| tests for |")
    head, clients = text.split("| client |")
    rows, between = clients.split("\n\n", 1)
    return head, dict((line.split("|")[1].strip(), line) for line in rows.splitlines()[2:]), between, suites


def main(wanted):
    """Without names, all. Rows of others stay as they are."""
    page = ROOT / "docs/clients.md"
    head, rows, between, suites = tables_of(page)
    right = True
    for package, version, _, does, results_are in CLIENTS:
        if not wanted or package in wanted:
            install(package, version)
            holds, rows[package] = row(package, does, results_are)
            right = right and holds
    if not wanted or "pytorch" in wanted:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "expecttest", "hypothesis"], check=True)
        counts = "\n".join(suite_row(*suite) for suite in SUITES)
        suites = f" by backend | passed | failed | skipped |\n| --- | --- | --- | --- | --- |\n{counts}\n"
    table = ["| client | version | what two ranks do | results |", "| --- | --- | --- | --- |"]
    table += [rows[package] for package, *_ in CLIENTS if package in rows]
    page.write_text(head + "\n".join(table) + "\n\n" + between + "| tests for |" + suites)
    sys.exit(not right)


if __name__ == "__main__":
    run_one(*sys.argv[2:]) if sys.argv[1:2] == ["--rank"] else main(sys.argv[1:])
