// SPDX-License-Identifier: Apache-2.0

/* Every collective that moves data: counts, roots, in place, offsets in any order, derived types,
   and communicators of all kinds. */
#include "told.h"

static MPI_Datatype reversed, strided, shifted;

/* Types of four ints: in reverse order, with gaps, and beginning before the address. */
static void make_types(void) {
  const int back[] = {3, 2, 1, 0};
  MPI_Type_create_indexed_block(4, 1, back, MPI_INT, &reversed);
#if MPI_VERSION >= 4 /* which tells of a type with wide counts in functions of its own */
  MPI_Type_vector_c(4, 1, 2, MPI_INT, &strided);
#else
  MPI_Type_vector(4, 1, 2, MPI_INT, &strided);
#endif
  const int lengths[] = {2, 2};
  const MPI_Aint offsets[] = {-4, 8};
  const MPI_Datatype ints[] = {MPI_INT, MPI_INT};
  MPI_Datatype inner;
  MPI_Type_create_struct(2, lengths, offsets, ints, &inner);
  MPI_Type_create_resized(inner, -4, 28, &shifted);
  MPI_Type_free(&inner);
  MPI_Type_commit(&reversed);
  MPI_Type_commit(&strided);
  MPI_Type_commit(&shifted);
}

/* One way of describing the same data: `per` ints of a block's `count` ints are an element. */
struct way {
  const char* name;
  MPI_Datatype type;
  int per, extent; /* in ints, of an element */
};

enum { border = 4, longest = 500 };

/* Buffers with a border, so that what is written beside the data shows. */
static int* in_memory;
static int* out_memory;

/* The ints that blocks of n elements may reach. */
static int used_by(int n, int size) { return (n + size + 4) * size * 8 + 2 * border; }

static void fill(int rank, int ints) {
  for (int i = 0; i < ints; ++i) in_memory[i] = number_at(rank, i) * 1000 + rank;
  for (int i = 0; i < ints; ++i) out_memory[i] = -number_at(rank, i + 1);
}

struct place {
  MPI_Comm comm;
  int rank, size;
};

/* Runs every collective with blocks of `n` elements. `receive` differs from `send` on odd ranks, to
   which other types describe the same data. */
