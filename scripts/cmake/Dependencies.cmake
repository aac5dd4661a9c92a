# SPDX-License-Identifier: Apache-2.0

# Looks for everything that the build requires and, if something is missing, says in one message
# which Debian packages to install. The folders that use a package still ask for it themselves.
set(_missing "")

macro(capstan_require name package)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    list(APPEND _missing ${package})
  endif()
endmacro()

macro(capstan_require_pkg_config prefix module package)
  if(PkgConfig_FOUND)
    pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
  if(NOT ${prefix}_FOUND)
    list(APPEND _missing ${package})
  endif()
endmacro()

capstan_require(Threads libc6-dev)
capstan_require(fmt libfmt-dev)
capstan_require(spdlog libspdlog-dev)
capstan_require(CLI11 libcli11-dev)
capstan_require(EXPAT libexpat1-dev)
capstan_require(nlohmann_json nlohmann-json3-dev)
capstan_require(hwy libhwy-dev CONFIG)
capstan_require(PkgConfig pkgconf)
capstan_require_pkg_config(SODIUM libsodium libsodium-dev)
capstan_require_pkg_config(HWLOC hwloc libhwloc-dev)
if(CAPSTAN_BUILD_TESTS)
  capstan_require(GTest "libgtest-dev;libgmock-dev")
  if(GTest_FOUND AND NOT TARGET GTest::gmock)
    list(APPEND _missing libgmock-dev)
  endif()
  capstan_require(rapidcheck librapidcheck-dev)
endif()
if(CAPSTAN_BUILD_PERF)
  capstan_require(benchmark libbenchmark-dev)
endif()

# Optional: Summary.cmake says what is left out without it.
if(PkgConfig_FOUND)
  pkg_check_modules(LIBFABRIC QUIET libfabric)
endif()
find_package(TBB QUIET)

if(_missing)
  list(JOIN _missing " " _missing)
  message(FATAL_ERROR "Capstan needs packages that are not installed. On Debian: run scripts/setup, or\n"
                      "  apt-get install --no-install-recommends ${_missing}\n"
                      "(-DCAPSTAN_BUILD_TESTS=OFF and -DCAPSTAN_BUILD_PERF=OFF need fewer.)")
endif()
