// SPDX-License-Identifier: Apache-2.0

/* Capstan in C: collectives and messages among ranks. C11 and C++.
 *
 * Every function returns CAPSTAN_OK or the code of what went wrong; capstan_last_error() has the
 * text. Results are written through pointers, and only with CAPSTAN_OK. Handles are opaque: create
 * them by the functions here and destroy each once. All functions are thread-safe, but destroy a
 * handle only while no other thread uses it. No C++ exception leaves a function.
 *
 * The interface is stable: functions, numbers and members keep their meaning. Structs whose first
 * member is `size` may grow at their end: start from the _INIT macro, which sets the size and
 * zeros, and set what you need.
 *
 * docs/c.md has an example; core/include/capstan has the promises in full (collectives.hpp,
 * communicator.hpp, work.hpp), which hold here, too. */
#ifndef CAPSTAN_H
#define CAPSTAN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CAPSTAN_C_API __attribute__((visibility("default")))
#else
#define CAPSTAN_C_API
#endif

/* Starts a struct that may grow: its size, and zeros. */
#if defined(__cplusplus) && __cplusplus < 202002L
#define CAPSTAN_INIT(type) {sizeof(type)}
#else
#define CAPSTAN_INIT(type) {.size = sizeof(type)}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- errors */

/* 0, or a number that never changes. A multiple of 100 is a kind of error; the numbers after it are
 * special cases. Take unknown numbers for number / 100 * 100. */
typedef int32_t capstan_status;
enum {
  CAPSTAN_OK = 0,
  CAPSTAN_INTERNAL = 1,
  CAPSTAN_INVALID_ARGUMENT = 100,
  CAPSTAN_NOT_SUPPORTED = 101,
  CAPSTAN_SYSTEM_ERROR = 200,
  CAPSTAN_LIMIT_REACHED = 300,
  CAPSTAN_BOOTSTRAP_FAILED = 400,
  CAPSTAN_JOIN_TIMED_OUT = 401,
  CAPSTAN_WRONG_SECRET = 402,
  CAPSTAN_PEER_LOST = 500, /* capstan_last_lost_rank() names the rank */
  CAPSTAN_TIMED_OUT = 600,
  CAPSTAN_MISMATCH = 700,
  CAPSTAN_TRUNCATED = 800,
  CAPSTAN_ABORTED = 900,
  CAPSTAN_CANCELLED = 1000,
  CAPSTAN_DEADLINE_EXCEEDED = 1100,
  CAPSTAN_OPERATION_FAILED = 1200
};

/* The last error of the calling thread: what happened, on which rank, in which call, and what to do
 * about it. Valid until the next error of this thread; success does not clear it. "" and CAPSTAN_OK
 * before the first. */
CAPSTAN_C_API const char* capstan_last_error(void);
CAPSTAN_C_API capstan_status capstan_last_status(void);
/* The rank that is gone, after CAPSTAN_PEER_LOST; else -1. */
CAPSTAN_C_API int32_t capstan_last_lost_rank(void);
/* "ok", "peer_lost", ...; "unknown" for other numbers. */
CAPSTAN_C_API const char* capstan_status_name(capstan_status status);

/* The version of the library that runs; each pointer may be null. */
CAPSTAN_C_API capstan_status capstan_version(int32_t* major, int32_t* minor, int32_t* patch);

/* ---------------------------------------------------------------- elements and operations */

typedef int32_t capstan_type;
enum {
  CAPSTAN_I8 = 0,
  CAPSTAN_U8 = 1,
  CAPSTAN_I32 = 2,
  CAPSTAN_U32 = 3,
  CAPSTAN_I64 = 4,
  CAPSTAN_U64 = 5,
  CAPSTAN_F16 = 6,  /* IEEE binary16 */
  CAPSTAN_BF16 = 7, /* the upper half of a binary32 */
  CAPSTAN_F32 = 8,
  CAPSTAN_F64 = 9,
  CAPSTAN_F8_E4M3 = 10,
  CAPSTAN_F8_E5M2 = 11,
  CAPSTAN_C64 = 12, /* complex numbers of two f32, and of two f64 */
  CAPSTAN_C128 = 13
};

typedef int32_t capstan_op;
enum {
  CAPSTAN_SUM = 0,
  CAPSTAN_PRODUCT = 1,
  CAPSTAN_MIN = 2,
  CAPSTAN_MAX = 3,
  CAPSTAN_AVERAGE = 4,
  CAPSTAN_BIT_AND = 5,
  CAPSTAN_BIT_OR = 6,
  CAPSTAN_BIT_XOR = 7,
  CAPSTAN_LOGICAL_AND = 8,
  CAPSTAN_LOGICAL_OR = 9,
  CAPSTAN_LOGICAL_XOR = 10
};

