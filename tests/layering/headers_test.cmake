# SPDX-License-Identifier: Apache-2.0

# Compiles each header below INCLUDE by itself with COMPILER, without any other include path. Objects
# are made, in WORK, so that ccache (LAUNCHER) knows headers that have not changed; BASE is the folder
# from which it sees all paths.
file(GLOB_RECURSE headers RELATIVE ${INCLUDE} ${INCLUDE}/*.hpp)
if(NOT headers MATCHES "capstan/communicator.hpp")
  message(FATAL_ERROR "communicator.hpp is not among the headers below ${INCLUDE}: ${headers}")
endif()
set(ENV{CCACHE_BASEDIR} ${BASE})
set(ENV{CCACHE_NOHASHDIR} 1)
foreach(header ${headers})
  # Included twice, from a file that has nothing else: a header compiled directly warns of its pragma.
  string(REPLACE "/" "_" name ${header})
  set(source ${WORK}/${name}.cpp)
  file(WRITE ${source} "#include \"${header}\"\n#include \"${header}\"\n")
  execute_process(COMMAND ${LAUNCHER} ${COMPILER} -std=c++20 -O0 -Wall -Wextra -Wpedantic -Werror
                          -I${INCLUDE} -c ${source} -o ${source}.o
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(APPEND failed ${header})
    message(STATUS "${header} does not compile alone:\n${output}")
  endif()
endforeach()
file(REMOVE_RECURSE ${WORK})
if(failed)
  message(FATAL_ERROR "headers that do not compile alone with ${COMPILER}: ${failed}")
endif()
