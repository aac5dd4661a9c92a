# SPDX-License-Identifier: Apache-2.0
"""The example same_bits.py on several numbers of ranks, and on two hosts.

    same_bits.py CAPSTAN SCRIPT_HOSTS EXAMPLE
"""

import re
import subprocess
import sys

capstan, hosts, example = sys.argv[1:]


def digests(*command):
    """The digests of the logits and the weights that a job has printed."""
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=250)
    if ended.returncode == 77:
        return None
    found = re.search(r"logits (\w+), weights (\w+)", ended.stdout)
    assert ended.returncode == 0 and found, ended
    return found.groups()


program = [sys.executable, example]
by_ranks = {n: digests(capstan, "run", "-n", str(n), "--", *program) for n in (1, 2, 4)}
print(by_ranks)
assert len({weights for _, weights in by_ranks.values()}) == 1
on_two_hosts = digests(
    hosts, "--count", "2", "--", "sh", "-c",
    'set -- "$0" "$@"; first=${BED_HOSTS%% *} last=${BED_HOSTS##* }; '
    'exec $BED_EXEC "$first" "$1" run --hosts "$first:2,$last:2" --agent "$BED_EXEC {host}" '
    "--env PYTHONPATH --env PYTHONDONTWRITEBYTECODE -- \"$2\" \"$3\"",
    capstan, *program,
)
print(on_two_hosts or "namespaces cannot be made: not tried on two hosts")
assert on_two_hosts in (None, by_ranks[4])
