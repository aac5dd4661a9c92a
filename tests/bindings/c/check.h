// SPDX-License-Identifier: Apache-2.0

/* Checks that end the program with the line that is wrong. */
#ifndef CHECK_H
#define CHECK_H

#include <capstan.h>
#include <stdio.h>
#include <stdlib.h>

static inline void fail_at(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: %s; last error: %s\n", file, line, what, capstan_last_error());
  exit(1);
}

#define CHECK(condition)                                       \
  do {                                                         \
    if (!(condition)) fail_at(__FILE__, __LINE__, #condition); \
  } while (0)
#define OK(call) CHECK((call) == CAPSTAN_OK)

#endif
