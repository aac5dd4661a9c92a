# SPDX-License-Identifier: Apache-2.0

# Installs the library, its public headers (core/include), the capstan program,
# the CMake package and the pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/capstan)

if(NOT CAPSTAN_INSTALL)
  return()
endif()

# Everything that the library links, by any folder, as the using project has to find it again.
function(capstan_find_private_dependencies)
  get_target_property(libraries capstan LINK_LIBRARIES)
  list(FILTER libraries EXCLUDE REGEX "^::@|capstan_options")  # ::@ marks the folder that linked
  list(APPEND libraries fmt::fmt Threads::Threads)             # those of capstan_options
  list(REMOVE_DUPLICATES libraries)
  set(finds "")
  set(modules "")
  set(packages pkgconf)
  foreach(library ${libraries})
    if(library STREQUAL "fmt::fmt")
      list(APPEND packages libfmt-dev)
      list(APPEND finds "find_dependency(fmt)")
      list(APPEND modules fmt)
    elseif(library STREQUAL "Threads::Threads")
      list(APPEND finds "find_dependency(Threads)")
    elseif(library STREQUAL "spdlog::spdlog")
      list(APPEND packages libspdlog-dev)
      list(APPEND finds "find_dependency(spdlog)")
      list(APPEND modules spdlog)
    elseif(library STREQUAL "hwy::hwy")
      list(APPEND packages libhwy-dev)
      list(APPEND finds "find_dependency(hwy CONFIG)")
      list(APPEND modules libhwy)
    elseif(library STREQUAL "PkgConfig::SODIUM")
      list(APPEND packages libsodium-dev)
      list(APPEND finds "capstan_find_module(SODIUM libsodium)")
      list(APPEND modules libsodium)
    elseif(library STREQUAL "PkgConfig::HWLOC")
      list(APPEND packages libhwloc-dev)
      list(APPEND finds "capstan_find_module(HWLOC hwloc)")
      list(APPEND modules hwloc)
    elseif(library STREQUAL "TBB::tbb")
      list(APPEND packages libtbb-dev)
      list(APPEND finds "find_dependency(TBB)")
      list(APPEND modules tbb)
    elseif(library STREQUAL "nlohmann_json::nlohmann_json")
      list(APPEND packages nlohmann-json3-dev)
      list(APPEND finds "find_dependency(nlohmann_json)")  # headers only
    else()
      message(FATAL_ERROR "The library links ${library}: tell ${CMAKE_CURRENT_FUNCTION_LIST_FILE} "
                          "how an installed Capstan finds it again.")
    endif()
  endforeach()
  list(JOIN finds "\n" finds)
  set(CAPSTAN_FIND_DEPENDENCIES "${finds}" PARENT_SCOPE)
  set(CAPSTAN_PKG_CONFIG_MODULES ${modules} PARENT_SCOPE)
  set(CAPSTAN_DEVELOPMENT_PACKAGES ${packages} PARENT_SCOPE) # Debian's
endfunction()

capstan_find_private_dependencies()
if(BUILD_SHARED_LIBS)
  # The library carries its own dependencies.
  set(CAPSTAN_FIND_DEPENDENCIES "")
  set(CAPSTAN_LIBS "")
else()
  # The libraries themselves, not modules that are required: these would pass their flags on to
  # programs, whose sources never see their headers.
  execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --libs ${CAPSTAN_PKG_CONFIG_MODULES}
                  OUTPUT_VARIABLE CAPSTAN_LIBS OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(APPEND CAPSTAN_LIBS " -pthread")
endif()

# The .pc file finds its prefix from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH CAPSTAN_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/capstanConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/package/capstanConfig.cmake
                              INSTALL_DESTINATION ${_package_directory})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/capstanConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/capstan.pc.in ${PROJECT_BINARY_DIR}/package/capstan.pc @ONLY)

# The components are the packages of scripts/cmake/DebianPackages.cmake.
install(TARGETS ${CAPSTAN_PACKAGED} EXPORT capstan ARCHIVE COMPONENT development
        LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS capstan_cli COMPONENT program)
install(EXPORT capstan NAMESPACE capstan:: FILE capstanTargets.cmake
        DESTINATION ${_package_directory} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/package/capstanConfig.cmake
              ${PROJECT_BINARY_DIR}/package/capstanConfigVersion.cmake
        DESTINATION ${_package_directory} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/package/capstan.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/core/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development PATTERN "includes.rules" EXCLUDE)
include(BillOfMaterials)

# The program writes its manual pages and completions, when it is installed.
if(NOT CMAKE_CROSSCOMPILING)
  set(_share ${PROJECT_BINARY_DIR}/package/share)
  set(_zsh site-functions)
  if(CAPSTAN_DEBIAN_PACKAGES) # which other installations leave to them
    set(_zsh vendor-completions)
  endif()
  install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -D \"PROGRAM=$<TARGET_FILE:capstan_cli>\"
                                        -D \"OUTPUT=${_share}\" -D ZSH=${_zsh} -P \"${CMAKE_CURRENT_LIST_DIR}/ProgramPages.cmake\"
                                COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
  install(DIRECTORY ${_share}/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT program)
endif()