typedef int32_t capstan_collective;
enum {
  CAPSTAN_BARRIER = 0,
  CAPSTAN_BROADCAST = 1,
  CAPSTAN_REDUCE = 2,
  CAPSTAN_ALL_REDUCE = 3,
  CAPSTAN_ALL_GATHER = 4,
  CAPSTAN_REDUCE_SCATTER = 5,
  CAPSTAN_GATHER = 6,
  CAPSTAN_SCATTER = 7,
  CAPSTAN_ALL_TO_ALL = 8,
  CAPSTAN_SCAN = 9,
  CAPSTAN_EXSCAN = 10,
  CAPSTAN_ALL_GATHER_V = 11,
  CAPSTAN_REDUCE_SCATTER_V = 12,
  CAPSTAN_GATHER_V = 13,
  CAPSTAN_SCATTER_V = 14,
  CAPSTAN_ALL_TO_ALL_V = 15
};

/* "f32", "sum", "all_reduce"; "unknown" for other numbers. */
CAPSTAN_C_API const char* capstan_type_name(capstan_type type);
CAPSTAN_C_API const char* capstan_op_name(capstan_op op);
CAPSTAN_C_API const char* capstan_collective_name(capstan_collective collective);
/* The bytes of an element; 0 for other numbers. */
CAPSTAN_C_API size_t capstan_type_size(capstan_type type);

/* An operation of the program. */
typedef struct capstan_operation capstan_operation;
/* accumulator[i] = accumulator[i] combined with next[i], for `count` elements: those of lower ranks
 * come first. Called from any thread; must not call Capstan. */
typedef void (*capstan_accumulate)(void* accumulator, const void* next, size_t count,
                                   void* context);
/* `name` is equal on all ranks. The operation is associative; commutative or not (0). */
CAPSTAN_C_API capstan_status capstan_create_operation(const char* name, capstan_type type,
                                                      int32_t commutative,
                                                      capstan_accumulate accumulate, void* context,
                                                      capstan_operation** operation);
/* Calls that have started keep what they need, but not `context`. Null does nothing. */
CAPSTAN_C_API capstan_status capstan_destroy_operation(capstan_operation* operation);

/* ---------------------------------------------------------------- settings */

/* A setting that is 0 or null is the environment's (CAPSTAN_TIMEOUT, ...), or else the default.
 * core/include/capstan/settings.hpp explains each. */
enum { CAPSTAN_DEFAULT = 0, CAPSTAN_ON = 1, CAPSTAN_OFF = 2 };
enum {
  CAPSTAN_NETWORK_DEFAULT = 0,
  CAPSTAN_NETWORK_AUTO = 1,
  CAPSTAN_NETWORK_TCP = 2,
  CAPSTAN_NETWORK_OFI = 3,
  CAPSTAN_NETWORK_VERBS = 4
};
enum {
  CAPSTAN_BOOTSTRAP_DEFAULT = 0,
  CAPSTAN_BOOTSTRAP_AUTO = 1,
  CAPSTAN_BOOTSTRAP_TCP = 2,
  CAPSTAN_BOOTSTRAP_PMIX = 3,
  CAPSTAN_BOOTSTRAP_PMI = 4
};
enum {
  CAPSTAN_WIRE_DEFAULT = 0,
  CAPSTAN_WIRE_PLAIN = 1,
  CAPSTAN_WIRE_AUTHENTICATED = 2,
  CAPSTAN_WIRE_ENCRYPTED = 3
};
enum {
  CAPSTAN_GPU_DIRECT_DEFAULT = 0,
  CAPSTAN_GPU_DIRECT_DETECT = 1,
  CAPSTAN_GPU_DIRECT_ALWAYS = 2,
  CAPSTAN_GPU_DIRECT_NEVER = 3
};
enum {
  CAPSTAN_REPRODUCIBLE_DEFAULT = 0,
  CAPSTAN_REPRODUCIBLE_NONE = 1,
  CAPSTAN_REPRODUCIBLE_RUN = 2,
  CAPSTAN_REPRODUCIBLE_SHAPE = 3,
  CAPSTAN_REPRODUCIBLE_PLACEMENT = 4,
  CAPSTAN_REPRODUCIBLE_RANK_ORDER = 5
};
typedef struct capstan_settings {
  size_t size;
  double join_timeout; /* seconds */
  double timeout;      /* seconds */
  const char* algorithm;
  const char* interface;
  const char* tcp_congestion;
  const char* provider;
  const char* rdma_devices;
  const char* secret; /* for capstan_join_store */
  const char* faults;
  int32_t bootstrap; /* CAPSTAN_BOOTSTRAP_... */
  int32_t network;   /* CAPSTAN_NETWORK_... */
  int32_t rails;
  int32_t virtual_hosts;
  int32_t autotune; /* CAPSTAN_ON or CAPSTAN_OFF, as the next three */
  int32_t progress_thread;
  int32_t single_copy;
  int32_t huge_pages;
  uint64_t chunk; /* bytes, as the next three */
  uint64_t pinned_memory;
  uint64_t buffer_limit;
  uint64_t unexpected_messages; /* CAPSTAN_NO_BYTES: every send waits for its receive */
  const char* schedules;
  const char* profile;
  int32_t wire; /* CAPSTAN_WIRE_... */
  const char* save_profile;
  double proof_limit; /* seconds; CAPSTAN_PROOF_LIMIT_TRUST: longer ones run without a proof */
  int32_t prove;      /* CAPSTAN_ON or CAPSTAN_OFF, as the next one */
  int32_t device_executor;
  int32_t gpu_direct;   /* CAPSTAN_GPU_DIRECT_... */
  int32_t reproducible; /* CAPSTAN_REPRODUCIBLE_... */
} capstan_settings;
#define CAPSTAN_PROOF_LIMIT_TRUST 1e9
#define CAPSTAN_NO_BYTES UINT64_MAX
#define CAPSTAN_SETTINGS_INIT CAPSTAN_INIT(capstan_settings)

