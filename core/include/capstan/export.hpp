// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus < 202002L
#error "Capstan's headers need C++20: compile with -std=c++20 or later"
#endif

/// Stands before the name of the namespace in each public header: what is declared there is exported by
/// a shared library, with the types of its errors, so that a program can catch them. Nothing else is.
#define CAPSTAN_EXPORT __attribute__((visibility("default")))
