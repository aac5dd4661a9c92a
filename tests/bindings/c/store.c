// SPDX-License-Identifier: Apache-2.0

/* Ranks that meet in a store of the program, and an algorithm of it. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"

/* A store of files, one for each key, in a directory that rank 0 has made. */
struct store {
  char directory[64];
};

static void name_file(char* name, size_t room, const struct store* store, const char* key,
                      const char* suffix) {
  const int length = snprintf(name, room, "%s/%s%s", store->directory, key, suffix);
  CHECK(length > 0 && (size_t)length < room);
  for (char* c = name + strlen(store->directory) + 1; *c; ++c)
    if (*c == '/') *c = '_';
}

static capstan_status put(void* context, const char* key, const void* bytes, size_t count) {
  char name[512], unfinished[512];
  name_file(name, sizeof name, context, key, "");
  name_file(unfinished, sizeof unfinished, context, key, ".unfinished");
  FILE* const file = fopen(unfinished, "wb");
  CHECK(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
  CHECK(rename(unfinished, name) == 0);
  return CAPSTAN_OK;
}

static int answer_if_there(const struct store* store, const char* key, capstan_store_value* value) {
  static unsigned char bytes[1 << 17];
  char name[512];
  name_file(name, sizeof name, store, key, "");
  FILE* const file = fopen(name, "rb");
  if (!file) return 0;
  OK(capstan_answer(value, bytes, fread(bytes, 1, sizeof bytes, file)));
  fclose(file);
  return 1;
}

static capstan_status try_get(void* context, const char* key, capstan_store_value* value) {
  answer_if_there(context, key, value);
  return CAPSTAN_OK;
}

static capstan_status get(void* context, const char* key, double seconds,
                          capstan_store_value* value) {
  const struct timespec pause = {0, 1000000};
  for (double waited = 0; waited < seconds; waited += 0.001) {
    if (answer_if_there(context, key, value)) return CAPSTAN_OK;
    nanosleep(&pause, NULL);
  }
  return CAPSTAN_TIMED_OUT;
}

static void remove_files(const char* directory) {
  DIR* const files = opendir(directory);
  CHECK(files);
  char name[512];
  for (const struct dirent* file; (file = readdir(files)) != NULL;)
    if (snprintf(name, sizeof name, "%s/%s", directory, file->d_name) > 0) remove(name);
  closedir(files);
  CHECK(rmdir(directory) == 0);
}

void join_in_store(capstan_communicator* world) {
  struct store files = {"/tmp/capstan-c-XXXXXX"};
  if (rank == 0) CHECK(mkdtemp(files.directory));
  OK(capstan_broadcast(world, files.directory, files.directory, sizeof files.directory, CAPSTAN_U8,
                       0));
  capstan_store store = CAPSTAN_STORE_INIT;
  store.context = &files;
  store.put = put;
  store.get = get;
  store.try_get = try_get;
  capstan_settings settings = CAPSTAN_SETTINGS_INIT;
  settings.secret = "sixteen characters and more";
  settings.join_timeout = 60;
  capstan_communicator* second = NULL;
  OK(capstan_join_store(&store, rank, size, "second", &settings, &second));
  int32_t sum = rank + 1;
  OK(capstan_all_reduce(second, &sum, &sum, 1, CAPSTAN_I32, CAPSTAN_SUM));
  CHECK(sum == size * (size + 1) / 2);
  OK(capstan_destroy(second));
  capstan_communicator* third = NULL;
  CHECK(capstan_join_store(&store, rank, size, "second", &settings, &third) ==
        CAPSTAN_INVALID_ARGUMENT);
  settings.join_timeout = 0.1;
  if (rank == 0)
    CHECK(capstan_join_store(&store, 0, 2, "nobody comes", &settings, &third) ==
          CAPSTAN_JOIN_TIMED_OUT);
  OK(capstan_barrier(world));
  if (rank == 0) remove_files(files.directory);
}

static const char schedule[] =
    "{\"format\": \"capstan-schedule\", \"version\": 1, \"collective\": \"broadcast\","
    " \"algorithm\": \"own\", \"summary\": \"of the test\", \"ranks\": 2, \"root\": 0, \"count\": "
    "4,"
    " \"scratch\": 4, \"phases\": 1, \"guarantees\": [], \"traffic\": \"inputs\", \"schedules\": ["
    "{\"rank\": 0, \"steps\": [{\"verb\": \"put\", \"peer\": 1,"
    " \"destination\": [\"scratch\", 0, 4], \"sources\": [[\"input\", 0, 4]]},"
    "{\"verb\": \"signal\", \"peer\": 1}, {\"verb\": \"copy\", \"destination\": [\"output\", 0, 4],"
    " \"sources\": [[\"input\", 0, 4]]}]},"
    "{\"rank\": 1, \"input\": 4, \"steps\": [{\"verb\": \"wait\", \"peer\": 0}, {\"verb\": "
    "\"copy\","
    " \"destination\": [\"output\", 0, 4], \"sources\": [[\"scratch\", 0, 4]]}]}]}";

/* The schedule above runs where there are two ranks; elsewhere the selector chooses. */
void algorithms_of_the_program(capstan_communicator* world) {
  capstan_collective collective = -1;
  char* name = NULL;
  OK(capstan_algorithm_from_json(schedule, NULL, &collective, &name));
  CHECK(collective == CAPSTAN_BROADCAST && strcmp(name, "own") == 0);
  OK(capstan_free_text(name));
  CHECK(capstan_add_schedules("/proc/there/is/no/such.json") == CAPSTAN_INVALID_ARGUMENT);
  capstan_communicator* made = NULL;
  OK(capstan_with_algorithm(world, "broadcast:own", &made));
  int32_t data[4] = {rank + 7, rank + 8, rank + 9, rank + 10};
  capstan_request request = CAPSTAN_REQUEST_INIT;
  request.collective = CAPSTAN_BROADCAST;
  request.type = CAPSTAN_I32;
  request.input = data;
  request.output = data;
  request.count = 4;
  OK(capstan_explain(made, &request, CAPSTAN_TEXT, &name));
  CHECK((strstr(name, "own (of the test)") != NULL) == (size == 2));
  OK(capstan_free_text(name));
  OK(capstan_run(made, &request));
  for (int32_t i = 0; i < 4; ++i) CHECK(data[i] == i + 7);
  OK(capstan_destroy(made));
  OK(capstan_with_reproducible(world, CAPSTAN_REPRODUCIBLE_RANK_ORDER, &made));
  float big[2] = {rank == 0 ? 1e8F : 1.0F, 0};
  OK(capstan_all_reduce(made, big, big, 2, CAPSTAN_F32, CAPSTAN_SUM));
  CHECK(big[0] == 1e8F);
  OK(capstan_destroy(made));
  capstan_request kept = CAPSTAN_REQUEST_INIT;
  kept.collective = CAPSTAN_ALL_REDUCE;
  kept.type = CAPSTAN_F32;
  kept.input = kept.output = big;
  kept.count = 1;
  kept.reproducible = CAPSTAN_REPRODUCIBLE_RANK_ORDER;
  big[0] = rank == 0 ? 1e8F : 1.0F;
  OK(capstan_run(world, &kept));
  CHECK(big[0] == 1e8F);
}
