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
    # Of libstdc++'s own code for std::stable_sort.
    add_compile_options(-Wno-deprecated-declarations)
  endif()
  if(CAPSTAN_SANITIZE MATCHES "undefined")
    # Each check has a record of where it stands: two million pointers, which every process of every
    # test would have to relocate at its start (0.1 s) if its program could lie anywhere.
    add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
endif()

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
