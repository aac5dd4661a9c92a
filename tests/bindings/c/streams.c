// SPDX-License-Identifier: Apache-2.0

/* Calls in the order of streams, on a stand-in for CUDA's driver: its library is the argument. */

#include <dlfcn.h>
#include <string.h>

#include "check.h"

/* Functions of the driver, and of the stand-in, whose kernels are functions of the program. */
static int (*cu_init)(unsigned);
static int (*retain_context)(void**, int);
static int (*push_context)(void*);
static int (*make_stream)(void**, unsigned);
static int (*allocate)(unsigned long long*, size_t);
static int (*launch)(void*, void (*)(void*), void*);
static int (*synchronize)(void*);
static void* (*inside)(const void*);

/* ISO C has no conversion from an object's address to a function's. */
static void find(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  if (!found) fail_at(__FILE__, __LINE__, name);
  memcpy(function, &found, sizeof found);
}

static void open_driver(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  CHECK(library);
  find(library, "cuInit", &cu_init);
  find(library, "cuDevicePrimaryCtxRetain", &retain_context);
  find(library, "cuCtxPushCurrent_v2", &push_context);
  find(library, "cuStreamCreate", &make_stream);
  find(library, "cuMemAlloc_v2", &allocate);
  find(library, "fake_launch", &launch);
  find(library, "fake_synchronize", &synchronize);
  find(library, "fake_data", &inside);
  void* context = NULL;
  CHECK(cu_init(0) == 0 && retain_context(&context, 0) == 0 && push_context(context) == 0);
}

enum { count = 1000 };
static int rank_here, size_here;

static void write_ranks(void* data) {
  float* const values = data;
  for (int i = 0; i < count; ++i) values[i] = (float)rank_here + 1;
}

static double seen;
static void look(void* data) {
  seen = ((const float*)data)[count - 1];
}

int main(int argument_count, char** arguments) {
  CHECK(argument_count == 2);
  open_driver(arguments[1]);
  capstan_communicator* world = NULL;
  OK(capstan_from_environment(NULL, &world));
  OK(capstan_rank(world, &rank_here));
  OK(capstan_size(world, &size_here));
  void* stream = NULL;
  unsigned long long address = 0, other = 0;
  CHECK(make_stream(&stream, 1) == 0);
  CHECK(allocate(&address, count * sizeof(float)) == 0);
  CHECK(allocate(&other, count * sizeof(float)) == 0);
  void* const data = (void*)(size_t)address;
  void* const received = (void*)(size_t)other;
  float* const values = inside(data);

  /* A kernel writes, the ranks sum, another kernel looks: only the stream waits. */
  capstan_request sum = CAPSTAN_REQUEST_INIT;
  sum.collective = CAPSTAN_ALL_REDUCE;
  sum.type = CAPSTAN_F32;
  sum.input = sum.output = data;
  sum.count = count;
  sum.op = CAPSTAN_SUM;
  sum.stream = stream;
  const double total = size_here * (size_here + 1) / 2.0;
  for (int round = 0; round < 5; ++round) {
    launch(stream, write_ranks, values);
    OK(capstan_run(world, &sum));
    launch(stream, look, values);
    CHECK(synchronize(stream) == 0);
    CHECK(seen == total);
  }

  capstan_work* work = NULL;
  launch(stream, write_ranks, values);
  OK(capstan_start(world, &sum, &work));
  OK(capstan_wait(work));
  OK(capstan_release(work));
  CHECK(values[0] == (float)total);

  /* Messages around a ring. */
  launch(stream, write_ranks, values);
  const capstan_message both[2] = {{.sends = 1,
                                    .peer = (rank_here + 1) % size_here,
                                    .type = CAPSTAN_F32,
                                    .data = data,
                                    .count = count},
                                   {.sends = 0,
                                    .peer = (rank_here + size_here - 1) % size_here,
                                    .type = CAPSTAN_F32,
                                    .data = received,
                                    .count = count}};
  OK(capstan_exchange_in_stream(world, both, 2, stream));
  launch(stream, look, inside(received));
  CHECK(synchronize(stream) == 0);
  CHECK(seen == (rank_here + size_here - 1) % size_here + 1);

  /* Explanations and refusals. */
  char* text = NULL;
  OK(capstan_explain(world, &sum, CAPSTAN_JSON, &text));
  CHECK(strstr(text, "device executor") || strstr(text, "pinned staging"));
  OK(capstan_free_text(text));
  float on_host[count] = {0};
  sum.input = sum.output = on_host;
  CHECK(capstan_run(world, &sum) == CAPSTAN_INVALID_ARGUMENT);
  CHECK(strstr(capstan_last_error(), "host memory"));
  capstan_persistent* persistent = NULL;
  CHECK(capstan_create_persistent(world, &sum, &persistent) / 100 == CAPSTAN_INVALID_ARGUMENT / 100);
  CHECK(strstr(capstan_last_error(), "pass no stream"));
  OK(capstan_destroy(world));
  return 0;
}