static void run_all(struct digest* digest, struct place at, enum form form, int n, int root,
                    const struct way* send, const struct way* receive, int in_place) {
  int* const in = in_memory + border;
  int* const out = out_memory + border;
  const int p = at.size, r = at.rank;
  const int sent = n * (4 / send->per), received = n * (4 / receive->per);
  int *counts = malloc(sizeof(int) * (size_t)p), *offsets = malloc(sizeof(int) * (size_t)p);
  int *to = malloc(sizeof(int) * (size_t)p), *to_offsets = malloc(sizeof(int) * (size_t)p);
  int *from = malloc(sizeof(int) * (size_t)p), *from_offsets = malloc(sizeof(int) * (size_t)p);
  MPI_Datatype *sent_types = malloc(sizeof *sent_types * (size_t)p),
               *received_types = malloc(sizeof *received_types * (size_t)p);
  /* Blocks of _v forms have n + i elements, or none, and lie in the reverse order. */
  for (int i = 0; i < p; ++i) {
    counts[i] = i % 3 == 1 ? 0 : (n + i) * (4 / receive->per);
    offsets[i] = (p - 1 - i) * (n + p) * (4 / receive->per);
    to[i] = (n + (r + i) % 3) * (4 / send->per);
    to_offsets[i] = i * (n + 3) * (4 / send->per);
    from[i] = (n + (r + i) % 3) * (4 / receive->per);
    from_offsets[i] = (p - 1 - i) * (n + 3) * (4 / receive->per);
  }
  const int own = r % 3 == 1 ? 0 : (n + r) * (4 / send->per);
  const int ints = used_by(n, p);
  for (int which = 0; which < 9; ++which) {
    fill(r, ints);
    const int here = in_place && (r == root || (which != 1 && which != 2 && which != 5 && which != 6));
    const void* const sends = here && which != 2 && which != 6 ? MPI_IN_PLACE : in;
    void* const receives = here && (which == 2 || which == 6) ? MPI_IN_PLACE : out;
    switch (which) {
      case 0:
        RUN(form, Bcast, bcast, r == root ? in : out, r == root ? sent : received,
            r == root ? send->type : receive->type, root, at.comm);
        break;
      case 1:
        RUN(form, Gather, gather, sends, sent, send->type, out, received, receive->type, root,
            at.comm);
        break;
      case 2:
        RUN(form, Scatter, scatter, in, sent, send->type, receives, received, receive->type, root,
            at.comm);
        break;
      case 3:
        RUN(form, Allgather, allgather, sends, sent, send->type, out, received, receive->type,
            at.comm);
        break;
      case 4:
        RUN(form, Alltoall, alltoall, sends, sent, send->type, out, received, receive->type,
            at.comm);
        break;
      case 5:
        RUN(form, Gatherv, gatherv, sends, own, send->type, out, r == root ? counts : NULL,
            r == root ? offsets : NULL, receive->type, root, at.comm);
        break;
      case 6: {
        for (int i = 0; i < p; ++i) {
          counts[i] = i % 3 == 1 ? 0 : (n + i) * (4 / send->per);
          offsets[i] = (p - 1 - i) * (n + p) * (4 / send->per);
        }
        RUN(form, Scatterv, scatterv, in, r == root ? counts : NULL, r == root ? offsets : NULL,
            send->type, receives, own * send->per / receive->per, receive->type, root, at.comm);
        break;
      }
      case 7: {
        for (int i = 0; i < p; ++i) {
          counts[i] = i % 3 == 1 ? 0 : (n + i) * (4 / receive->per);
          offsets[i] = (p - 1 - i) * (n + p) * (4 / receive->per);
        }
        RUN(form, Allgatherv, allgatherv, sends, own, send->type, out, counts, offsets,
            receive->type, at.comm);
        break;
      }
      default:
        RUN(form, Alltoallv, alltoallv, sends, to, to_offsets, send->type, out, from, from_offsets,
            receive->type, at.comm);
        add_bytes(digest, out_memory, sizeof(int) * (size_t)ints);
        for (int i = 0; i < p; ++i) {
          sent_types[i] = send->type, received_types[i] = receive->type;
          from_offsets[i] *= receive->extent * (int)sizeof(int);
          to_offsets[i] *= send->extent * (int)sizeof(int);
        }
        RUN(form, Alltoallw, alltoallw, sends, to, to_offsets, sent_types, out, from, from_offsets,
            received_types, at.comm);
    }
    add_bytes(digest, out_memory, sizeof(int) * (size_t)ints);
  }
  free(counts), free(offsets), free(to), free(to_offsets), free(from), free(from_offsets);
  free(sent_types), free(received_types);
}

static struct place place_in(MPI_Comm comm) {
  struct place at = {comm, 0, 1};
  MPI_Comm_rank(comm, &at.rank);
  MPI_Comm_size(comm, &at.size);
  return at;
}

static void types_and_counts(enum form form) {
  const struct way ways[] = {{"ints", MPI_INT, 1, 1},
                             {"reversed", reversed, 4, 4},
                             {"strided", strided, 4, 7},
                             {"shifted", shifted, 4, 7}};
  const int counts[] = {0, 1, 5, longest};
  const struct place at = place_in(MPI_COMM_WORLD);
  for (int s = 0; s < 4; ++s)
    for (int c = 0; c < (form == blocking ? 4 : 2); ++c)
      for (int root = 0; root < (c < 2 ? world_size : 1); ++root) {
        struct digest digest = new_digest();
        const struct way* other = &ways[(s + world_rank % 2) % 4];
        run_all(&digest, at, form, counts[c], root, &ways[s], other, 0);
        run_all(&digest, at, form, counts[c], root, other, &ways[s], 0);
        run_all(&digest, at, form, counts[c], root, &ways[s], &ways[s], 1);
        char text[100];
        snprintf(text, sizeof text, "%s%s, %d elements, root %d", form_names[form], ways[s].name,
                 counts[c], root);
        tell(text, digest);
      }
}

