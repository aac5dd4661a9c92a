// SPDX-License-Identifier: Apache-2.0

/* One rank: every function of capstan.h, with results checked. */
#include "ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

int32_t rank, size;
int32_t* in;
int32_t* out;

/* Keeps the last one: associative, and not commutative. */
static void take_last(void* accumulator, const void* next, size_t count, void* context) {
  atomic_fetch_add((atomic_int*)context, 1);
  memcpy(accumulator, next, count * sizeof(double));
}

static void operations_of_the_program(capstan_communicator* world) {
  atomic_int calls = 0;
  double own[3] = {rank, rank + 0.5, -rank}, result[3] = {0};
  capstan_operation* last = NULL;
  OK(capstan_create_operation("last", CAPSTAN_F64, 0, take_last, &calls, &last));
  capstan_request request = CAPSTAN_REQUEST_INIT;
  request.collective = CAPSTAN_ALL_REDUCE;
  request.type = CAPSTAN_F64;
  request.input = own;
  request.output = result;
  request.count = 3;
  request.operation = last;
  OK(capstan_run(world, &request));
  CHECK(result[0] == size - 1 && result[1] == size - 0.5 && result[2] == 1 - size);
  CHECK(size == 1 || atomic_load(&calls) > 0);

  request.operation = NULL;
  request.scales = 1;
  request.factor = rank == 0 ? 2 : 1;
  capstan_work* work = NULL;
  OK(capstan_start(world, &request, &work));
  OK(capstan_wait(work));
  double sum = 0;
  for (int r = 0; r < size; ++r) sum += r;
  CHECK(result[0] == sum);
  OK(capstan_release(work));
  OK(capstan_destroy_operation(last));
  OK(capstan_destroy_operation(NULL));
}

static void tensors(capstan_communicator* world) {
  float first[4] = {1, 2, 3, 4}, second[6];
  for (int i = 0; i < 6; ++i) second[i] = (float)(10 * rank + i);
  const int64_t shape[2] = {2, 2}, length = 3, step = 2;
  capstan_tensor inputs[2] = {
      {.data = first, .type = CAPSTAN_F32, .dimensions = 2, .shape = shape},
      {.data = second, .type = CAPSTAN_F32, .dimensions = 1, .shape = &length, .strides = &step}};
  capstan_tensor_request request = CAPSTAN_TENSOR_REQUEST_INIT;
  request.collective = CAPSTAN_ALL_REDUCE;
  request.inputs = inputs;
  request.input_count = 2;
  OK(capstan_run_tensors(world, &request));
  for (int i = 0; i < 4; ++i) CHECK(first[i] == (float)(size * (i + 1)));
  for (int i = 0; i < 6; ++i)
    CHECK(second[i] == (float)(i % 2 ? 10 * rank + i : 5 * size * (size - 1) + size * i));

  float gathered[4 * MOST_RANKS];
  const int64_t wide[2] = {2, 2 * size};
  const capstan_tensor output = {
      .data = gathered, .type = CAPSTAN_F32, .dimensions = 2, .shape = wide};
  request.collective = CAPSTAN_ALL_GATHER;
  request.input_count = 1;
  request.outputs = &output;
  request.output_count = 1;
  request.dimension = 1;
  capstan_work* work = NULL;
  OK(capstan_start_tensors(world, &request, &work));
  OK(capstan_wait(work));
  OK(capstan_release(work));
  for (int i = 0; i < 4 * size; ++i) CHECK(gathered[i] == first[(i / (2 * size)) * 2 + i % 2]);
}