/* ---------------------------------------------------------------- communicators */

/* A fixed set of ranks that call collectives together, each with a handle of its own. All ranks
 * call the same collectives in the same order. */
typedef struct capstan_communicator capstan_communicator;

/* The world that a launcher has started: capstan run, mpirun, srun or torchrun; alone when there is
 * none. `settings` may be null. */
CAPSTAN_C_API capstan_status capstan_from_environment(const capstan_settings* settings,
                                                      capstan_communicator** communicator);

/* The id by which ranks find and trust each other: one rank makes it, the program passes it round.
 * Treat it as a password. */
typedef struct capstan_unique_id {
  unsigned char bytes[128];
} capstan_unique_id;
/* `address`: of this host, reached by all ranks; null: 127.0.0.1; empty: the one that other hosts
 * reach, as CAPSTAN_INTERFACE says. */
CAPSTAN_C_API capstan_status capstan_create_unique_id(const char* address, capstan_unique_id* id);
/* As text, for capstan_unique_id_from_text(): CAPSTAN_UNIQUE_ID_TEXT bytes with the final 0. */
enum { CAPSTAN_UNIQUE_ID_TEXT = 172 };
CAPSTAN_C_API capstan_status capstan_unique_id_to_text(const capstan_unique_id* id, char* text,
                                                       size_t bytes);
CAPSTAN_C_API capstan_status capstan_unique_id_from_text(const char* text, capstan_unique_id* id);
CAPSTAN_C_API capstan_status capstan_join(const capstan_unique_id* id, int32_t rank, int32_t size,
                                          const capstan_settings* settings,
                                          capstan_communicator** communicator);

/* A key-value store of the program, in which ranks meet. Functions return CAPSTAN_OK or an error,
 * CAPSTAN_TIMED_OUT when a wait ends in vain. Keys are text of up to 256 bytes, values any bytes up
 * to 64 KiB. Whoever can read the store can join, unless ranks share capstan_settings.secret. */
typedef struct capstan_store_value capstan_store_value;
typedef struct capstan_store {
  size_t size;
  void* context;
  /* On return every rank can read it. */
  capstan_status (*put)(void* context, const char* key, const void* value, size_t bytes);
  /* Waits until the key is there and passes its value to capstan_answer(). */
  capstan_status (*get)(void* context, const char* key, double seconds, capstan_store_value* value);
  /* Passes the value to capstan_answer() if the key is there now. */
  capstan_status (*try_get)(void* context, const char* key, capstan_store_value* value);
} capstan_store;
#define CAPSTAN_STORE_INIT CAPSTAN_INIT(capstan_store)
/* Only within get and try_get; the bytes are copied. */
CAPSTAN_C_API capstan_status capstan_answer(capstan_store_value* value, const void* data,
                                            size_t bytes);
