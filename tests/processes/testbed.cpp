// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/testbed.hpp"

namespace capstan {
namespace {

constexpr const char* prelude = R"(
exec 2>&1
read -ra host <<<"$BED_HOSTS"
read -ra v4 <<<"$BED_IPV4"
read -ra v6 <<<"$BED_IPV6"
program=${PROGRAM:-$JOINER}
export CAPSTAN_TRUSTED_NETWORK=1
on() { local to=$1; shift; $BED_EXEC "${host[$to]}" "$@"; }
launch() { local hosts=$1; shift; on 0 "$CAPSTAN" run --hosts "$hosts" --agent "$BED_EXEC {host}" "$@"; }
by_hand() {
  local rank=0 pids=() status=0 place places=("$@")
  for place in "$@"; do
    RANK=$rank WORLD_SIZE=$# MASTER_PORT=4711 on "$place" $program & pids+=($!)
    rank=$((rank + 1))
  done
  if [[ ${stopped:-} ]]; then
    for rank in "${!pids[@]}"; do ((rank == stopped)) || wait "${pids[rank]}"; done
    kill -KILL $(ip netns pids "${host[${places[stopped]}]}")
  fi
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  return $status
}
)";

}  // namespace

CommandResult beside_hosts(int count, const std::string& script,
                           const std::vector<std::string>& options) {
  std::vector<std::string> command{HOSTS, "--timeout", "380", "--count", std::to_string(count)};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", "bash", "-c", prelude + script});
  return run_command(command,
                     {{"CAPSTAN", CAPSTAN_PROGRAM}, {"JOINER", JOINER_PROGRAM}, {"HOSTS", HOSTS}});
}

}  // namespace capstan
