# SPDX-License-Identifier: Apache-2.0

# A call with elements that no collective has is refused by COMPILER in one line that says what to do.
foreach(type short bool)
  file(WRITE ${WORK}/element.cpp "#include <capstan/communicator.hpp>
#include <array>
void call(capstan::Communicator& world, std::array<${type}, 4>& data) { world.all_reduce(data); }\n")
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${INCLUDE} ${WORK}/element.cpp
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX MATCHALL "error:" errors "${output}")
  list(LENGTH errors count)
  if(status EQUAL 0 OR NOT count EQUAL 1 OR NOT output MATCHES "Capstan's elements are integers")
    message(FATAL_ERROR "an all_reduce of ${type} gave ${count} errors:\n${output}")
  endif()
endforeach()