/* The store is used until this returns. `prefix` (null: "capstan") serves one communicator. */
CAPSTAN_C_API capstan_status capstan_join_store(const capstan_store* store, int32_t rank,
                                                int32_t size, const char* prefix,
                                                const capstan_settings* settings,
                                                capstan_communicator** communicator);

/* A world of threads in this process: `communicators` has room for `ranks` handles, the n-th for
 * the n-th thread. */
CAPSTAN_C_API capstan_status capstan_local_world(int32_t ranks, const capstan_settings* settings,
                                                 capstan_communicator** communicators);

/* Waits for no peer; peers that still need this rank get CAPSTAN_PEER_LOST. What is pending ends
 * with CAPSTAN_ABORTED. Null does nothing. */
CAPSTAN_C_API capstan_status capstan_destroy(capstan_communicator* communicator);
/* Ends all that waits, on all ranks, with CAPSTAN_ABORTED and the reason. */
CAPSTAN_C_API capstan_status capstan_abort(capstan_communicator* communicator, const char* reason);
/* CAPSTAN_OK, or the failure that has ended the communicator, with its text in
 * capstan_last_error(). Waits for nothing. */
CAPSTAN_C_API capstan_status capstan_async_error(const capstan_communicator* communicator);

CAPSTAN_C_API capstan_status capstan_rank(const capstan_communicator* communicator, int32_t* rank);
CAPSTAN_C_API capstan_status capstan_size(const capstan_communicator* communicator, int32_t* size);
/* The rank in the world of a rank here, and back: -1 for a rank that is no member. */
CAPSTAN_C_API capstan_status capstan_world_rank(const capstan_communicator* communicator,
                                                int32_t rank, int32_t* world_rank);
CAPSTAN_C_API capstan_status capstan_rank_of(const capstan_communicator* communicator,
                                             int32_t world_rank, int32_t* rank);

/* Ranks of one colour form a group, in the order of key, then of rank. All ranks call it; a rank
 * with a negative colour, or that is not in the list of a subgroup, gets null. */
CAPSTAN_C_API capstan_status capstan_split(capstan_communicator* communicator, int32_t colour,
                                           int32_t key, capstan_communicator** group);
CAPSTAN_C_API capstan_status capstan_subgroup(capstan_communicator* communicator,
                                              const int32_t* ranks, size_t count,
                                              capstan_communicator** group);

/* The ranks that are left, in their order, whether the communicator has failed or not: after
 * CAPSTAN_PEER_LOST, or capstan_abort(). All ranks that live call it, but for the `count` ranks of
 * `excluded`, which may be null. Ranks that only cannot be reached may live: the larger part goes
 * on, the other gets CAPSTAN_PEER_LOST unless minority_continues is 1. */
CAPSTAN_C_API capstan_status capstan_shrink(capstan_communicator* communicator,
                                            const int32_t* excluded, size_t count,
                                            int32_t minority_continues,
                                            capstan_communicator** made);

/* Where the members of a communicator that grows meet the new ranks: by an id, which serves one
 * attempt, or by a name and a secret. See docs/failures.md. */
typedef struct capstan_meeting_place {
  size_t size;
  const capstan_unique_id* id;
  const char* name;   /* the job's, on the host of rank 0; or "NAME@HOST:PORT" of a member's host */
  const char* secret; /* goes with a name; null: the settings' one */
} capstan_meeting_place;
#define CAPSTAN_MEETING_PLACE_INIT CAPSTAN_INIT(capstan_meeting_place)
/* A communicator of these ranks, which keep their numbers, and `joiners` new ones. All ranks call
 * it; one at least passes the id, or all pass the same name; `place` of the others may be null. It
 * succeeds on all ranks or on none, and the communicator stays usable. */
CAPSTAN_C_API capstan_status capstan_grow(capstan_communicator* communicator, int32_t joiners,
                                          const capstan_meeting_place* place,
                                          capstan_communicator** made);
/* A new rank's part: waits for the members for up to join_timeout. `rank`: from the number of
 * members on; -1: the next that is free. */
CAPSTAN_C_API capstan_status capstan_join_growing(const capstan_meeting_place* place, int32_t rank,
                                                  const capstan_settings* settings,
                                                  capstan_communicator** communicator);

/* Memory that ranks on this host read in place; zeros. All ranks call it, each with bytes of its
 * own; 0 bytes give null. */
CAPSTAN_C_API capstan_status capstan_allocate(capstan_communicator* communicator, size_t bytes,
                                              void** memory);
/* Not while an operation uses the memory; after capstan_destroy() if need be. Null does nothing. */
CAPSTAN_C_API capstan_status capstan_free(void* memory);

