# SPDX-License-Identifier: Apache-2.0

# For scripts/package --check: tries packages in clean places. Source it, do not run it.
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of scripts/package

# Each of these runs where the package is installed, maybe in another root.
try_program() {
  capstan --version
  capstan perf all_reduce -n 2 -b 1K -e 1K --seconds 0.05
}

# try_python PYTHON NCCL: the package, and the libraries for other languages by their names.
try_python() {
  "$1" -m capstan run -n 2 -- "$1" -c '
import array, capstan as cs
comm = cs.init()
x = array.array("f", [comm.rank + 1] * 256)
comm.all_reduce(x)
assert comm.size == 2 and set(x) == {3}, x
print(f"rank {comm.rank} of {comm.size}: the sum is {x[0]:g}")'
  "$1" -c '
import ctypes, sys
version = ctypes.c_int()
assert ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version)) == 0
print(f"libnccl.so.2: {version.value}")' "$2"
}

try_wheel() { # ENVIRONMENT, with the wheel in it
  local folder
  PATH=$1/bin:$PATH try_program
  folder=$("$1/bin/python" -c 'import capstan; print(capstan.__path__[0])')
  try_python "$1/bin/python" "$folder/lib/nccl/libnccl.so.2"
  "$1/bin/python" -c '
import ctypes, sys
parts = [ctypes.c_int() for _ in range(3)]
assert ctypes.CDLL(sys.argv[1]).capstan_version(*map(ctypes.byref, parts)) == 0
print("libcapstan_c.so.1:", *(part.value for part in parts))' "$folder/lib/libcapstan_c.so.1"
}

try_wheel_in_root() {
  # The shells that are started expand these.
  # shellcheck disable=SC2016
  apt-get -qq update
  apt-get -qq --no-install-recommends install python3-venv >/dev/null
  python3 -m venv /environment
  if ! /environment/bin/pip -q install --no-index --find-links /packages capstan; then
    echo "left out: no wheel is for this Python; PYTHON names those that scripts/package makes"
    return
  fi
  try_wheel /environment
}

try_debs_in_root() {
  local page
  apt-get -qq --no-install-recommends install /packages/*.deb >/dev/null
  # shellcheck disable=SC2016
  dpkg-query -W -f '${Package} ${Version}\n' '*capstan*'
  try_program
  try_python python3 "$(dpkg-query -L libcapstan0.2 | grep 'libnccl.so.2$')"
  for page in man/man1/{capstan,capstan-perf}.1 zsh/vendor-completions/_capstan; do
    [[ -s /usr/share/$page ]]
  done
  apt-get -qq --no-install-recommends install gcc libc6-dev >/dev/null
  # shellcheck disable=SC2046
  gcc -std=c11 /packages/all_reduce.c $(pkg-config --cflags --libs capstan-c) -o /all_reduce_c
  capstan run -n 2 -- /all_reduce_c
}

# in_root FOLDER FUNCTION: with mounts in a namespace of their own, which go with it.
in_root() {
  unshare --mount bash -c 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" &&
    mount --bind /sys "$1/sys" && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$1" bash -euo pipefail -c "$2"' bash \
    "$1" "$(declare -f try_program try_python try_wheel "$2"); $2"
}

# make_root FOLDER RELEASE: a minimal system of Debian, from the mirror and with the network settings that
# apt has here.
make_root() {
  local mirror setting
  mirror=$(debian_mirror)
  run_logged package-root unshare --mount \
    debootstrap --variant=minbase "$2" "$1" ${mirror:+"$mirror"} ||
    fail "could not make a system of $2"
  for setting in /etc/apt/apt.conf.d/* /etc/apt/auth.conf.d/*; do
    if [[ $setting == *auth* && -f $setting ]] || grep -qs '^ *Acquire' "$setting"; then
      cp "$setting" "$1${setting%/*}/"
    fi
  done
  mkdir "$1/packages"
}

# check_in_root RELEASE PACKAGE...
check_in_root() {
  local folder=$root/build/check/$1
  make_root "$folder" "$1"
  cp "$root/docs/example/all_reduce.c" "${@:2}" "$folder/packages/"
  if [[ " $* " == *.whl\ * ]]; then
    say "The wheel, in a clean root of $1:"
    in_root "$folder" try_wheel_in_root
  fi
  if [[ " $* " == *.deb\ * && $1 == "$codename" ]]; then
    say "Debian's packages, in a clean root of $1:"
    in_root "$folder" try_debs_in_root
  fi
  rm -rf --one-file-system "$folder"
}

check_in_roots() {
  local release
  if ((EUID != 0)); then
    warn "left out: a clean root needs root rights"
  elif ! has debootstrap; then
    warn "left out: a clean root needs debootstrap: scripts/setup --groups package"
  else
    for release in ${ROOTS:-$codename}; do check_in_root "$release" "$@"; done
  fi
}

# Nothing is mounted there from here: see in_root.
remove_check() { rm -rf --one-file-system "$root/build/check"; }

# The wheels for one Python, in a fresh environment.
check_wheels() {
  local environment=$root/build/check/environment
  rm -rf "$environment"
  "$1" -m venv "$environment"
  if ! "$environment/bin/pip" -q install --no-index --find-links "$output" capstan; then
    warn "left out: no wheel is for $1"
    return
  fi
  say "The wheel, in a fresh environment of $("$1" --version):"
  (cd "$environment" && unset PYTHONPATH LD_LIBRARY_PATH && try_wheel "$environment")
}

# A network trained by both wheels, with the PyTorch that the second is built for.
check_torch() {
  local environment=$root/build/check/torch
  "$torch_python" -m venv "$environment"
  "$torch_python" -c 'import torch; print(torch.__path__[0].rpartition("/")[0])' \
    >"$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
  "$environment/bin/pip" -q install --no-index --no-deps --find-links "$output" capstan capstan-torch
  say "The wheel for PyTorch, in a fresh environment:"
  (cd "$environment" && unset PYTHONPATH LD_LIBRARY_PATH &&
    bin/python -m torch.distributed.run --standalone --nproc-per-node 2 "$root/docs/example/pytorch/ddp.py")
}

check_packages() {
  local packages=() package python codename
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  for package in "$output"/capstan-*.whl "$output"/*.deb; do
    if [[ -e $package ]]; then packages+=("$package"); fi
  done
  ((${#packages[@]})) || fail "there are no packages in $output to check; see $0 --help"
  remove_check
  trap remove_check EXIT
  mkdir -p "$root/build/check"
  if [[ ${packages[0]} == *.whl ]]; then
    for python in "${pythons[@]}"; do check_wheels "$python"; done
  fi
  if compgen -G "$output/capstan_torch-*.whl" >/dev/null; then check_torch; fi
  check_in_roots "${packages[@]}"
}
