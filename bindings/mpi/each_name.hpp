// SPDX-License-Identifier: Apache-2.0

// Expands NAME(name) for each function of names.hpp, in its order. It has no guard, as it is
// included wherever the list is needed. NAME is undefined afterwards.
#define COUNTLESS(Name, name, text) NAME(Name) NAME(I##name) NAME(Name##_init)
#define COLLECTIVE(Name, name, text) \
  NAME(Name) NAME(I##name) NAME(Name##_init) NAME(Name##_c) NAME(I##name##_c) NAME(Name##_init_c)
#define FUNCTION(Name) NAME(Name)
#include "bindings/mpi/names.hpp"
#undef COUNTLESS
#undef COLLECTIVE
#undef FUNCTION
#undef NAME
