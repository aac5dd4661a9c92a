// SPDX-License-Identifier: Apache-2.0

/* The names that the files of the program of one rank share. */
#ifndef RANKS_H
#define RANKS_H

#include "check.h"

enum { MOST_RANKS = 8, MOST = 5000 };

extern int32_t rank, size;
extern int32_t *in, *out; /* MOST_RANKS * MOST elements each */

/* Fills `in` with values that are distinct for each rank and index, and `out` with -1. */
void fill(size_t count);

void names(void);
void collectives(capstan_communicator* world);
void join_in_store(capstan_communicator* world);
void algorithms_of_the_program(capstan_communicator* world);

#endif
