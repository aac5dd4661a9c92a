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
  python3 --version
  python3 -m venv /environment
  /environment/bin/pip -q install --no-index --find-links /packages capstan || exit 77
  try_wheel /environment
}

try_debs_in_root() {
  local page library
  apt-get -qq --no-install-recommends install /packages/*.deb >/dev/null
  # shellcheck disable=SC2016
  dpkg-query -W -f '${Package} ${Version}\n' '*capstan*'
  try_program
  # shellcheck disable=SC2016
  library=$(dpkg-query -W -f '${Package}' 'libcapstan[0-9]*')
  try_python python3 "$(dpkg-query -L "$library" | grep 'libnccl.so.2$')"
  for page in man/man1/capstan{,-perf,-explain}.1 zsh/vendor-completions/_capstan \
    bash-completion/completions/capstan fish/vendor_completions.d/capstan.fish; do
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

# copy_debootstrap RELEASE...: it does not know Ubuntu's latest releases, which are made as the others.
copy_debootstrap() {
  local release
  export DEBOOTSTRAP_DIR=$root/build/check/debootstrap
  cp -a /usr/share/debootstrap "$DEBOOTSTRAP_DIR"
  for release; do
    [[ -e $DEBOOTSTRAP_DIR/scripts/$release ]] || ln -s gutsy "$DEBOOTSTRAP_DIR/scripts/$release"
  done
}

# The system whose release it is.
system_of() {
  case $(readlink -f "$DEBOOTSTRAP_DIR/scripts/$1") in
    */gutsy) echo ubuntu ;;
    *) echo debian ;;
  esac
}

# Ubuntu's keys: of this system, or of the clean root of a Debian that has them, from 13 on.
ubuntu_keys() {
  local file
  for file in {/usr/share/keyrings,"$root/build/check"}/ubuntu-archive-keyring.gpg; do
    if [[ -e $file ]]; then echo "$file"; fi
  done | sed -n 1p
}

find_ubuntu_keys_in_root() {
  apt-get -qq --no-install-recommends install ubuntu-keyring >/dev/null 2>&1 || true
}

# make_root FOLDER RELEASE: a minimal system, with the network settings that apt has here; from apt's
# mirror, where the release is of the same system, and otherwise from the one that debootstrap knows.
make_root() {
  local mirror='' setting options=(--variant=minbase)
  [[ $(system_of "$2") != "$own_system" ]] || mirror=$(debian_mirror)
  [[ $(system_of "$2") != ubuntu ]] || # python3-venv is in universe
    options+=(--components=main,universe --keyring="$(ubuntu_keys)" --force-check-gpg)
  run_logged "package-root-$2" unshare --mount debootstrap "${options[@]}" "$2" "$1" ${mirror:+"$mirror"} ||
    return
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
  if [[ $(system_of "$1") == ubuntu && -z $(ubuntu_keys) ]]; then
    left_out+=("a clean root of $1: there are no keys of Ubuntu; in ROOTS, trixie before it brings them")
  elif ! make_root "$folder" "$1"; then
    left_out+=("a clean root of $1: debootstrap could not make it; see $logs/package-root-$1.log")
  else
    try_in_root "$folder" "$@"
  fi
  rm -rf --one-file-system "$folder"
}

# try_in_root FOLDER RELEASE PACKAGE...
try_in_root() {
  cp "$root/docs/example/all_reduce.c" "${@:3}" "$1/packages/"
  if [[ " $* " == *.whl\ * ]]; then
    attempt "the wheel, in a clean root of $2" \
      'no wheel is for its Python; PYTHON names those that scripts/package makes' \
      in_root "$1" try_wheel_in_root
  fi
  if [[ " $* " == *.deb\ * && $2 == "$codename" ]]; then
    attempt "Debian's packages, in a clean root of $2" '' in_root "$1" try_debs_in_root
  fi
  if [[ -z $(ubuntu_keys) ]]; then
    in_root "$1" find_ubuntu_keys_in_root
    cp "$1/usr/share/keyrings/ubuntu-archive-keyring.gpg" "$root/build/check" 2>/dev/null || true
  fi
}

check_in_roots() {
  local release releases
  if ((EUID != 0)); then
    left_out+=('clean roots: they need root rights')
  elif ! has debootstrap; then
    left_out+=('clean roots: they need debootstrap: scripts/setup --groups package')
  else
    read -ra releases <<<"${ROOTS:-bookworm trixie noble}"
    copy_debootstrap "${releases[@]}"
    for release in "${releases[@]}"; do check_in_root "$release" "$@"; done
  fi
}

# attempt WHAT OBSTACLE COMMAND...: a trial. Its exit status 77 says that the obstacle keeps it from being made.
attempt() {
  local status=0 begin=$SECONDS
  say "${1^}:"
  set +e
  (
    set -e
    "${@:3}"
  )
  status=$?
  set -e
  case $status in
    0) tried+=("$1, in $((SECONDS - begin)) s") ;;
    77) left_out+=("$1: $2") ;;
    *) fail "failed (exit status $status): $1" ;;
  esac
}

# Nothing is mounted there from here: see in_root.
remove_check() { rm -rf --one-file-system "$root/build/check"; }

# The wheels for one Python, in a fresh environment.
check_wheels() {
  local environment=$root/build/check/environment
  rm -rf "$environment"
  "$1" -m venv "$environment"
  "$environment/bin/pip" -q install --no-index --find-links "$output" capstan || exit 77
  cd "$environment" && unset PYTHONPATH LD_LIBRARY_PATH && try_wheel "$environment"
}

# A network trained by both wheels, with the PyTorch that the second is built for.
check_torch() {
  local environment=$root/build/check/torch
  "$torch_python" -m venv "$environment"
  "$torch_python" -c 'import torch; print(torch.__path__[0].rpartition("/")[0])' \
    >"$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
  "$environment/bin/pip" -q install --no-index --no-deps --find-links "$output" capstan capstan-torch
  cd "$environment" && unset PYTHONPATH LD_LIBRARY_PATH &&
    bin/python -m torch.distributed.run --standalone --nproc-per-node 2 "$root/docs/example/pytorch/ddp.py"
}

check_packages() {
  local packages=() package python codename own_system tried=() left_out=() each
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  own_system=$(sed -n 's/^ID=//p' /etc/os-release)
  for package in "$output"/capstan-*.whl "$output"/*.deb; do
    if [[ -e $package ]]; then packages+=("$package"); fi
  done
  ((${#packages[@]})) || fail "there are no packages in $output to check; see $0 --help"
  remove_check
  trap remove_check EXIT
  mkdir -p "$root/build/check"
  if [[ ${packages[0]} == *.whl ]]; then
    for python in "${pythons[@]}"; do
      attempt "the wheel, in a fresh environment of $("$python" --version)" "no wheel is for $python" \
        check_wheels "$python"
    done
  fi
  if compgen -G "$output/capstan_torch-*.whl" >/dev/null; then
    attempt 'the wheel for PyTorch, in a fresh environment' '' check_torch
  fi
  check_in_roots "${packages[@]}"
  for each in "${tried[@]}"; do say "works: $each"; done
  for each in "${left_out[@]}"; do say "left out: $each"; done
}
