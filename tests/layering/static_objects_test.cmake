# SPDX-License-Identifier: Apache-2.0

# No static object of the library has a destructor: communicators may be destroyed after any of them.
#   cmake -D NM=... -D LIBRARY=... -P static_objects_test.cmake
execute_process(COMMAND ${NM} -A -u ${LIBRARY} OUTPUT_VARIABLE undefined RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR undefined STREQUAL "")
  message(FATAL_ERROR "${NM} cannot read ${LIBRARY}")
endif()
string(REGEX MATCHALL "[^\n]*__cxa_(thread_)?atexit[^\n]*" found "${undefined}")
if(found)
  list(JOIN found "\n" found)
  message(FATAL_ERROR "These files have static objects that exit() destroys: make each by `new`, and "
                      "keep a reference to it.\n${found}")
endif()
