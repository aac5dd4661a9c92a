# SPDX-License-Identifier: Apache-2.0
"""For CMake: PyTorch's version, its folder, and folders of headers, with semicolons between them."""

import os
import sysconfig

import torch
from torch.utils.cpp_extension import include_paths

if not torch.distributed.is_available():
    raise SystemExit("this PyTorch has no torch.distributed")
folder = torch.__path__[0]
headers = [*include_paths(), sysconfig.get_path("include")]
if folder.startswith("/usr/lib/python3/"):  # Debian's, with headers in /usr/include
    headers.append("/usr/include/torch/csrc/api/include")
print(";".join([torch.__version__, folder, *filter(os.path.isdir, headers)]))
