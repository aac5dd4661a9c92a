// SPDX-License-Identifier: Apache-2.0

/* A rank that is killed: the others get its name from the communicator's error handler, in a
   blocking call and in one in the background. MPI_Finalize may wait for that rank once Capstan's
   part, which ends with its report, is over: Open MPI's does so now and then, MPICH's always. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "told.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void say(const char* what, int code, double seconds) {
  int length = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_string(code, text, &length);
  printf("%s on rank %d after %.3f s: %.*s\n", what, world_rank, seconds, length, text);
  fflush(stdout);
}

static void end(int signal) {
  static const char text[] = "ended on rank, in MPI's own MPI_Finalize\n";
  (void)signal;
  if (write(STDOUT_FILENO, text, sizeof text - 1) >= 0) _exit(0);
  _exit(1);
}

int main(int count, char** arguments) {
  begin(&count, &arguments);
  MPI_Comm background;
  int sum = 0, code = MPI_SUCCESS;
  MPI_Comm_dup(MPI_COMM_WORLD, &background);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(background, MPI_ERRORS_RETURN);
  MPI_Barrier(background);
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 1) raise(SIGKILL);
  double began = now();
  while (code == MPI_SUCCESS)
    code = MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  say("blocking", code, now() - began);

  MPI_Request request;
  began = now();
  code = MPI_Iallreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, background, &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  say("background", code, now() - began);
  signal(SIGALRM, end);
  alarm(10);
  MPI_Finalize();
  printf("ended on rank %d\n", world_rank);
  fflush(stdout);
  _exit(0);
}