static void on(const char* name, MPI_Comm comm, struct digest* digest) {
  const struct way ints = {"ints", MPI_INT, 1, 1};
  (void)name;
  if (comm == MPI_COMM_NULL) return;
  const struct place at = place_in(comm);
  for (int root = 0; root < at.size; ++root)
    run_all(digest, at, (enum form)(root % 2), 3, root, &ints, &ints, 0);
}

static void communicators(void) {
  MPI_Comm made[8];
  const char* const names[] = {"a duplicate", "halves", "the reverse order", "a part",
                               "a grid", "itself alone", "a duplicate of a half"};
  MPI_Group world, part;
  const int range[1][3] = {{0, world_size - 2 > 0 ? world_size - 2 : 0, 1}};
  const int dimensions[] = {world_size}, periods[] = {1};
  MPI_Comm_dup(MPI_COMM_WORLD, &made[0]);
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &made[1]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &made[2]);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_range_incl(world, 1, (int(*)[3])range, &part);
  MPI_Comm_create(MPI_COMM_WORLD, part, &made[3]);
  MPI_Cart_create(MPI_COMM_WORLD, 1, dimensions, periods, 1, &made[4]);
  MPI_Comm_dup(MPI_COMM_SELF, &made[5]);
  MPI_Comm_dup(made[1], &made[6]);
  for (int i = 0; i < 7; ++i) {
    struct digest digest = new_digest();
    on(names[i], made[i], &digest);
    if (made[i] != MPI_COMM_NULL) MPI_Comm_free(&made[i]);
    tell(names[i], digest);
  }
  MPI_Group_free(&world);
  MPI_Group_free(&part);
}

/* An intercommunicator between even and odd ranks: MPI's own. */
static void between_groups(void) {
  if (world_size < 2) return;
  MPI_Comm half, both;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank % 2, 5, &both);
  int sum = 0;
  MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, both);
  struct digest digest = new_digest();
  add_number(&digest, sum);
  MPI_Comm merged;
  MPI_Intercomm_merge(both, world_rank % 2, &merged);
  MPI_Scan(&world_rank, &sum, 1, MPI_INT, MPI_SUM, merged);
  add_number(&digest, sum);
  tell("between groups, and merged", digest);
  MPI_Comm_free(&half);
  MPI_Comm_free(&both);
  MPI_Comm_free(&merged);
}

/* Data at absolute addresses. */
static void at_the_bottom(void) {
  int value = world_rank == 0 ? 4711 : 0;
  MPI_Aint address;
  MPI_Get_address(&value, &address);
  MPI_Datatype there;
  MPI_Type_create_hindexed_block(1, 1, &address, MPI_INT, &there);
  MPI_Type_commit(&there);
  MPI_Bcast(MPI_BOTTOM, 1, there, 0, MPI_COMM_WORLD);
  struct digest digest = new_digest();
  add_number(&digest, value);
  tell("MPI_BOTTOM", digest);
  MPI_Type_free(&there);
}

/* Many communicators, each used and freed. */
static void many_communicators(int number) {
  struct digest digest = new_digest();
  for (int i = 0; i < number; ++i) {
    MPI_Comm made;
    MPI_Comm_split(MPI_COMM_WORLD, i % 3 == 0 ? 0 : world_rank % 2, world_rank, &made);
    int sum = 0;
    MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, made);
    add_number(&digest, sum);
    MPI_Comm_free(&made);
  }
  tell("many communicators", digest);
}

int main(int count, char** arguments) {
  begin(&count, &arguments);
  in_memory = malloc(sizeof(int) * (size_t)used_by(longest, world_size));
  out_memory = malloc(sizeof(int) * (size_t)used_by(longest, world_size));
  MPI_Barrier(MPI_COMM_WORLD);
  make_types();
  for (enum form form = blocking; form <= LAST_FORM; ++form) types_and_counts(form);
  communicators();
  between_groups();
  at_the_bottom();
  many_communicators(count > 1 ? atoi(arguments[1]) : 30);
  MPI_Type_free(&reversed);
  MPI_Type_free(&strided);
  MPI_Type_free(&shifted);
  MPI_Finalize();
  return 0;
}