/* Each rank sends to the next. */
static void messages(capstan_communicator* world) {
  const int32_t next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int64_t sent[2] = {rank, 7}, received[5] = {-1, -1, -1, -1, -1};
  capstan_message_info info = {0, 0, 0};
  capstan_work* work = NULL;

  OK(capstan_start_send(world, sent, 2, CAPSTAN_I64, next, 5, &work));
  OK(capstan_receive(world, received, 5, CAPSTAN_I64, CAPSTAN_ANY_SOURCE, CAPSTAN_ANY_TAG, &info));
  OK(capstan_wait(work));
  OK(capstan_release(work));
  CHECK(info.source == previous && info.tag == 5 && info.bytes == 16);
  CHECK(received[0] == previous && received[1] == 7 && received[2] == -1);

  OK(capstan_start_receive(world, received, 5, CAPSTAN_I64, previous, 6, &work));
  OK(capstan_send(world, sent, 1, CAPSTAN_I64, next, 6));
  OK(capstan_wait(work));
  OK(capstan_received(work, &info));
  CHECK(info.source == previous && info.tag == 6 && info.bytes == 8);
  OK(capstan_release(work));

  capstan_message both[2] = {{.sends = 1, .peer = next, .tag = 1, .type = CAPSTAN_I64},
                             {.sends = 0, .peer = previous, .tag = 1, .type = CAPSTAN_I64}};
  both[0].data = sent;
  both[0].count = 2;
  both[1].data = received;
  both[1].count = 5;
  received[0] = -1;
  OK(capstan_exchange(world, both, 2));
  CHECK(received[0] == previous);
  CHECK(capstan_exchange_in_stream(world, both, 2, NULL) == CAPSTAN_INVALID_ARGUMENT);
  CHECK(capstan_exchange_in_stream(world, both, 2, (void*)1) == CAPSTAN_INVALID_ARGUMENT);
  CHECK(strstr(capstan_last_error(), "host memory"));
  OK(capstan_start_exchange(world, both, 2, &work));
  OK(capstan_wait(work));
  OK(capstan_release(work));

  OK(capstan_start_send(world, sent, 1, CAPSTAN_I64, next, 9, &work));
  OK(capstan_probe(world, previous, 9, &info));
  CHECK(info.bytes == 8);
  int32_t found = 0;
  OK(capstan_try_probe(world, previous, 9, &found, &info));
  CHECK(found == 1 && info.tag == 9);
  OK(capstan_try_probe(world, previous, 10, &found, &info));
  CHECK(found == 0);
  CHECK(capstan_receive(world, received, 0, CAPSTAN_I64, previous, 9, NULL) == CAPSTAN_TRUNCATED);
  CHECK(capstan_last_status() == CAPSTAN_TRUNCATED);
  OK(capstan_wait(work));
  OK(capstan_release(work));
}

static void count_end(void* context, capstan_status status, const char* error) {
  CHECK(status != CAPSTAN_OK || strcmp(error, "") == 0);
  atomic_fetch_add((atomic_int*)context, status == CAPSTAN_OK ? 1 : 100);
}

static void works(capstan_communicator* world) {
  atomic_int ends = 0;
  int32_t ended = 0, cancelled = -1;
  size_t index = 99;
  capstan_work* works[2] = {NULL, NULL};
  int32_t first[2] = {1, 1}, second[2] = {2, 2};
  OK(capstan_start_all_reduce(world, first, first, 2, CAPSTAN_I32, CAPSTAN_SUM, &works[0]));
  OK(capstan_start_all_reduce(world, second, second, 2, CAPSTAN_I32, CAPSTAN_SUM, &works[1]));
  CHECK(strstr(capstan_describe(works[0]), "all_reduce(2 x i32, sum)") != NULL);
  OK(capstan_on_complete(works[0], count_end, &ends));
  OK(capstan_wait_any(works, 2, -1, &index));
  CHECK(index < 2);
  OK(capstan_wait_all(works, 2, 60, &ended));
  CHECK(ended == 1);
  OK(capstan_test(works[0], &ended));
  CHECK(ended == 1 && first[0] == size && second[1] == 2 * size);
  OK(capstan_on_complete(works[1], count_end, &ends)); /* at once */
  CHECK(atomic_load(&ends) == 2);
  OK(capstan_cancel(works[1], &cancelled));
  CHECK(cancelled == 0);
  CHECK(capstan_received(works[1], &(capstan_message_info){0, 0, 0}) == CAPSTAN_INVALID_ARGUMENT);
  OK(capstan_release(works[0]));
  OK(capstan_release(works[1]));
  OK(capstan_release(NULL));

  /* A receive that nobody answers: it does not end, and can be cancelled. */
  capstan_work* receive = NULL;
  OK(capstan_start_receive(world, first, 2, CAPSTAN_I32, 0, 77, &receive));
  OK(capstan_ensure_progress(receive));
  OK(capstan_on_complete(receive, count_end, &ends));
  OK(capstan_wait_for(receive, 0.001, &ended));
  CHECK(ended == 0);
  OK(capstan_wait_any(&receive, 1, 0.001, &index));
  CHECK(index == 1);
  OK(capstan_cancel(receive, &cancelled));
  CHECK(cancelled == 1 && atomic_load(&ends) == 102);
  CHECK(capstan_wait(receive) == CAPSTAN_CANCELLED);
  OK(capstan_release(receive));
}

