# SPDX-License-Identifier: Apache-2.0

# Compiles the sources of a folder together: most of the time goes into headers, which are then read
# once. The preset debug compiles each file by itself, and so finds what a file forgets to include.
option(CAPSTAN_UNITE_SOURCES "Compile the sources of each folder together" ON)

# capstan_unite_sources(TARGET [ALONE regex] [BELOW regex] [COLD regex] [PARTS number]): but for sources
# that match ALONE, and those that have options of their own. The folders below one that matches BELOW are
# compiled with it. With PARTS a folder becomes so many sources; a file's name decides which it joins, so
# that a new file changes only one. What matches COLD is never waited for by a call: release builds compile
# it with -O1, which takes two thirds of the time of -O3.
function(capstan_unite_sources target)
  cmake_parse_arguments(arg "" "ALONE;BELOW;COLD;PARTS" "" ${ARGN})
  if(NOT CAPSTAN_UNITE_SOURCES)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  get_target_property(target_folder ${target} SOURCE_DIR)
  set(units "")
  foreach(source ${sources})
    if(NOT source MATCHES "\\.cpp$" OR (arg_ALONE AND source MATCHES "${arg_ALONE}"))
      continue()
    endif()
    get_filename_component(file ${source} ABSOLUTE BASE_DIR ${target_folder})
    get_source_file_property(own ${file} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
    if(own)
      continue()
    endif()
    get_filename_component(folder ${file} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${file})
    if(arg_BELOW)
      string(REGEX REPLACE "^(${arg_BELOW})/.*" "\\1" folder ${folder})
    endif()
    set(unit ${folder}/united)
    if(arg_COLD AND "/${path}" MATCHES "${arg_COLD}")
      set(unit ${folder}/united_cold)
    endif()
    if(arg_PARTS)
      string(MD5 hash ${path})
      string(SUBSTRING ${hash} 0 6 hash)
      math(EXPR part "0x${hash} % ${arg_PARTS}")
      string(APPEND unit _${part})
    endif()
    list(APPEND units ${unit})
    list(APPEND files_of_${unit} ${file})
    get_source_file_property(own ${file} TARGET_DIRECTORY ${target} COMPILE_DEFINITIONS)
    if(own)
      list(APPEND definitions_of_${unit} ${own})
    endif()
    set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
  endforeach()
  list(REMOVE_DUPLICATES units)
  foreach(unit ${units})
    list(JOIN files_of_${unit} "\"\n#include \"" includes)
    string(CONFIGURE "#include \"@includes@\"\n" text @ONLY)
    set(source ${PROJECT_BINARY_DIR}/united/${target}/${unit}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
    target_sources(${target} PRIVATE ${source})
    # A file's own names hide those of the files before it, and its types look like a header's.
    set_property(SOURCE ${source} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS
                 -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    if(definitions_of_${unit})
      set_property(SOURCE ${source} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_DEFINITIONS
                   ${definitions_of_${unit}})
    endif()
    if(unit MATCHES "_cold$")
      set_property(SOURCE ${source} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS
                   $<$<CONFIG:Release>:-O1>)
    endif()
  endforeach()
endfunction()
