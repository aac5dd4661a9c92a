# SPDX-License-Identifier: Apache-2.0
"""vLLM's platform for processors, with Capstan in the place of Gloo."""

from __future__ import annotations

from vllm.platforms.cpu import CpuPlatform


class CapstanPlatform(CpuPlatform):
    """The platform of processors: all but its groups is as on any CPU."""

    dist_backend = "capstan"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "capstan_vllm.communicator.CapstanCommunicator"