/* ---------------------------------------------------------------- operations in the background */

/* An operation that capstan_start_...() has started. It uses its buffers until it has ended, also
 * if the handle goes before. */
typedef struct capstan_work capstan_work;

/* Returns when it has ended: CAPSTAN_OK, its error, or CAPSTAN_CANCELLED. */
CAPSTAN_C_API capstan_status capstan_wait(capstan_work* work);
/* The same for so many seconds (negative: no limit). *ended is 0 when the time has passed before,
 * and 1 otherwise, also beside the error of the operation. */
CAPSTAN_C_API capstan_status capstan_wait_for(capstan_work* work, double seconds, int32_t* ended);
/* Moves operations on without waiting; *ended as above. */
CAPSTAN_C_API capstan_status capstan_test(capstan_work* work, int32_t* ended);
/* *cancelled is 1: the buffers are free, and the operation has ended for this rank; peers get what
 * they expect. 0: it had ended, or a peer is using the buffers. */
CAPSTAN_C_API capstan_status capstan_cancel(capstan_work* work, int32_t* cancelled);
/* `index`: of one that has ended; `count` when the time passes before. Negative seconds: no limit.
 * The error of that operation is left to capstan_wait(). */
CAPSTAN_C_API capstan_status capstan_wait_any(capstan_work* const* works, size_t count,
                                              double seconds, size_t* index);
/* *ended is 1 when all have ended in time; they may have failed. */
CAPSTAN_C_API capstan_status capstan_wait_all(capstan_work* const* works, size_t count,
                                              double seconds, int32_t* ended);
/* Called once when it has ended, with its status and error text, on any thread or at once. */
typedef void (*capstan_callback)(void* context, capstan_status status, const char* error);
CAPSTAN_C_API capstan_status capstan_on_complete(capstan_work* work, capstan_callback callback,
                                                 void* context);
/* From now on the rank's operations move on while no thread waits, by a thread of the library. */
CAPSTAN_C_API capstan_status capstan_ensure_progress(capstan_work* work);
/* "all_reduce(1000 x f32, sum)"; valid as long as the handle. */
CAPSTAN_C_API const char* capstan_describe(const capstan_work* work);
/* Does not end the operation. Null does nothing. */
CAPSTAN_C_API capstan_status capstan_release(capstan_work* work);

/* ---------------------------------------------------------------- collectives
 *
 * p is the number of ranks, `count` the elements of the shorter buffer: of the whole one
 * (broadcast, reduce, all_reduce, scan, exscan), or of one block where the longer one holds p
 * blocks in the order of ranks. In place: input == output, or the shorter buffer being the rank's
 * own block of the longer one. Buffers that a rank does not use (the output of a reduce, but at the
 * root) may be null.
 *
 * _v forms: `counts` holds p lengths of blocks, the same on all ranks. */

CAPSTAN_C_API capstan_status capstan_barrier(capstan_communicator* communicator);
/* The root's input becomes every rank's output. */
CAPSTAN_C_API capstan_status capstan_broadcast(capstan_communicator* communicator,
                                               const void* input, void* output, size_t count,
                                               capstan_type type, int32_t root);
CAPSTAN_C_API capstan_status capstan_reduce(capstan_communicator* communicator, const void* input,
                                            void* output, size_t count, capstan_type type,
                                            capstan_op op, int32_t root);
CAPSTAN_C_API capstan_status capstan_all_reduce(capstan_communicator* communicator,
                                                const void* input, void* output, size_t count,
                                                capstan_type type, capstan_op op);
/* Output: p blocks of `count`. */
CAPSTAN_C_API capstan_status capstan_all_gather(capstan_communicator* communicator,
                                                const void* input, void* output, size_t count,
                                                capstan_type type);
/* Input: p blocks of `count`; rank r gets block r of the sum. */
CAPSTAN_C_API capstan_status capstan_reduce_scatter(capstan_communicator* communicator,
                                                    const void* input, void* output, size_t count,
                                                    capstan_type type, capstan_op op);
CAPSTAN_C_API capstan_status capstan_gather(capstan_communicator* communicator, const void* input,
                                            void* output, size_t count, capstan_type type,
                                            int32_t root);
CAPSTAN_C_API capstan_status capstan_scatter(capstan_communicator* communicator, const void* input,
                                             void* output, size_t count, capstan_type type,
                                             int32_t root);
/* Both are p blocks of `count`. */
CAPSTAN_C_API capstan_status capstan_all_to_all(capstan_communicator* communicator,
                                                const void* input, void* output, size_t count,
                                                capstan_type type);