static void persistent_calls(capstan_communicator* world) {
  capstan_persistent* sum = NULL;
  int32_t own = 0, total = 0, ended = 0;
  capstan_request request = CAPSTAN_REQUEST_INIT;
  request.collective = CAPSTAN_ALL_REDUCE;
  request.type = CAPSTAN_I32, request.op = CAPSTAN_SUM, request.count = 1;
  request.input = &own, request.output = &total;
  OK(capstan_create_persistent(world, &request, &sum));
  OK(capstan_wait_persistent(sum)); /* nothing has been started */
  for (int32_t step = 1; step <= 5; ++step) {
    own = step * (rank + 1);
    OK(capstan_start_persistent(sum));
    if (step % 2 == 0)
      OK(capstan_wait_persistent(sum));
    else
      do OK(capstan_test_persistent(sum, &ended));
      while (!ended);
    CHECK(total == step * size * (size + 1) / 2);
  }
  OK(capstan_destroy_persistent(sum));
  OK(capstan_destroy_persistent(NULL));
  sum = NULL;
  request.root = 0, request.count = SIZE_MAX;
  CHECK(capstan_create_persistent(world, &request, &sum) == CAPSTAN_INVALID_ARGUMENT);
  CHECK(capstan_create_persistent(world, NULL, &sum) == CAPSTAN_INVALID_ARGUMENT);
  CHECK(capstan_start_persistent(NULL) == CAPSTAN_INVALID_ARGUMENT && !sum);
}

static void add_one_rank_each(capstan_communicator* all) {
  int32_t ranks = 1;
  OK(capstan_all_reduce(all, &ranks, &ranks, 1, CAPSTAN_I32, CAPSTAN_SUM));
  CHECK(ranks == size + 1);
  OK(capstan_destroy(all));
}

static void* join_as_new_rank(void* place) {
  capstan_communicator* all = NULL;
  OK(capstan_join_growing(place, size, NULL, &all));
  add_one_rank_each(all);
  return NULL;
}

/* Rank 0 alone has the id, and the thread that is the new rank. */
static void grow(capstan_communicator* world) {
  capstan_communicator* all = NULL;
  CHECK(capstan_grow(world, 1, NULL, &all) == CAPSTAN_INVALID_ARGUMENT && !all);
  capstan_unique_id id;
  capstan_meeting_place place = CAPSTAN_MEETING_PLACE_INIT;
  pthread_t joiner;
  if (rank == 0) {
    OK(capstan_create_unique_id(NULL, &id));
    place.id = &id;
    CHECK(pthread_create(&joiner, NULL, join_as_new_rank, &place) == 0);
  }
  OK(capstan_grow(world, 1, rank == 0 ? &place : NULL, &all));
  add_one_rank_each(all);
  if (rank == 0) pthread_join(joiner, NULL);
}

static void groups(capstan_communicator* world) {
  int32_t there = -1, own_rank = -1, own_size = -1;
  capstan_communicator *parity = NULL, *first = NULL, *nobody = NULL;
  OK(capstan_split(world, rank % 2, -rank, &parity));
  OK(capstan_rank(parity, &own_rank));
  OK(capstan_size(parity, &own_size));
  CHECK(own_size == (size + 1 - rank % 2) / 2);
  OK(capstan_world_rank(parity, own_rank, &there));
  CHECK(there == rank);
  OK(capstan_rank_of(parity, rank, &there));
  CHECK(there == own_rank);
  OK(capstan_rank_of(parity, rank + 1, &there));
  CHECK(there == -1);
  int32_t sum = 1;
  OK(capstan_all_reduce(parity, &sum, &sum, 1, CAPSTAN_I32, CAPSTAN_SUM));
  CHECK(sum == own_size);
  OK(capstan_destroy(parity));

  const int32_t zero = 0;
  capstan_communicator* same = NULL;
  OK(capstan_shrink(world, NULL, 0, 0, &same));
  int32_t same_size = 0;
  OK(capstan_size(same, &same_size));
  CHECK(same_size == size);
  OK(capstan_destroy(same));
  grow(world);
  OK(capstan_subgroup(world, &zero, 1, &first));
  CHECK((first != NULL) == (rank == 0));
  OK(capstan_destroy(first));
  OK(capstan_split(world, -1, 0, &nobody));
  CHECK(nobody == NULL);
}

static void memory(capstan_communicator* world) {
  void *shared = NULL, *none = &shared;
  OK(capstan_allocate(world, 100000, &shared));
  OK(capstan_allocate(world, 0, &none));
  CHECK(none == NULL && shared != NULL);
  int32_t* const numbers = shared;
  for (int i = 0; i < 25000; ++i) {
    CHECK(numbers[i] == 0);
    numbers[i] = rank + i;
  }
  OK(capstan_all_reduce(world, numbers, numbers, 25000, CAPSTAN_I32, CAPSTAN_MAX));
  for (int i = 0; i < 25000; ++i) CHECK(numbers[i] == size - 1 + i);
  OK(capstan_free(shared));
  OK(capstan_free(NULL));
  CHECK(capstan_free(shared) == CAPSTAN_INVALID_ARGUMENT);
}

