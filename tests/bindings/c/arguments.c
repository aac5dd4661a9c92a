// SPDX-License-Identifier: Apache-2.0

/* Arguments that cannot work are refused, and the communicator stays usable. */
#include <capstan.h>
#include <math.h>
#include <string.h>

#include "check.h"

static capstan_communicator* world;
static int32_t data[8], other[8];

#define REFUSED(call)                                         \
  do {                                                        \
    CHECK((call) == CAPSTAN_INVALID_ARGUMENT);                \
    CHECK(capstan_last_status() == CAPSTAN_INVALID_ARGUMENT); \
    CHECK(strlen(capstan_last_error()) > 10);                 \
  } while (0)

static void null_handles(void) {
  capstan_work* work = NULL;
  capstan_communicator* made = NULL;
  capstan_unique_id id;
  char* text = NULL;
  void* memory = NULL;
  int32_t number = 0;
  size_t index = 0;
  REFUSED(capstan_barrier(NULL));
  REFUSED(capstan_start_barrier(NULL, &work));
  REFUSED(capstan_all_reduce(NULL, data, other, 1, CAPSTAN_I32, CAPSTAN_SUM));
  REFUSED(capstan_start_all_reduce(world, data, other, 1, CAPSTAN_I32, CAPSTAN_SUM, NULL));
  REFUSED(capstan_run(world, NULL));
  REFUSED(capstan_run_tensors(world, NULL));
  REFUSED(capstan_send(NULL, data, 1, CAPSTAN_I32, 0, 0));
  REFUSED(capstan_probe(world, 0, 0, NULL));
  REFUSED(capstan_rank(NULL, &number));
  REFUSED(capstan_rank(world, NULL));
  REFUSED(capstan_size(world, NULL));
  REFUSED(capstan_split(NULL, 0, 0, &made));
  REFUSED(capstan_split(world, 0, 0, NULL));
  REFUSED(capstan_subgroup(world, NULL, 1, &made));
  REFUSED(capstan_allocate(world, 1, NULL));
  REFUSED(capstan_allocate(NULL, 1, &memory));
  REFUSED(capstan_free(data));
  REFUSED(capstan_abort(NULL, "reason"));
  REFUSED(capstan_async_error(NULL));
  REFUSED(capstan_wait(NULL));
  REFUSED(capstan_test(NULL, &number));
  REFUSED(capstan_cancel(NULL, &number));
  REFUSED(capstan_wait_any(NULL, 1, 0, &index));
  REFUSED(capstan_wait_any(&work, 1, 0, &index));
  REFUSED(capstan_wait_any(&work, 0, 0, &index));
  REFUSED(capstan_wait_all(&work, 1, 0, &number));
  REFUSED(capstan_create_unique_id(NULL, NULL));
  REFUSED(capstan_unique_id_from_text(NULL, &id));
  REFUSED(capstan_unique_id_from_text("not one", &id));
  REFUSED(capstan_join(NULL, 0, 1, NULL, &made));
  REFUSED(capstan_local_world(1, NULL, NULL));
  REFUSED(capstan_local_world(0, NULL, &made));
  REFUSED(capstan_local_world(INT32_MAX, NULL, &made));
  REFUSED(capstan_from_environment(NULL, NULL));
  REFUSED(capstan_answer(NULL, data, 1));
  REFUSED(capstan_explain(world, NULL, CAPSTAN_TEXT, &text));
  CHECK(strcmp(capstan_describe(NULL), "") == 0);
  CHECK(!work && !made && !text && !memory);
}

/* A handle of another kind: it is told apart by its first bytes. */
static void handles_of_another_kind(void) {
  capstan_work* work = NULL;
  OK(capstan_start_barrier(world, &work));
  REFUSED(capstan_barrier((capstan_communicator*)(void*)work));
  REFUSED(capstan_wait((capstan_work*)(void*)world));
  REFUSED(capstan_release((capstan_work*)(void*)world));
  capstan_request request = CAPSTAN_REQUEST_INIT;
  request.collective = CAPSTAN_ALL_REDUCE;
  request.operation = (capstan_operation*)(void*)world;
  REFUSED(capstan_run(world, &request));
  OK(capstan_wait(work));
  OK(capstan_release(work));
}

