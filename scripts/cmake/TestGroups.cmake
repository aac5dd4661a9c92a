# SPDX-License-Identifier: Apache-2.0
# Tests in groups, for sanitizers: each start of a program costs them 0.1 s, more than most tests.

# The most tests in a group. A long one would be the last to end, on one processor.
set(_most_in_a_group 8)

# capstan_discover_groups(TARGET LABEL [ALL REGEX] [TEST_PREFIX PREFIX] [PROPERTIES PROPERTY VALUE...]): like
# capstan_discover_tests, but a test of ctest runs up to 8 tests of one suite, or of one test with
# parameters. Those whose names match REGEX are groups of their own.
function(capstan_discover_groups target label)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "ALL;TEST_PREFIX" "PROPERTIES")
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_groups.cmake)
  file(GENERATE OUTPUT ${file} CONTENT "include([==[${CMAKE_CURRENT_FUNCTION_LIST_FILE}]==])
_add_groups([==[$<TARGET_FILE:${target}>]==] [==[${arg_TEST_PREFIX}]==] ${label} [==[${arg_ALL}]==] [==[${arg_PROPERTIES}]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()

# The functions below run when ctest starts.

# _list_tests(PROGRAM OUT): the full names of its tests.
function(_list_tests program out)
  execute_process(COMMAND ${program} --gtest_list_tests OUTPUT_VARIABLE lines RESULT_VARIABLE status TIMEOUT 60)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${program} cannot list its tests: ${status}")
  endif()
  set(names "")
  string(REGEX REPLACE "[ ]*#[^\n]*" "" lines "${lines}") # parameters, as texts
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line IN LISTS lines)
    if(line MATCHES "^ +(.+)$")
      list(APPEND names ${suite}${CMAKE_MATCH_1})
    elseif(line MATCHES "\\.$")
      set(suite ${line})
    endif()
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# _add_group(NAME PROGRAM LABELS PROPERTIES TEST...)
function(_add_group name program labels properties)
  list(JOIN ARGN ":" filter)
  add_test(${name} ${program} --gtest_filter=${filter})
  # Skipped are those of which all were skipped, and nothing failed.
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600 SKIP_REGULAR_EXPRESSION
    "\\[  PASSED  \\] 0 tests\\.\n\\[  SKIPPED \\] [0-9]+ tests?, listed below:\n(\\[  SKIPPED \\] [^\n]*\n)+$" ${properties})
endfunction()

function(_add_groups program prefix label all properties)
  if(NOT EXISTS ${program})
    add_test(${program}_NOT_BUILT ${program})
    return()
  endif()
  _list_tests(${program} tests)
  set(groups "")
  foreach(test IN LISTS tests)
    # Suite.Name belongs to Suite, and All/Suite.Name/4 to All/Suite.Name.
    string(REGEX MATCH "^[^/]+/[^/]+\\.[^/]+/|^.+\\." group ${test})
    string(REGEX REPLACE "[./]$" "" group ${group})
    if(all AND test MATCHES "${all}")
      string(APPEND group .All)
    endif()
    list(APPEND groups ${group})
    list(APPEND "tests_of_${group}" ${test})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    set(labels ${label})
    if(group MATCHES "\\.All$")
      list(APPEND labels all)
    endif()
    set(rest ${tests_of_${group}})
    set(number 1)
    while(rest)
      list(SUBLIST rest 0 ${_most_in_a_group} some)
      list(LENGTH rest left)
      if(left GREATER _most_in_a_group)
        list(SUBLIST rest ${_most_in_a_group} -1 rest)
      else()
        set(rest "")
      endif()
      set(name ${prefix}${group})
      if(rest OR number GREATER 1)
        string(APPEND name .${number})
      endif()
      _add_group(${name} ${program} "${labels}" "${properties}" ${some})
      math(EXPR number "${number} + 1")
    endwhile()
  endforeach()
endfunction()
