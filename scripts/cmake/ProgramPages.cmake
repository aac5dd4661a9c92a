# SPDX-License-Identifier: Apache-2.0

# cmake -D PROGRAM=capstan -D OUTPUT=FOLDER -D ZSH=NAME -P ProgramPages.cmake: the manual pages of the
# program and of each command, and completions for shells, below FOLDER as below share; those for zsh
# in its folder NAME.
function(write_page path)
  execute_process(COMMAND ${PROGRAM} help ${ARGN} OUTPUT_FILE ${OUTPUT}/${path}
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${OUTPUT})
file(MAKE_DIRECTORY ${OUTPUT}/man/man1 ${OUTPUT}/bash-completion/completions
                    ${OUTPUT}/zsh/${ZSH} ${OUTPUT}/fish/vendor_completions.d)
write_page(bash-completion/completions/capstan --completion bash)
write_page(zsh/${ZSH}/_capstan --completion zsh)
write_page(fish/vendor_completions.d/capstan.fish --completion fish)

execute_process(COMMAND ${PROGRAM} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE ".*\nSubcommands:(.*)\nExamples:.*" "\\1" commands "${help}")
string(REGEX MATCHALL "\n  [a-z]+" commands "${commands}")
if(NOT commands)
  message(FATAL_ERROR "${PROGRAM} --help lists no commands")
endif()
write_page(man/man1/capstan.1 --man)
foreach(command ${commands})
  string(STRIP "${command}" command)
  write_page(man/man1/capstan-${command}.1 --man ${command})
endforeach()