static void explanations(const capstan_communicator* world) {
  capstan_request request = CAPSTAN_REQUEST_INIT;
  request.collective = CAPSTAN_ALL_REDUCE;
  request.type = CAPSTAN_F32;
  request.input = request.output = in;
  request.count = 1000;
  char* text = NULL;
  OK(capstan_explain(world, &request, CAPSTAN_TEXT, &text));
  CHECK(strchr(text, '(') != NULL && text[0] != '{');
  OK(capstan_free_text(text));
  OK(capstan_explain(world, &request, CAPSTAN_JSON, &text));
  CHECK(text[0] == '{' && strstr(text, "\"algorithm\":\"") != NULL);
  CHECK(strstr(text, "\"collective\":\"all_reduce\"") != NULL);
  CHECK(strstr(text, "\"input_count\":1000") != NULL);
  OK(capstan_free_text(text));
  OK(capstan_free_text(NULL));
  OK(capstan_report(world, CAPSTAN_TEXT, &text));
  CHECK(strlen(text) > 10);
  OK(capstan_free_text(text));
  OK(capstan_report(world, CAPSTAN_JSON, &text));
  CHECK(text[0] == '{' && strstr(text, "\"entries\"") != NULL);
  CHECK(strchr(text, '\n') == NULL); /* logs keep it whole */
  OK(capstan_free_text(text));
  CHECK(capstan_report(world, 9, &text) == CAPSTAN_INVALID_ARGUMENT);
}

/* A second world of the same ranks, by an id that rank 0 makes; rank 0 aborts it. */
static void join_and_abort(capstan_communicator* world) {
  capstan_unique_id id;
  char text[CAPSTAN_UNIQUE_ID_TEXT];
  if (rank == 0) {
    OK(capstan_create_unique_id(NULL, &id));
    OK(capstan_unique_id_to_text(&id, text, sizeof text));
  }
  OK(capstan_broadcast(world, text, text, sizeof text, CAPSTAN_U8, 0));
  OK(capstan_unique_id_from_text(text, &id));
  capstan_settings settings = CAPSTAN_SETTINGS_INIT;
  settings.timeout = 60;
  settings.autotune = CAPSTAN_OFF;
  settings.algorithm = "all_reduce:direct";
  capstan_communicator* second = NULL;
  OK(capstan_join(&id, rank, size, &settings, &second));
  int32_t sum = 1;
  OK(capstan_all_reduce(second, &sum, &sum, 1, CAPSTAN_I32, CAPSTAN_SUM));
  CHECK(sum == size);
  OK(capstan_async_error(second));
  OK(capstan_barrier(world)); /* all have asked */
  if (size > 1) {
    if (rank == 0) OK(capstan_abort(second, "the test says so"));
    capstan_status status = CAPSTAN_OK;
    while (status == CAPSTAN_OK) status = capstan_barrier(second);
    CHECK(status == CAPSTAN_ABORTED);
    CHECK(strstr(capstan_last_error(), "the test says so") != NULL);
    CHECK(capstan_last_lost_rank() == -1);
    CHECK(capstan_async_error(second) == CAPSTAN_ABORTED);
  }
  OK(capstan_destroy(second));
}

static void* use_local_world(void* argument) {
  int32_t own = -1;
  capstan_communicator* const member = argument;
  OK(capstan_rank(member, &own));
  int32_t numbers[3] = {0, 0, 0};
  OK(capstan_all_gather(member, &own, numbers, 1, CAPSTAN_I32));
  CHECK(numbers[1] == 1 && numbers[2] == 2);
  return NULL;
}

static void threads(void) {
  pthread_t thread[3];
  capstan_communicator* members[3];
  OK(capstan_local_world(3, NULL, members));
  for (int i = 0; i < 3; ++i) pthread_create(&thread[i], NULL, use_local_world, members[i]);
  for (int i = 0; i < 3; ++i) pthread_join(thread[i], NULL);
  for (int i = 0; i < 3; ++i) OK(capstan_destroy(members[i]));
}

int main(void) {
  capstan_communicator* world = NULL;
  names();
  OK(capstan_from_environment(NULL, &world));
  OK(capstan_rank(world, &rank));
  OK(capstan_size(world, &size));
  in = malloc(sizeof *in * MOST_RANKS * MOST);
  out = malloc(sizeof *out * MOST_RANKS * MOST);
  CHECK(in && out && size <= MOST_RANKS);
  collectives(world);
  operations_of_the_program(world);
  tensors(world);
  messages(world);
  works(world);
  persistent_calls(world);
  groups(world);
  memory(world);
  fill(1000);
  explanations(world);
  join_and_abort(world);
  join_in_store(world);
  algorithms_of_the_program(world);
  threads();
  OK(capstan_barrier(world));
  OK(capstan_destroy(world));
  OK(capstan_destroy(NULL));
  free(in);
  free(out);
  return 0;
}
