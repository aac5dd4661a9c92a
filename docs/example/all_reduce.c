// SPDX-License-Identifier: Apache-2.0

/* All ranks add up their numbers. Start it with `capstan run -n 3 -- ./all_reduce_c`. */
#include <capstan.h>
#include <stdio.h>

static int complain(const char* call) {
  fprintf(stderr, "%s: %s\n", call, capstan_last_error());
  return 1;
}

int main(void) {
  capstan_communicator* world = NULL;
  if (capstan_from_environment(NULL, &world)) return complain("capstan_from_environment");
  int32_t rank = 0, size = 0;
  capstan_rank(world, &rank);
  capstan_size(world, &size);

  float mine = (float)rank + 1, sum = 0;
  if (capstan_all_reduce(world, &mine, &sum, 1, CAPSTAN_F32, CAPSTAN_SUM))
    return complain("capstan_all_reduce");
  printf("rank %d of %d: the sum is %g\n", rank, size, sum);

  capstan_work* work = NULL; /* the same in the background, in place */
  if (capstan_start_all_reduce(world, &mine, &mine, 1, CAPSTAN_F32, CAPSTAN_MAX, &work))
    return complain("capstan_start_all_reduce");
  if (capstan_wait(work)) return complain("capstan_wait");
  capstan_release(work);
  printf("rank %d of %d: the largest is %g\n", rank, size, mine);

  capstan_destroy(world);
  return 0;
}
