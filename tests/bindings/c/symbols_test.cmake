# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)
# LIBRARY exports the functions of LIST and nothing else, HEADER declares them, and PROGRAM
# calls each of them.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE output
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]+\n" exported "${output}")
list(TRANSFORM exported STRIP)
list(SORT exported)

file(STRINGS ${LIST} listed)
list(SORT listed)

file(READ ${HEADER} header)
string(REGEX REPLACE "CAPSTAN_C_API ([a-z_]+ \\*|[a-z_0-9]+ |const char\\* ?)[ \n]*(capstan_[a-z_0-9]+)\\("
       "DECLARES<\\2>" header "${header}")
string(REGEX MATCHALL "DECLARES<[a-z_0-9]+>" declared "${header}")
list(TRANSFORM declared REPLACE "DECLARES<([a-z_0-9]+)>" "\\1")
list(SORT declared)

function(expect_equal what found)
  foreach(name ${listed})
    if(NOT name IN_LIST found)
      message(SEND_ERROR "${what}: ${name} is missing")
    endif()
  endforeach()
  foreach(name ${found})
    if(NOT name IN_LIST listed)
      message(SEND_ERROR "${what}: ${name} is not in ${LIST}")
    endif()
  endforeach()
endfunction()
expect_equal("exported by ${LIBRARY}" "${exported}")
expect_equal("declared by ${HEADER}" "${declared}")

execute_process(COMMAND ${NM} -D --undefined-only ${PROGRAM} OUTPUT_VARIABLE output
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "capstan_[a-z_0-9]+" called "${output}")
expect_equal("called by ${PROGRAM}" "${called}")

execute_process(COMMAND ${READELF} -d ${LIBRARY} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output MATCHES "soname: \\[libcapstan_c\\.so\\.1\\]")
  message(SEND_ERROR "the soname is not libcapstan_c.so.1:\n${output}")
endif()
