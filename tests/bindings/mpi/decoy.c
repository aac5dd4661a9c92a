// SPDX-License-Identifier: Apache-2.0

/* A library that has the name of an MPI's and nothing else, and a program that links it. */
int main(void) { return 0; }
