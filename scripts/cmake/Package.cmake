# SPDX-License-Identifier: Apache-2.0

# capstan::capstan, the library that others link: capstan itself, or with BUILD_SHARED_LIBS a shared
# library of the same objects, which are compiled once. It exports what the public headers declare.
include(GNUInstallDirs)

# Before 1.0 each minor version is incompatible with the one before.
set(CAPSTAN_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(CAPSTAN_SOVERSION 0.${PROJECT_VERSION_MINOR})
endif()
set(CAPSTAN_PACKAGED capstan)
if(BUILD_SHARED_LIBS)
  set(CAPSTAN_PACKAGED capstan_shared)
  add_library(capstan_shared SHARED)
  foreach(_wing ${CAPSTAN_WINGS})
    target_sources(capstan_shared PRIVATE $<TARGET_OBJECTS:${_wing}>)
  endforeach()
  set(_exports ${CMAKE_CURRENT_LIST_DIR}/exports.map)
  get_target_property(_libraries capstan LINK_LIBRARIES)
  list(FILTER _libraries EXCLUDE REGEX "^::@|capstan_options") # ::@ marks the folder that linked
  target_link_libraries(capstan_shared PRIVATE ${_libraries})
  target_link_options(capstan_shared PRIVATE LINKER:--version-script=${_exports})
  set_target_properties(capstan_shared PROPERTIES
    OUTPUT_NAME capstan EXPORT_NAME capstan VERSION ${PROJECT_VERSION} SOVERSION ${CAPSTAN_SOVERSION}
    LINKER_LANGUAGE CXX LINK_DEPENDS ${_exports})
  capstan_run_path(capstan_shared)
  add_dependencies(capstan_cli capstan_shared) # so that a build of the program can be installed
endif()
add_library(capstan::capstan ALIAS ${CAPSTAN_PACKAGED})
# The same for both kinds of libraries, so that programs compile alike, and ccache knows them.
foreach(_library IN ITEMS capstan ${CAPSTAN_PACKAGED})
  target_include_directories(${_library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/include>)
endforeach()
target_include_directories(${CAPSTAN_PACKAGED} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(${CAPSTAN_PACKAGED} PUBLIC cxx_std_20)
