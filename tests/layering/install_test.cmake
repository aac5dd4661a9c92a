# SPDX-License-Identifier: Apache-2.0

# Installs a build of Capstan into WORK/prefix as KIND (static or shared), and builds and runs
# docs/example against it, found once by find_package and once by pkg-config.
function(run)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUTPUT" "COMMAND")
  execute_process(COMMAND ${arg_COMMAND} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  list(JOIN arg_COMMAND " " command)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "exit status ${status}: ${command}\n${output}")
  endif()
  if(arg_OUTPUT)
    set(${arg_OUTPUT} "${output}" PARENT_SCOPE)
  endif()
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/package_checks.cmake)

# Both ranks add 1 + 2.
function(expect_sums program)
  run(COMMAND ${prefix}/bin/capstan run -n 2 -- ${program} OUTPUT output)
  foreach(rank 0 1)
    if(NOT output MATCHES "rank ${rank} of 2: the sum is 3\n")
      message(FATAL_ERROR "rank ${rank} of ${program} did not print the sum 3:\n${output}")
    endif()
  endforeach()
endfunction()

# As scripts/build has it.
set(ENV{CCACHE_BASEDIR} ${SOURCE})
set(ENV{CCACHE_NOHASHDIR} 1)

set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
if(NOT EXISTS ${BUILD}/CMakeCache.txt)
  set(shared OFF)
  if(KIND STREQUAL "shared")
    set(shared ON)
  endif()
  # Kernels for GPUs take most of the time, and are the same in both kinds of libraries.
  run(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD} -G Ninja -D CMAKE_BUILD_TYPE=${BUILD_TYPE}
      -D CMAKE_CXX_COMPILER=${COMPILER} -D BUILD_SHARED_LIBS=${shared} -D CAPSTAN_BUILD_TESTS=OFF
      -D CAPSTAN_BUILD_PERF=OFF -D CAPSTAN_DEVICE_KERNELS=OFF)
endif()
set(library capstan)
if(KIND STREQUAL "shared")
  set(library capstan_shared)
endif()
run(COMMAND ${CMAKE_COMMAND} --build ${BUILD} --target ${library} capstan_cli capstan_bindings --parallel)
run(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
run(COMMAND ${prefix}/bin/capstan --help)
file(GLOB_RECURSE installed ${prefix}/bin/* ${prefix}/libexec/* ${prefix}/lib*/*.so)
foreach(file ${BUILD}/bin/capstan ${installed})
  check_run_path(${file})
endforeach()
check_bill_of_materials(${prefix}/share/capstan/capstan.spdx.json ${prefix}/bin/capstan)
if(KIND STREQUAL "shared")
  file(GLOB_RECURSE library ${prefix}/*/libcapstan.so)
  check_exports(${library} ${prefix}/include)
endif()

# By find_package.
run(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/docs/example -B ${WORK}/example -G Ninja
    -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${COMPILER})
run(COMMAND ${CMAKE_COMMAND} --build ${WORK}/example)
expect_sums(${WORK}/example/all_reduce)
expect_sums(${WORK}/example/all_reduce_c)
expect_sums(${WORK}/example/backends)
run(COMMAND ${prefix}/bin/capstan run -n 3 -- ${WORK}/example/from_mpi OUTPUT output)
if(NOT output MATCHES "3 ranks, up to 299")
  message(FATAL_ERROR "from_mpi found another largest element:\n${output}")
endif()
run(COMMAND ${prefix}/bin/capstan run -n 2 -- ${WORK}/example/asynchronous OUTPUT output)
if(NOT output MATCHES "rank 0 is done" OR NOT output MATCHES "rank 1 is done")
  message(FATAL_ERROR "asynchronous did not come to its end:\n${output}")
endif()

# By pkg-config, from wherever the .pc file was installed.
file(GLOB_RECURSE module ${prefix}/*/capstan.pc)
get_filename_component(modules ${module} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${modules})
check_compile_flags(${prefix})
run(COMMAND pkg-config --cflags --libs capstan OUTPUT flags)
separate_arguments(flags UNIX_COMMAND "${flags}")
run(COMMAND pkg-config --variable=libdir capstan OUTPUT libraries)
string(STRIP "${libraries}" libraries)
run(COMMAND ${COMPILER} ${SOURCE}/docs/example/all_reduce.cpp ${flags}
    -Wl,-rpath,${libraries} -o ${WORK}/all_reduce)
expect_sums(${WORK}/all_reduce)

# In C, by pkg-config.
run(COMMAND pkg-config --cflags --libs capstan-c OUTPUT flags)
separate_arguments(flags UNIX_COMMAND "${flags}")
find_program(C_COMPILER NAMES cc gcc REQUIRED)
run(COMMAND ${C_COMPILER} -std=c11 ${SOURCE}/docs/example/all_reduce.c ${flags}
    -Wl,-rpath,${libraries} -o ${WORK}/all_reduce_c)
expect_sums(${WORK}/all_reduce_c)

# The public headers and no others; headers_test.cmake compiles each of them alone.
file(GLOB_RECURSE public RELATIVE ${SOURCE}/core/include ${SOURCE}/core/include/*.hpp)
list(APPEND public capstan.h)
list(SORT public)
file(GLOB_RECURSE installed RELATIVE ${prefix}/include ${prefix}/include/*)
list(SORT installed)
if(NOT public STREQUAL installed OR NOT installed MATCHES "capstan/communicator.hpp")
  message(FATAL_ERROR "installed headers: ${installed}\npublic headers: ${public}")
endif()
