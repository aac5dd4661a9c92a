# SPDX-License-Identifier: Apache-2.0
"""The collectives of one of vLLM's groups, by its process group of the backend capstan."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from vllm.distributed.device_communicators.base_device_communicator import DeviceCommunicatorBase
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class CapstanCommunicator(CpuCommunicator):
    """vLLM's communicator for processors without its own shared memory, which Capstan has on one host and
    does without between hosts; and with the calls of different lengths that experts need.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        DeviceCommunicatorBase.__init__(self, *arguments, **options)
        self.dist_module = dist
        self.supports_tensor_dict = False  # vLLM then sends each tensor by the group
        if self.use_all2all:
            from vllm.distributed.device_communicators.all2all import AgRsAll2AllManager

            self.all2all_manager = AgRsAll2AllManager(self.cpu_group)

    def _gathered(self, one: torch.Tensor, sizes: list[int]) -> torch.Tensor:
        whole = one.new_empty((sum(sizes), *one.shape[1:]))
        dist.all_gather(list(whole.split(sizes)), one.contiguous(), group=self.device_group)
        return whole

    def all_gatherv(
        self,
        input_: torch.Tensor | list[torch.Tensor],
        dim: int = 0,
        sizes: list[int] | None = None,
    ) -> torch.Tensor | list[torch.Tensor]:
        if dim != 0:
            raise NotImplementedError(f"all_gatherv along dimension {dim}: move it to the front")
        if not isinstance(input_, torch.Tensor):
            return [self._gathered(one, sizes or [len(one)] * self.world_size) for one in input_]
        return self._gathered(input_, sizes or [len(input_)] * self.world_size)

    def reduce_scatterv(
        self, input_: torch.Tensor, dim: int = -1, sizes: list[int] | None = None
    ) -> torch.Tensor:
        first = input_.movedim(dim, 0).contiguous()
        parts = first.split(sizes) if sizes else first.chunk(self.world_size)
        own = torch.empty_like(parts[self.rank_in_group])
        dist.reduce_scatter(own, list(parts), group=self.device_group)
        return own.movedim(0, dim).contiguous()