/* Rank r gets the sum over ranks 0 .. r, or 0 .. r-1 (exscan; rank 0's output stays as it is). */
CAPSTAN_C_API capstan_status capstan_scan(capstan_communicator* communicator, const void* input,
                                          void* output, size_t count, capstan_type type,
                                          capstan_op op);
CAPSTAN_C_API capstan_status capstan_exscan(capstan_communicator* communicator, const void* input,
                                            void* output, size_t count, capstan_type type,
                                            capstan_op op);
CAPSTAN_C_API capstan_status capstan_all_gather_v(capstan_communicator* communicator,
                                                  const void* input, void* output,
                                                  const size_t* counts, capstan_type type);
CAPSTAN_C_API capstan_status capstan_reduce_scatter_v(capstan_communicator* communicator,
                                                      const void* input, void* output,
                                                      const size_t* counts, capstan_type type,
                                                      capstan_op op);
CAPSTAN_C_API capstan_status capstan_gather_v(capstan_communicator* communicator, const void* input,
                                              void* output, const size_t* counts, capstan_type type,
                                              int32_t root);
CAPSTAN_C_API capstan_status capstan_scatter_v(capstan_communicator* communicator,
                                               const void* input, void* output,
                                               const size_t* counts, capstan_type type,
                                               int32_t root);
/* The counts are those that this rank sends to each rank and receives from each; never in place. */
CAPSTAN_C_API capstan_status capstan_all_to_all_v(capstan_communicator* communicator,
                                                  const void* input, const size_t* send_counts,
                                                  void* output, const size_t* receive_counts,
                                                  capstan_type type);