static void numbers_that_do_not_exist(void) {
  const int32_t wrong[] = {-1, 14, 256, 1 << 30};
  for (int i = 0; i < 4; ++i) {
    REFUSED(capstan_all_reduce(world, data, other, 1, wrong[i], CAPSTAN_SUM));
    REFUSED(capstan_all_reduce(world, data, other, 1, CAPSTAN_I32, wrong[i]));
    REFUSED(capstan_send(world, data, 1, wrong[i], 0, 0));
    REFUSED(capstan_broadcast(world, data, other, 1, CAPSTAN_I32, i == 0 ? -1 : i));
    capstan_request request = CAPSTAN_REQUEST_INIT;
    request.collective = i == 1 ? 16 : wrong[i];
    REFUSED(capstan_run(world, &request));
  }
  REFUSED(capstan_all_reduce(world, data, other, 1, CAPSTAN_F32, CAPSTAN_BIT_AND));
  REFUSED(capstan_send(world, data, 1, CAPSTAN_I32, 7, 0));
  REFUSED(capstan_send(world, data, 1, CAPSTAN_I32, 0, -5));
}

static void sizes(void) {
  size_t huge = SIZE_MAX / 2 + 1;
  REFUSED(capstan_all_reduce(world, data, other, SIZE_MAX, CAPSTAN_I32, CAPSTAN_SUM));
  REFUSED(capstan_all_to_all(world, data, other, huge, CAPSTAN_U8));
  REFUSED(capstan_all_gather(world, data, other, huge, CAPSTAN_I32));
  REFUSED(capstan_all_gather_v(world, data, other, NULL, CAPSTAN_I32));
  REFUSED(capstan_all_gather_v(world, data, other, &huge, CAPSTAN_I32));
  REFUSED(capstan_all_reduce(world, NULL, other, 1, CAPSTAN_I32, CAPSTAN_SUM));
  REFUSED(capstan_all_reduce(world, data, data + 1, 4, CAPSTAN_I32, CAPSTAN_SUM));
  REFUSED(capstan_exchange(world, NULL, 1));
  char text[CAPSTAN_UNIQUE_ID_TEXT];
  capstan_unique_id id;
  memset(&id, 1, sizeof id);
  REFUSED(capstan_unique_id_to_text(&id, text, 10));
  capstan_communicator* made = NULL;
  REFUSED(capstan_join(&id, 0, 1, NULL, &made));
}

/* Structs of an older header, a newer one, and of none. */
static void versions(void) {
  struct {
    capstan_request request;
    int64_t newer;
  } grown = {.request = {.size = sizeof grown}, .newer = 0};
  grown.request.collective = CAPSTAN_ALL_REDUCE;
  grown.request.type = CAPSTAN_I32;
  grown.request.input = grown.request.output = data;
  grown.request.count = 1;
  OK(capstan_run(world, &grown.request));
  grown.newer = 1;
  CHECK(capstan_run(world, &grown.request) == CAPSTAN_NOT_SUPPORTED);
  const size_t wrong[] = {0, 8, offsetof(capstan_request, stream) - 1, SIZE_MAX};
  for (int i = 0; i < 4; ++i) {
    grown.request.size = wrong[i];
    REFUSED(capstan_run(world, &grown.request));
  }
}

static void settings(void) {
  capstan_communicator* made = NULL;
  for (int i = 0; i < 8; ++i) {
    capstan_settings wrong = CAPSTAN_SETTINGS_INIT;
    if (i == 0) wrong.timeout = -1;
    if (i == 1) wrong.join_timeout = NAN;
    if (i == 2) wrong.autotune = 3;
    if (i == 3) wrong.network = 5;
    if (i == 4) wrong.bootstrap = -1;
    if (i == 5) wrong.rails = 9;
    if (i == 6) wrong.algorithm = "no_such:algorithm";
    if (i == 7) wrong.size = 3;
    REFUSED(capstan_local_world(1, &wrong, &made));
  }
  capstan_store store = CAPSTAN_STORE_INIT; /* without functions */
  REFUSED(capstan_join_store(&store, 0, 1, NULL, NULL, &made));
  REFUSED(capstan_join_store(NULL, 0, 1, NULL, NULL, &made));
  CHECK(made == NULL);
}

