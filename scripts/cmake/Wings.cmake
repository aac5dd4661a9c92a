# SPDX-License-Identifier: Apache-2.0

# The wings of the library, lowest first: a target for each, whose sources its folders add. What one may
# include is in the folders' includes.rules. Doubles stand in for a real part in tests, and for
# CAPSTAN_FAULTS.
set(CAPSTAN_WINGS capstan_base capstan_schedule capstan_platform capstan_bootstrap capstan_profiles
                  capstan_doubles capstan_engine capstan_communicator capstan_extras)

# The options of all of them, so that one precompiled header serves all.
add_library(capstan_wings INTERFACE)
target_link_libraries(capstan_wings INTERFACE capstan_options)
# The functions are not meant to be replaced by others of the same name; else none could be inlined.
target_compile_options(capstan_wings INTERFACE -fno-semantic-interposition)

add_library(capstan STATIC)
set_target_properties(capstan PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(capstan PRIVATE $<BUILD_INTERFACE:capstan_options> fmt::fmt Threads::Threads)
foreach(_wing ${CAPSTAN_WINGS})
  add_library(${_wing} OBJECT)
  target_link_libraries(${_wing} PRIVATE capstan_wings)
  if(_wing STREQUAL "capstan_base")
    target_precompile_headers(capstan_base PRIVATE ${CAPSTAN_COMMON_HEADERS})
  else()
    target_precompile_headers(${_wing} REUSE_FROM capstan_base)
  endif()
  target_sources(capstan PRIVATE $<TARGET_OBJECTS:${_wing}>)
endforeach()

# capstan_link(LIBRARY...): the library uses these, and so does whoever links it.
function(capstan_link)
  target_link_libraries(capstan_wings INTERFACE ${ARGN})
  target_link_libraries(capstan PRIVATE ${ARGN})
endfunction()
