# Compiles each header below INCLUDE by itself with COMPILER, without any other include path.
file(GLOB_RECURSE headers RELATIVE ${INCLUDE} ${INCLUDE}/*.hpp)
if(NOT headers MATCHES "capstan/communicator.hpp")
  message(FATAL_ERROR "communicator.hpp is not among the headers below ${INCLUDE}: ${headers}")
endif()
foreach(header ${headers})
  # Included twice, from a file that has nothing else: a header compiled directly warns of its pragma.
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror
                          -I${INCLUDE} -include ${header} -include ${header} -x c++ /dev/null
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(APPEND failed ${header})
    message(STATUS "${header} does not compile alone:\n${output}")
  endif()
endforeach()
if(failed)
  message(FATAL_ERROR "headers that do not compile alone with ${COMPILER}: ${failed}")
endif()
