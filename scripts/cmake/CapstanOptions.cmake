# SPDX-License-Identifier: Apache-2.0

# Compile options that every target of the project shares.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

add_library(capstan_options INTERFACE)
target_compile_features(capstan_options INTERFACE cxx_std_20)
target_include_directories(capstan_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/core/include)
target_compile_options(capstan_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
target_link_libraries(capstan_options INTERFACE fmt::fmt Threads::Threads)
if(CAPSTAN_WERROR)
  target_compile_options(capstan_options INTERFACE -Werror)
endif()
if(CAPSTAN_SANITIZE)
  string(REPLACE ";" "," CAPSTAN_SANITIZE "${CAPSTAN_SANITIZE}")
  add_compile_options(-fsanitize=${CAPSTAN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${CAPSTAN_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    foreach(sanitizer address thread) # as g++ has them; clang-19 has only __has_feature
      if(CAPSTAN_SANITIZE MATCHES ${sanitizer})
        string(TOUPPER ${sanitizer} sanitizer)
        add_compile_definitions(__SANITIZE_${sanitizer}__)
      endif()
    endforeach()
    if(CAPSTAN_SANITIZE MATCHES "address,undefined")
      # A third of the time to compile. The address sanitizer finds accesses outside of objects and by null
      # pointers, too, and the preset ubsan checks types of objects.
      add_compile_options(-fno-sanitize=object-size,vptr,function,null)
    endif()
    if(CAPSTAN_SANITIZE MATCHES "thread")
      # Libraries that programs load call them, and clang exports neither.
      add_link_options(-Wl,--export-dynamic-symbol=__tsan_ignore_thread_begin
                       -Wl,--export-dynamic-symbol=__tsan_ignore_thread_end)
    endif()
    # Warnings in libstdc++'s own code for std::stable_sort.
    add_compile_options(-Wno-deprecated-declarations)
  endif()
  if(CAPSTAN_SANITIZE MATCHES "undefined")
    # Each check has a record of where it stands: two million pointers, which every process of every
    # test would have to relocate at its start (0.1 s) if its program could lie anywhere.
    add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
endif()

# Code for which no call waits (CAPSTAN_COLD_OPTIONS) compiles in two thirds of the time with -O1 instead of -O3.
# Clang with sanitizers takes half of it with -O0, which suits commands and tests as a whole
# (CAPSTAN_UNHURRIED_OPTIONS), their precompiled headers included.
set(CAPSTAN_COLD_OPTIONS $<$<CONFIG:Release>:-O1>)
set(CAPSTAN_UNHURRIED_OPTIONS "")
if(CAPSTAN_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(CAPSTAN_COLD_OPTIONS -O0)
  set(CAPSTAN_UNHURRIED_OPTIONS -O0)
endif()

# An installed program finds libraries where it was linked.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# The symbols that a program or a shared library exports are those that the public headers declare
# (capstan/export.hpp).
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# Hardening that costs a call of 8 bytes no instruction: bounds of the C library's functions, tables that
# are read-only once the program runs, a shadow stack for return addresses.
include(CheckCXXCompilerFlag)
set(CAPSTAN_CANARIES -fstack-protector-strong)
if(CAPSTAN_SANITIZE)
  set(CAPSTAN_CANARIES "")
else()
  set(_optimized $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
  add_compile_options($<${_optimized}:-U_FORTIFY_SOURCE> $<${_optimized}:-D_FORTIFY_SOURCE=2>)
  check_cxx_compiler_flag(-fcf-protection=return CAPSTAN_HAS_SHADOW_STACK) # x86 only
  if(CAPSTAN_HAS_SHADOW_STACK)
    add_compile_options(-fcf-protection=return)
  endif()
  add_link_options(-Wl,-z,relro,-z,now)
endif()
# Where such a call does not pass, indices are checked as well, and stacks have canaries: in the program...
add_library(capstan_hardening INTERFACE)
target_compile_definitions(capstan_hardening INTERFACE _GLIBCXX_ASSERTIONS)
target_compile_options(capstan_hardening INTERFACE ${CAPSTAN_CANARIES})
# ... and, of the library, in what receives data from elsewhere.
function(capstan_protect_stacks)
  set(sources "")
  foreach(wing ${CAPSTAN_WINGS})
    get_target_property(own ${wing} SOURCES)
    list(APPEND sources ${own})
  endforeach()
  list(FILTER sources INCLUDE REGEX "/(core/(bootstrap|platform/(device|net)|engine/world)|topology|transports/(common|ofi|tcp|verbs))/")
  set_property(SOURCE ${sources} TARGET_DIRECTORY capstan APPEND PROPERTY COMPILE_OPTIONS ${CAPSTAN_CANARIES})
endfunction()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this, ccache doesn't trust a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

# A program of a sanitized build has hundreds of megabytes of relocations and records: lld links it
# in a tenth of the time.
find_program(CAPSTAN_LLD ld.lld-19)
mark_as_advanced(CAPSTAN_LLD)
if(CAPSTAN_LLD AND CAPSTAN_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_link_options(-fuse-ld=lld)
endif()

# capstan_run_path(TARGET): of one that is installed, the same in the build tree. A path that CMake changes
# when it installs ends in a colon until then, and libraries would be loaded from the current folder.
function(capstan_run_path target)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endfunction()
