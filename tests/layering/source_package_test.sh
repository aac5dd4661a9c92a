#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: source_package_test.sh SOURCE WORK
#
# scripts/package has a help text, refuses what it does not know, and packs what is committed. Exits 77
# where SOURCE is no clone.
set -euo pipefail
source=$1 work=$2 package=$1/scripts/package
git -C "$source" rev-parse --quiet --verify HEAD >/dev/null 2>&1 || exit 77
[[ $("$package" --help) == 'Usage: scripts/package'*wheel*deb*source*--check* ]]
for wrong in '' rpm --chek; do
  if "$package" ${wrong:+"$wrong"} 2>/dev/null; then
    echo "scripts/package accepts '$wrong'"
    exit 1
  fi
done

rm -rf "$work"
"$package" --output "$work" source
archives=("$work"/capstan-*.tar.gz)
name=$(basename "${archives[0]}" .tar.gz)
part() { sed -n "s/.*CAPSTAN_VERSION_$1 \([0-9]*\).*/\1/p" "$source/core/include/capstan/version.hpp"; }
[[ $name == "capstan-$(part MAJOR).$(part MINOR).$(part PATCH)" ]]
diff <(git -C "$source" ls-tree -r --name-only HEAD | sort) \
  <(tar -tzf "${archives[0]}" | grep -v '/$' | sed "s,^$name/,," | sort)
tar -xzOf "${archives[0]}" "$name/README.md" | cmp - <(git -C "$source" show HEAD:README.md)
"$package" --output "$work/again" source
cmp "${archives[0]}" "$work/again/$name.tar.gz"
