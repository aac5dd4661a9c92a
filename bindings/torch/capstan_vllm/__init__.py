# SPDX-License-Identifier: Apache-2.0
"""A platform of vLLM: processors, whose groups of tensor and pipeline parallel ranks run over Capstan.

Where the package is installed, vLLM finds it by itself wherever it would run on the CPU (its build for the
CPU). VLLM_PLUGINS=capstan asks for it in any build.
"""

from __future__ import annotations

__all__ = ["register"]


def register() -> str | None:
    """The entry point of the group vllm.platform_plugins: the name of the platform, or None."""
    from vllm import envs
    from vllm.platforms import cpu_platform_plugin

    if "capstan" not in (envs.VLLM_PLUGINS or []) and cpu_platform_plugin() is None:
        return None
    import capstan_torch

    capstan_torch.register()
    return "capstan_vllm.platform.CapstanPlatform"
