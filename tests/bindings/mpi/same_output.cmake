# SPDX-License-Identifier: Apache-2.0

# Runs PROGRAM with RANKS ranks by MPIRUN, alone and with the DOOR: both write the same, and with the
# door Capstan has served collectives.
set(options "")
if(MPIRUN MATCHES "openmpi")
  set(options --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1)
endif()
function(run output errors)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env UCX_LOG_LEVEL=error ${ARGN} ${MPIRUN} ${options} -n ${RANKS} ${PROGRAM}
                  RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE error_text TIMEOUT 110)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN} ${PROGRAM}: ${result}\n${text}\n${error_text}")
  endif()
  set(${output} "${text}" PARENT_SCOPE)
  set(${errors} "${error_text}" PARENT_SCOPE)
endfunction()

run(alone ignored CAPSTAN_MPI=)
run(through told LD_PRELOAD=${DOOR} CAPSTAN_MPI=report)
if(NOT alone STREQUAL through)
  message(FATAL_ERROR "Without the door:\n${alone}\nWith it:\n${through}\n${told}")
endif()
if(NOT told MATCHES "all_reduce +Capstan +[1-9]")
  message(FATAL_ERROR "Capstan has served no all_reduce:\n${told}")
endif()
