# SPDX-License-Identifier: Apache-2.0
"""A layer of vLLM over several ranks. Start it with `torchrun --nproc-per-node 2 tensor_parallel.py`.

VLLM_PLUGINS=capstan has vLLM take Capstan's platform; its build for the CPU does so by itself.
"""

import os

import torch

os.environ.setdefault("VLLM_PLUGINS", "capstan")
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import (
    init_distributed_environment,
    initialize_model_parallel,
    tensor_model_parallel_all_gather,
    tensor_model_parallel_all_reduce,
)
from vllm.platforms import current_platform

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with set_current_vllm_config(VllmConfig()):
    init_distributed_environment(
        ranks, rank, "env://", int(os.environ["LOCAL_RANK"]), backend=current_platform.dist_backend
    )
    initialize_model_parallel(tensor_model_parallel_size=ranks)
    torch.manual_seed(1)
    inputs, weights = torch.randn(4, 16), torch.randn(16, 8)
    own = slice(rank * 16 // ranks, (rank + 1) * 16 // ranks)  # each rank has rows of the weights
    outputs = tensor_model_parallel_all_reduce(inputs[:, own] @ weights[own])
    torch.testing.assert_close(outputs, inputs @ weights)
    columns = tensor_model_parallel_all_gather(torch.full((2, 3), float(rank)), dim=-1)
    assert columns.shape == (2, 3 * ranks)
    if rank == 0:
        print(f"{ranks} ranks by {current_platform.dist_backend}")
