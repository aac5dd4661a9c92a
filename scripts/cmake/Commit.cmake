# SPDX-License-Identifier: Apache-2.0

# Writes the source OUTPUT that holds the commit of SOURCE, if it has changed: "1a2b3c4d5e6f", with a +
# where files differ from it, and nothing outside a clone. Runs in every build.
find_program(GIT git)
set(commit "")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${GIT} -C ${SOURCE} diff-index --quiet HEAD --
                  RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
  if(commit AND differs)
    string(APPEND commit "+")
  endif()
endif()
set(text "#include \"core/tools/cli/commit.hpp\"\n
namespace capstan::cli {

std::string_view build_commit() {
  return \"${commit}\";
}

}  // namespace capstan::cli\n")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} written)
endif()
if(NOT "${written}" STREQUAL "${text}")
  file(WRITE ${OUTPUT} "${text}")
endif()
