// SPDX-License-Identifier: Apache-2.0

/* Ranks that make different calls: each gets an error of MPI with Capstan's text, by its handler. */
#include "told.h"

int main(int count, char** arguments) {
  begin(&count, &arguments);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  int in[4] = {1, 1, 1, 1}, out[4], length = 0, error_class = 0;
  const int code = MPI_Allreduce(in, out, world_rank + 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_string(code, text, &length);
  MPI_Error_class(code, &error_class);
  printf("%s: %.*s\n", error_class == MPI_ERR_OTHER ? "MPI_ERR_OTHER" : "another class", length, text);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