/* The same in the background. */
CAPSTAN_C_API capstan_status capstan_start_barrier(capstan_communicator* communicator,
                                                   capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_broadcast(capstan_communicator* communicator,
                                                     const void* input, void* output, size_t count,
                                                     capstan_type type, int32_t root,
                                                     capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_reduce(capstan_communicator* communicator,
                                                  const void* input, void* output, size_t count,
                                                  capstan_type type, capstan_op op, int32_t root,
                                                  capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_all_reduce(capstan_communicator* communicator,
                                                      const void* input, void* output, size_t count,
                                                      capstan_type type, capstan_op op,
                                                      capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_all_gather(capstan_communicator* communicator,
                                                      const void* input, void* output, size_t count,
                                                      capstan_type type, capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_reduce_scatter(capstan_communicator* communicator,
                                                          const void* input, void* output,
                                                          size_t count, capstan_type type,
                                                          capstan_op op, capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_gather(capstan_communicator* communicator,
                                                  const void* input, void* output, size_t count,
                                                  capstan_type type, int32_t root,
                                                  capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_scatter(capstan_communicator* communicator,
                                                   const void* input, void* output, size_t count,
                                                   capstan_type type, int32_t root,
                                                   capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_all_to_all(capstan_communicator* communicator,
                                                      const void* input, void* output, size_t count,
                                                      capstan_type type, capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_scan(capstan_communicator* communicator,
                                                const void* input, void* output, size_t count,
                                                capstan_type type, capstan_op op,
                                                capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_exscan(capstan_communicator* communicator,
                                                  const void* input, void* output, size_t count,
                                                  capstan_type type, capstan_op op,
                                                  capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_all_gather_v(capstan_communicator* communicator,
                                                        const void* input, void* output,
                                                        const size_t* counts, capstan_type type,
                                                        capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_reduce_scatter_v(capstan_communicator* communicator,
                                                            const void* input, void* output,
                                                            const size_t* counts, capstan_type type,
                                                            capstan_op op, capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_gather_v(capstan_communicator* communicator,
                                                    const void* input, void* output,
                                                    const size_t* counts, capstan_type type,
                                                    int32_t root, capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_scatter_v(capstan_communicator* communicator,
                                                     const void* input, void* output,
                                                     const size_t* counts, capstan_type type,
                                                     int32_t root, capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_all_to_all_v(capstan_communicator* communicator,
                                                        const void* input,
                                                        const size_t* send_counts, void* output,
                                                        const size_t* receive_counts,
                                                        capstan_type type, capstan_work** work);

/* Any collective, with what the functions above have no arguments for: operations of the program,
 * scaled sums, and streams of devices. Lengths as above: `count`, or `counts` in the _v forms.
 *
 * A call with a stream begins when what is in the stream by then is done, and the stream continues
 * when the call has ended: capstan_run() returns at once. Buffers are memory of the stream's
 * device. The first call with a stream is collective. CUDA's default stream is (void*)1. Persistent
 * calls take none. */
typedef struct capstan_request {
  size_t size;
  capstan_collective collective;
  capstan_type type;
  const void* input;
  void* output;
  size_t count;
  const size_t* counts;         /* _v forms; all_to_all_v: what this rank sends */
  const size_t* receive_counts; /* all_to_all_v */
  capstan_op op;
  int32_t root;
  const capstan_operation* operation; /* instead of op */
  int32_t scales;                     /* 1: a sum of inputs times each rank's own factor */
  double factor;
  void* stream;         /* a cudaStream_t or hipStream_t, in whose order it runs; null: none */
  int32_t reproducible; /* CAPSTAN_REPRODUCIBLE_..., default: as the communicator */
} capstan_request;
#define CAPSTAN_REQUEST_INIT CAPSTAN_INIT(capstan_request)
CAPSTAN_C_API capstan_status capstan_run(capstan_communicator* communicator,
                                         const capstan_request* request);
CAPSTAN_C_API capstan_status capstan_start(capstan_communicator* communicator,
                                           const capstan_request* request, capstan_work** work);

/* A call that is described and checked once, and started again and again on the same buffers, as a
 * persistent collective of MPI. The communicator and the buffers outlive it. It is started when the
 * operation before has ended, and used by one thread at a time; waits without one return at once.
 * capstan_destroy_persistent() waits for nothing: its operation continues. */
typedef struct capstan_persistent capstan_persistent;
CAPSTAN_C_API capstan_status capstan_create_persistent(capstan_communicator* communicator,
                                                       const capstan_request* request,
                                                       capstan_persistent** persistent);
CAPSTAN_C_API capstan_status capstan_start_persistent(capstan_persistent* persistent);
CAPSTAN_C_API capstan_status capstan_wait_persistent(capstan_persistent* persistent);
CAPSTAN_C_API capstan_status capstan_test_persistent(capstan_persistent* persistent,
                                                     int32_t* ended);
CAPSTAN_C_API capstan_status capstan_destroy_persistent(capstan_persistent* persistent);

/* An array of any number of dimensions; strides count elements, null: dense, the last dimension
 * runs fastest. Device types are DLPack's; 0 is the host, too. */
typedef struct capstan_tensor {
  void* data;
  capstan_type type;
  int32_t dimensions;
  const int64_t* shape;
  const int64_t* strides;
  int32_t device_type;
  int32_t device;
} capstan_tensor;
/* One input and one output, which differ in length along `dimension` where ranks have blocks.
 * Without an output, all_reduce (several inputs of one type travel as one), broadcast, all_to_all,
 * scan and exscan are in place. Barriers, and collectives with a length per rank, have none. */
typedef struct capstan_tensor_request {
  size_t size;
  capstan_collective collective;
  const capstan_tensor* inputs;
  size_t input_count;
  const capstan_tensor* outputs;
  size_t output_count;
  capstan_op op;
  int32_t root;
  int32_t dimension;
  const capstan_operation* operation;
  int32_t scales;
  double factor;
  int32_t reproducible; /* CAPSTAN_REPRODUCIBLE_..., default: as the communicator */
} capstan_tensor_request;
#define CAPSTAN_TENSOR_REQUEST_INIT CAPSTAN_INIT(capstan_tensor_request)
CAPSTAN_C_API capstan_status capstan_run_tensors(capstan_communicator* communicator,
                                                 const capstan_tensor_request* request);
CAPSTAN_C_API capstan_status capstan_start_tensors(capstan_communicator* communicator,
                                                   const capstan_tensor_request* request,
                                                   capstan_work** work);

/* ---------------------------------------------------------------- messages between two ranks */

enum { CAPSTAN_ANY_SOURCE = -1, CAPSTAN_ANY_TAG = -1 };
typedef struct capstan_message_info {
  int32_t source;
  int32_t tag;
  size_t bytes;
} capstan_message_info;
/* One of an exchange. */
typedef struct capstan_message {
  int32_t sends; /* 1: to `peer`; 0: from it, or CAPSTAN_ANY_SOURCE */
  int32_t peer;
  int32_t tag;
  capstan_type type;
  void* data; /* a send only reads it */
  size_t count;
} capstan_message;

CAPSTAN_C_API capstan_status capstan_send(capstan_communicator* communicator, const void* data,
                                          size_t count, capstan_type type, int32_t destination,
                                          int32_t tag);
/* `info` may be null. A message that is longer than the buffer is CAPSTAN_TRUNCATED. */
CAPSTAN_C_API capstan_status capstan_receive(capstan_communicator* communicator, void* buffer,
                                             size_t count, capstan_type type, int32_t source,
                                             int32_t tag, capstan_message_info* info);
CAPSTAN_C_API capstan_status capstan_start_send(capstan_communicator* communicator,
                                                const void* data, size_t count, capstan_type type,
                                                int32_t destination, int32_t tag,
                                                capstan_work** work);
CAPSTAN_C_API capstan_status capstan_start_receive(capstan_communicator* communicator, void* buffer,
                                                   size_t count, capstan_type type, int32_t source,
                                                   int32_t tag, capstan_work** work);
/* The message that a receive has got, after its end; else CAPSTAN_INVALID_ARGUMENT. */
CAPSTAN_C_API capstan_status capstan_received(const capstan_work* work, capstan_message_info* info);
/* All at once: no order can deadlock. */
CAPSTAN_C_API capstan_status capstan_exchange(capstan_communicator* communicator,
                                              const capstan_message* messages, size_t count);
CAPSTAN_C_API capstan_status capstan_start_exchange(capstan_communicator* communicator,
                                                    const capstan_message* messages, size_t count,
                                                    capstan_work** work);
/* The same in the order of a stream, as capstan_run() with one: returns at once. */
CAPSTAN_C_API capstan_status capstan_exchange_in_stream(capstan_communicator* communicator,
                                                        const capstan_message* messages,
                                                        size_t count, void* stream);
/* The message that a receive would get: waits for it, or sets *found to 0 when there is none now.
 */
CAPSTAN_C_API capstan_status capstan_probe(capstan_communicator* communicator, int32_t source,
                                           int32_t tag, capstan_message_info* info);
CAPSTAN_C_API capstan_status capstan_try_probe(capstan_communicator* communicator, int32_t source,
                                               int32_t tag, int32_t* found,
                                               capstan_message_info* info);

/* ---------------------------------------------------------------- algorithms of the program */

/* Adds the algorithm of a schedule file (docs/schedule-files.md), given as text, to the process; it
 * is proven first. Rules name it as they name built-in ones (capstan_settings.algorithm,
 * capstan_with_algorithm). Every rank adds the same. `source` stands for the file in errors (null:
 * "json"). Gives the collective and the name of the algorithm, which capstan_free_text() frees;
 * either may be null. CAPSTAN_INVALID_ARGUMENT for text that is wrong and for schedules whose proof
 * fails: the last error names the place, or rank and step. */
CAPSTAN_C_API capstan_status capstan_algorithm_from_json(const char* json, const char* source,
                                                         capstan_collective* collective,
                                                         char** name);
/* The same for files, and folders of files *.json, with commas between them. */
CAPSTAN_C_API capstan_status capstan_add_schedules(const char* paths);
/* A communicator of the same ranks whose calls run by these rules, for example "all_reduce:ring".
 * All ranks call it with the same rules. */
CAPSTAN_C_API capstan_status capstan_with_algorithm(capstan_communicator* communicator,
                                                    const char* rules, capstan_communicator** made);
/* A communicator of the same ranks whose sums keep this promise, CAPSTAN_REPRODUCIBLE_... All ranks
 * call it with the same one; CAPSTAN_REPRODUCIBLE_DEFAULT is run. */
CAPSTAN_C_API capstan_status capstan_with_reproducible(capstan_communicator* communicator,
                                                       int32_t promise,
                                                       capstan_communicator** made);

/* ---------------------------------------------------------------- what it does and why */

typedef int32_t capstan_format;
enum { CAPSTAN_TEXT = 0, CAPSTAN_JSON = 1 };
/* The algorithm and protocol of a call, and the reason: one line, or a JSON object with
 * "collective", "type", "count", "ranks", "algorithm" and "explanation". Free it by
 * capstan_free_text(). Buffers are not touched. */
CAPSTAN_C_API capstan_status capstan_explain(const capstan_communicator* communicator,
                                             const capstan_request* request, capstan_format format,
                                             char** text);
/* A report of what this rank does and knows of the others now: operations that have not ended, the
 * ranks that they wait for, in which step and since when (docs/reports.md). Text or JSON. Free it
 * by capstan_free_text(). Any thread may ask, also while another one waits, and after a failure. */
CAPSTAN_C_API capstan_status capstan_report(const capstan_communicator* communicator,
                                            capstan_format format, char** text);
CAPSTAN_C_API capstan_status capstan_free_text(char* text);

#ifdef __cplusplus
}
#endif

#endif
