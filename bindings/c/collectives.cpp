// SPDX-License-Identifier: Apache-2.0

// The named collectives: each is a request.

#include "bindings/c/capstan.h"

// Members that a collective does not use stay zero.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

capstan_status capstan_barrier(capstan_communicator* communicator) {
  const capstan_request request{.size = sizeof(capstan_request), .collective = CAPSTAN_BARRIER};
  return capstan_run(communicator, &request);
}

capstan_status capstan_broadcast(capstan_communicator* communicator, const void* input,
                                 void* output, size_t count, capstan_type type, int32_t root) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_BROADCAST,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .root = root};
  return capstan_run(communicator, &request);
}

capstan_status capstan_reduce(capstan_communicator* communicator, const void* input, void* output,
                              size_t count, capstan_type type, capstan_op op, int32_t root) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_REDUCE,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op,
                                .root = root};
  return capstan_run(communicator, &request);
}

capstan_status capstan_all_reduce(capstan_communicator* communicator, const void* input,
                                  void* output, size_t count, capstan_type type, capstan_op op) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_REDUCE,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op};
  return capstan_run(communicator, &request);
}

capstan_status capstan_all_gather(capstan_communicator* communicator, const void* input,
                                  void* output, size_t count, capstan_type type) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_GATHER,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count};
  return capstan_run(communicator, &request);
}

capstan_status capstan_reduce_scatter(capstan_communicator* communicator, const void* input,
                                      void* output, size_t count, capstan_type type,
                                      capstan_op op) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_REDUCE_SCATTER,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op};
  return capstan_run(communicator, &request);
}

capstan_status capstan_gather(capstan_communicator* communicator, const void* input, void* output,
                              size_t count, capstan_type type, int32_t root) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_GATHER,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .root = root};
  return capstan_run(communicator, &request);
}

capstan_status capstan_scatter(capstan_communicator* communicator, const void* input, void* output,
                               size_t count, capstan_type type, int32_t root) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_SCATTER,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .root = root};
  return capstan_run(communicator, &request);
}

capstan_status capstan_all_to_all(capstan_communicator* communicator, const void* input,
                                  void* output, size_t count, capstan_type type) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_TO_ALL,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count};
  return capstan_run(communicator, &request);
}

capstan_status capstan_scan(capstan_communicator* communicator, const void* input, void* output,
                            size_t count, capstan_type type, capstan_op op) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_SCAN,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op};
  return capstan_run(communicator, &request);
}

capstan_status capstan_exscan(capstan_communicator* communicator, const void* input, void* output,
                              size_t count, capstan_type type, capstan_op op) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_EXSCAN,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op};
  return capstan_run(communicator, &request);
}

capstan_status capstan_all_gather_v(capstan_communicator* communicator, const void* input,
                                    void* output, const size_t* counts, capstan_type type) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_GATHER_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = counts};
  return capstan_run(communicator, &request);
}

capstan_status capstan_reduce_scatter_v(capstan_communicator* communicator, const void* input,
                                        void* output, const size_t* counts, capstan_type type,
                                        capstan_op op) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_REDUCE_SCATTER_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = counts,
                                .op = op};
  return capstan_run(communicator, &request);
}

capstan_status capstan_gather_v(capstan_communicator* communicator, const void* input, void* output,
                                const size_t* counts, capstan_type type, int32_t root) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_GATHER_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = counts,
                                .root = root};
  return capstan_run(communicator, &request);
}

capstan_status capstan_scatter_v(capstan_communicator* communicator, const void* input,
                                 void* output, const size_t* counts, capstan_type type,
                                 int32_t root) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_SCATTER_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = counts,
                                .root = root};
  return capstan_run(communicator, &request);
}

capstan_status capstan_all_to_all_v(capstan_communicator* communicator, const void* input,
                                    const size_t* send_counts, void* output,
                                    const size_t* receive_counts, capstan_type type) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_TO_ALL_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = send_counts,
                                .receive_counts = receive_counts};
  return capstan_run(communicator, &request);
}

capstan_status capstan_start_barrier(capstan_communicator* communicator, capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request), .collective = CAPSTAN_BARRIER};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_broadcast(capstan_communicator* communicator, const void* input,
                                       void* output, size_t count, capstan_type type, int32_t root,
                                       capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_BROADCAST,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .root = root};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_reduce(capstan_communicator* communicator, const void* input,
                                    void* output, size_t count, capstan_type type, capstan_op op,
                                    int32_t root, capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_REDUCE,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op,
                                .root = root};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_all_reduce(capstan_communicator* communicator, const void* input,
                                        void* output, size_t count, capstan_type type,
                                        capstan_op op, capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_REDUCE,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_all_gather(capstan_communicator* communicator, const void* input,
                                        void* output, size_t count, capstan_type type,
                                        capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_GATHER,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_reduce_scatter(capstan_communicator* communicator, const void* input,
                                            void* output, size_t count, capstan_type type,
                                            capstan_op op, capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_REDUCE_SCATTER,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_gather(capstan_communicator* communicator, const void* input,
                                    void* output, size_t count, capstan_type type, int32_t root,
                                    capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_GATHER,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .root = root};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_scatter(capstan_communicator* communicator, const void* input,
                                     void* output, size_t count, capstan_type type, int32_t root,
                                     capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_SCATTER,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .root = root};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_all_to_all(capstan_communicator* communicator, const void* input,
                                        void* output, size_t count, capstan_type type,
                                        capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_TO_ALL,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_scan(capstan_communicator* communicator, const void* input,
                                  void* output, size_t count, capstan_type type, capstan_op op,
                                  capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_SCAN,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_exscan(capstan_communicator* communicator, const void* input,
                                    void* output, size_t count, capstan_type type, capstan_op op,
                                    capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_EXSCAN,
                                .type = type,
                                .input = input,
                                .output = output,
                                .count = count,
                                .op = op};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_all_gather_v(capstan_communicator* communicator, const void* input,
                                          void* output, const size_t* counts, capstan_type type,
                                          capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_GATHER_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = counts};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_reduce_scatter_v(capstan_communicator* communicator, const void* input,
                                              void* output, const size_t* counts, capstan_type type,
                                              capstan_op op, capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_REDUCE_SCATTER_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = counts,
                                .op = op};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_gather_v(capstan_communicator* communicator, const void* input,
                                      void* output, const size_t* counts, capstan_type type,
                                      int32_t root, capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_GATHER_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = counts,
                                .root = root};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_scatter_v(capstan_communicator* communicator, const void* input,
                                       void* output, const size_t* counts, capstan_type type,
                                       int32_t root, capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_SCATTER_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = counts,
                                .root = root};
  return capstan_start(communicator, &request, work);
}

capstan_status capstan_start_all_to_all_v(capstan_communicator* communicator, const void* input,
                                          const size_t* send_counts, void* output,
                                          const size_t* receive_counts, capstan_type type,
                                          capstan_work** work) {
  const capstan_request request{.size = sizeof(capstan_request),
                                .collective = CAPSTAN_ALL_TO_ALL_V,
                                .type = type,
                                .input = input,
                                .output = output,
                                .counts = send_counts,
                                .receive_counts = receive_counts};
  return capstan_start(communicator, &request, work);
}
