# SPDX-License-Identifier: Apache-2.0
"""All checks, with ranks as threads."""

import checks
import pytest

import capstan as cs


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_check(check: checks.Check, ranks: int) -> None:
    cs.run_local(check, ranks, timeout=60)
