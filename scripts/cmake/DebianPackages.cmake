# SPDX-License-Identifier: Apache-2.0

# Debian's packages, made by CPack: one for each component of what is installed. scripts/package deb
# makes them, in a build whose prefix is /usr.
option(CAPSTAN_DEBIAN_PACKAGES "Describe Debian's packages to CPack" OFF)
if(NOT CAPSTAN_DEBIAN_PACKAGES)
  return()
endif()
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr" OR BUILD_SHARED_LIBS)
  message(FATAL_ERROR "Debian's packages need -D CMAKE_INSTALL_PREFIX=/usr and a static library: "
                      "run scripts/package deb.")
endif()
if(NOT TARGET capstan_python)
  message(FATAL_ERROR "Debian's packages need the Python package: "
                      "run scripts/setup --groups build,library,python")
endif()

install(TARGETS capstan_python LIBRARY DESTINATION lib/python3/dist-packages/capstan
        COMPONENT python)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/python/capstan
        DESTINATION lib/python3/dist-packages COMPONENT python PATTERN "__pycache__" EXCLUDE)

# The version names the system, as packages of one do not fit another: 0.2.0-1~debian12.
cmake_host_system_information(RESULT _system QUERY DISTRIB_ID)
cmake_host_system_information(RESULT _release QUERY DISTRIB_VERSION_ID)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME capstan)
# Debian asks for an address, and the project has none: SECURITY.md and its issues are the ways to it.
# Distributors set their own.
set(CPACK_PACKAGE_CONTACT "The Capstan maintainers <maintainers@capstan.invalid>"
    CACHE STRING "Maintainer of the packages")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE "1~${_system}${_release}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(_same "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

# capstan_debian_package(COMPONENT PACKAGE SECTION SUMMARY TEXT
#                        [DEPENDS ...] [RECOMMENDS ...] [SUGGESTS ...])
set(CPACK_COMPONENTS_ALL "")
macro(capstan_debian_package component package section summary text)
  cmake_parse_arguments(_arg "" "" "DEPENDS;RECOMMENDS;SUGGESTS" ${ARGN})
  string(TOUPPER ${component} _name)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${_name}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${_name}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${_name}_DESCRIPTION "${summary}\n${text}")
  foreach(_relation DEPENDS RECOMMENDS SUGGESTS)
    list(JOIN _arg_${_relation} ", " CPACK_DEBIAN_${_name}_PACKAGE_${_relation})
  endforeach()
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
endmacro()

set(_text "Ranks, each with a buffer, all-reduce, broadcast, gather, scatter or exchange it
over shared memory and networks. Schedules are data: proven, shown and explained.")
set(_loaded SUGGESTS libfabric1 libpmix2 libibverbs1) # where they are found at run time
string(REPLACE "." ";" _next ${CAPSTAN_PYTHON_VERSION})
list(GET _next 1 _next)
math(EXPR _next "${_next} + 1")
capstan_debian_package(library libcapstan${CAPSTAN_SOVERSION} libs
  "collective-communication engine: shared libraries"
  "${_text}\nThis package has the library for C, and one that takes NCCL's place." ${_loaded})
capstan_debian_package(development libcapstan-dev libdevel
  "collective-communication engine: development files"
  "${_text}\nThis package has headers, a static library, and files for CMake and pkg-config."
  DEPENDS "libcapstan${CAPSTAN_SOVERSION} ${_same}" ${CAPSTAN_DEVELOPMENT_PACKAGES})
capstan_debian_package(program capstan utils "collective-communication engine: the program"
  "${_text}\nThis package has the program: run, perf, verify, explain, tune and others." ${_loaded})
capstan_debian_package(python python3-capstan python
  "collective-communication engine: Python package"
  "${_text}\nThis package has the package capstan for Python 3."
  DEPENDS "capstan ${_same}" "python3 (>= ${CAPSTAN_PYTHON_VERSION})" "python3 (<< 3.${_next})"
  RECOMMENDS python3-numpy)

set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # which would precede each summary
include(CPack)
