#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: wheel.sh SOURCE WORK
#
# Builds a wheel as `pip install .` does, installs it in a fresh environment, and uses it from another
# folder: by the example, among processes that its own program starts, and by the tests. Takes the
# time of a build. Exits 77 where packages cannot be had.
set -euo pipefail
source=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
python3 -m venv "$work/environment"
python=$work/environment/bin/python
export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 CMAKE_BUILD_PARALLEL_LEVEL=2
"$python" -m pip -q install numpy pytest scikit-build-core pybind11 || exit 77
"$python" -m pip wheel --no-deps --no-build-isolation --wheel-dir "$work" "$source"
"$python" -m pip -q install --no-deps "$work"/capstan-*.whl
cd "$work"
unset PYTHONPATH
"$python" -c "import capstan, sys; assert capstan.__file__.startswith(sys.prefix), capstan.__file__"
"$python" -m capstan run -n 3 -- "$python" "$source/docs/example/python/all_reduce.py"
"$python" -m capstan perf all_reduce -n 2 -b 8 -e 8
"$python" -m pytest -q -p no:cacheprovider "$source/tests/bindings/python"
