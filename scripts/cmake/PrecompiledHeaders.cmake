# SPDX-License-Identifier: Apache-2.0

# Headers of other projects that most files include, compiled once for each kind of target. Every file
# still includes what it uses: the preset debug builds without precompiled headers and finds omissions.
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON turns them off.
set(CAPSTAN_COMMON_HEADERS
  <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <deque> <fstream> <functional> <map>
  <memory> <mutex> <optional> <ranges> <span> <string> <string_view> <thread> <utility> <vector>
  ${PROJECT_SOURCE_DIR}/scripts/cmake/compiled_fmt.hpp)

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # ccache compares contents, and clang would insist on the time as well.
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
