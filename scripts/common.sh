# SPDX-License-Identifier: Apache-2.0

# Shared by the scripts beside it; source it, do not run it.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
logs=$root/build/logs

say() { printf '%s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() {
  warn "$@"
  exit 1
}

# The comment block at the top of the calling script is its help text.
print_help() { awk 'NR > 2 && !/^#/ { exit } NR > 2 { sub(/^# ?/, ""); print }' "$0"; }

has() { command -v "$1" >/dev/null 2>&1; }

# On a terminal, each line in the place of the last, so that it shows how far a command is. A step of
# a build gets the time that went by and, once a tenth of the steps is done, what is left of it.
show_progress() {
  local line width step begin=$SECONDS
  [[ -t 1 ]] || exec cat >/dev/null
  width=$(tput cols 2>/dev/null || echo 80)
  step='^\[([0-9]+)/([0-9]+)\] (.*)'
  while IFS= read -r line; do
    if [[ $line =~ $step ]]; then
      line="${line%% *} $(duration $((SECONDS - begin)))"
      ((BASH_REMATCH[1] * 10 < BASH_REMATCH[2])) || line+=", about $(duration $((
        (SECONDS - begin) * (BASH_REMATCH[2] - BASH_REMATCH[1]) / BASH_REMATCH[1]))) left"
      line+=": ${BASH_REMATCH[3]}"
    fi
    printf '\r\033[K%s' "${line:0:width-1}"
  done
  printf '\r\033[K'
}

# Seconds as minutes and seconds: 2:05.
duration() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# run_logged LOG COMMAND...: keeps the output in build/logs/LOG.log and shows its end only when the
# command fails, with the command's exit status.
run_logged() {
  local log=$logs/$1.log status=0
  shift
  mkdir -p "$logs"
  printf '$ %s\n' "$*" >"$log"
  "$@" 2>&1 </dev/null | tee -a "$log" | show_progress || status=$?
  if ((status != 0)); then
    grep -E 'error|Error' "$log" | head -n 10 >&2 || true
    tail -n 20 "$log" >&2
    warn "failed (exit status $status): $*"
    warn "full log: $log"
  fi
  return "$status"
}

# The mirror that apt uses here; nothing where its settings name none.
debian_mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/{debian,ubuntu}.sources 2>/dev/null |
    sed -nE 's/^(URIs:|deb( \[[^]]*\])?) *([^ ]*).*/\3/p' | sed -n 1p || true
}