static void waits(void) {
  int32_t ended = 5;
  capstan_work* work = NULL;
  OK(capstan_start_barrier(world, &work));
  REFUSED(capstan_wait_for(work, NAN, &ended));
  REFUSED(capstan_wait_for(work, 1, NULL));
  REFUSED(capstan_on_complete(work, NULL, NULL));
  REFUSED(capstan_received(work, NULL));
  CHECK(ended == 5);
  OK(capstan_wait_for(work, INFINITY, &ended));
  CHECK(ended == 1);
  OK(capstan_release(work));
}

static void operations(void) {
  capstan_operation* operation = NULL;
  REFUSED(capstan_create_operation("nothing", CAPSTAN_F32, 1, NULL, NULL, &operation));
  CHECK(operation == NULL);
  capstan_request request = CAPSTAN_REQUEST_INIT;
  request.collective = CAPSTAN_ALL_REDUCE;
  request.type = CAPSTAN_F32;
  request.scales = 1;
  request.op = CAPSTAN_MAX;
  REFUSED(capstan_run(world, &request));
  capstan_tensor tensor = {.data = data, .type = CAPSTAN_I32, .dimensions = 1};
  capstan_tensor_request tensors = CAPSTAN_TENSOR_REQUEST_INIT;
  tensors.collective = CAPSTAN_ALL_REDUCE;
  tensors.inputs = &tensor;
  tensors.input_count = 1;
  REFUSED(capstan_run_tensors(world, &tensors)); /* no shape */
  tensor.dimensions = -1;
  REFUSED(capstan_run_tensors(world, &tensors));
  const int64_t square[2] = {1, 2}, none[2] = {0, 0};
  capstan_tensor repeated = {
      .data = data, .type = CAPSTAN_I32, .dimensions = 2, .shape = square, .strides = none};
  capstan_tensor plain = {.data = data + 2, .type = CAPSTAN_I32, .dimensions = 2, .shape = square};
  tensors.inputs = &plain;
  tensors.outputs = &repeated;
  tensors.output_count = 1;
  REFUSED(capstan_run_tensors(world, &tensors)); /* two results for one element */
  tensors.outputs = &plain;
  tensors.inputs = &repeated;
  OK(capstan_run_tensors(world, &tensors));
  tensors.inputs = &tensor;
  tensors.output_count = 0;
  tensors.collective = CAPSTAN_BARRIER;
  tensor.dimensions = 0;
  CHECK(capstan_run_tensors(world, &tensors) == CAPSTAN_NOT_SUPPORTED);
}

static void algorithms(void) {
  capstan_collective collective = -1;
  char* name = NULL;
  REFUSED(capstan_algorithm_from_json(NULL, NULL, &collective, &name));
  REFUSED(capstan_algorithm_from_json("{}", "mine.json", &collective, &name));
  CHECK(strstr(capstan_last_error(), "mine.json") != NULL);
  CHECK(collective == -1 && name == NULL);
  REFUSED(capstan_add_schedules(NULL));
  REFUSED(capstan_add_schedules("/proc/there/is/no/such.json"));
  capstan_communicator* made = NULL;
  REFUSED(capstan_with_algorithm(world, NULL, &made));
  REFUSED(capstan_with_reproducible(world, CAPSTAN_REPRODUCIBLE_RANK_ORDER + 1, &made));
  capstan_request request = CAPSTAN_REQUEST_INIT;
  request.collective = CAPSTAN_ALL_REDUCE;
  request.reproducible = CAPSTAN_REPRODUCIBLE_RANK_ORDER + 1;
  REFUSED(capstan_run(world, &request));
  CHECK(capstan_with_algorithm(world, "broadcast:nobody", &made) != CAPSTAN_OK);
  CHECK(strstr(capstan_last_error(), "choose one of flat") != NULL);
  CHECK(made == NULL);
}

int main(void) {
  OK(capstan_local_world(1, NULL, &world));
  null_handles();
  handles_of_another_kind();
  numbers_that_do_not_exist();
  sizes();
  versions();
  settings();
  waits();
  operations();
  algorithms();
  data[0] = 3;
  OK(capstan_all_reduce(world, data, other, 1, CAPSTAN_I32, CAPSTAN_SUM));
  CHECK(other[0] == 3);
  OK(capstan_destroy(world));
  return 0;
}
