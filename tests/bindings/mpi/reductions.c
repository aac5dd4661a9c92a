// SPDX-License-Identifier: Apache-2.0

/* Every reduction of every predefined type and operation, and of operations of the program. */
#include <complex.h>
#include <stdbool.h>

#include "told.h"

/* The classes by which MPI defines operations. */
enum kind { integers = 1, others = 64, reals = 2, complexes = 4, logicals = 8, bytes = 16, pairs = 32 };

struct element {
  const char* name;
  enum kind kind;
  size_t size;
  void (*set)(void* at, int value);
  double (*get)(const void* at); /* one number for all of it */
};

#define NUMBER(suffix, T)                                                  \
  static void set_##suffix(void* at, int value) { *(T*)at = (T)value; }    \
  static double get_##suffix(const void* at) { return (double)*(const T*)at; }
NUMBER(i8, int8_t) NUMBER(u8, uint8_t) NUMBER(i16, int16_t) NUMBER(u16, uint16_t)
NUMBER(i32, int32_t) NUMBER(u32, uint32_t) NUMBER(i64, int64_t) NUMBER(u64, uint64_t)
NUMBER(f32, float) NUMBER(f64, double) NUMBER(f80, long double)

static void set_bool(void* at, int value) { *(bool*)at = value % 3 != 0; }
static double get_bool(const void* at) { return *(const bool*)at; }
static void set_logical(void* at, int value) { *(int*)at = value % 3 != 0; }
static double get_logical(const void* at) { return *(const int*)at != 0; }

#define COMPLEX(suffix, T)                                                                      \
  static void set_##suffix(void* at, int value) {                                               \
    ((T*)at)[0] = (T)value, ((T*)at)[1] = (T)(value % 3);                                       \
  }                                                                                             \
  static double get_##suffix(const void* at) {                                                  \
    return (double)((const T*)at)[0] * 1e6 + (double)((const T*)at)[1];                         \
  }
COMPLEX(c64, float) COMPLEX(c128, double) COMPLEX(c256, long double)

#define PAIR(suffix, T)                                                                         \
  struct pair_##suffix { T value; int index; };                                                 \
  static void set_##suffix(void* at, int value) {                                               \
    struct pair_##suffix* pair = at;                                                            \
    pair->value = (T)(value % 4), pair->index = world_rank * 10 + value % 5;                    \
  }                                                                                             \
  static double get_##suffix(const void* at) {                                                  \
    const struct pair_##suffix* pair = at;                                                      \
    return (double)pair->value * 1e6 + pair->index;                                             \
  }
PAIR(float_int, float) PAIR(double_int, double) PAIR(long_int, long) PAIR(two_int, int)
PAIR(short_int, short) PAIR(long_double_int, long double)

struct type {
  MPI_Datatype type;
  struct element element;
};
struct operation {
  MPI_Op op;
  const char* name;
  int classes;
};

#define TYPE(type, kind, T, suffix) {type, {#type, kind, sizeof(T), set_##suffix, get_##suffix}}

static int types(struct type** all) {
  static struct type table[40];
  const struct type rows[] = {
      TYPE(MPI_CHAR, integers, int8_t, i8), /* not in the standard, and every MPI has it */
      TYPE(MPI_SIGNED_CHAR, integers, int8_t, i8),
      TYPE(MPI_UNSIGNED_CHAR, integers, uint8_t, u8),
      TYPE(MPI_SHORT, integers, int16_t, i16),
      TYPE(MPI_UNSIGNED_SHORT, integers, uint16_t, u16),
      TYPE(MPI_INT, integers, int32_t, i32),
      TYPE(MPI_UNSIGNED, integers, uint32_t, u32),
      TYPE(MPI_LONG, integers, int64_t, i64),
      TYPE(MPI_UNSIGNED_LONG, integers, uint64_t, u64),
      TYPE(MPI_LONG_LONG_INT, integers, int64_t, i64),
      TYPE(MPI_INT16_T, integers, int16_t, i16),
      TYPE(MPI_UINT64_T, integers, uint64_t, u64),
      TYPE(MPI_AINT, others, int64_t, i64),
      TYPE(MPI_COUNT, others, int64_t, i64),
      TYPE(MPI_OFFSET, others, int64_t, i64),
      TYPE(MPI_FLOAT, reals, float, f32),
      TYPE(MPI_DOUBLE, reals, double, f64),
      TYPE(MPI_LONG_DOUBLE, reals, long double, f80),
      TYPE(MPI_C_FLOAT_COMPLEX, complexes, float _Complex, c64),
      TYPE(MPI_C_DOUBLE_COMPLEX, complexes, double _Complex, c128),
      TYPE(MPI_C_LONG_DOUBLE_COMPLEX, complexes, long double _Complex, c256),
      TYPE(MPI_C_BOOL, logicals, bool, bool),
      TYPE(MPI_LOGICAL, logicals, int, logical),
      TYPE(MPI_INTEGER, others, int32_t, i32),
      TYPE(MPI_DOUBLE_PRECISION, reals, double, f64),
      TYPE(MPI_BYTE, bytes, uint8_t, u8),
      TYPE(MPI_FLOAT_INT, pairs, struct pair_float_int, float_int),
      TYPE(MPI_DOUBLE_INT, pairs, struct pair_double_int, double_int),
      TYPE(MPI_LONG_INT, pairs, struct pair_long_int, long_int),
      TYPE(MPI_2INT, pairs, struct pair_two_int, two_int),
      TYPE(MPI_SHORT_INT, pairs, struct pair_short_int, short_int),
      TYPE(MPI_LONG_DOUBLE_INT, pairs, struct pair_long_double_int, long_double_int),
  };
  memcpy(table, rows, sizeof rows);
  *all = table;
  return (int)(sizeof rows / sizeof *rows);
}

/* Runs every reduction with one type and operation, and adds what it got to a digest. */
struct call {
  MPI_Comm comm;
  int rank, size, root, count;
  enum form form;
  int in_place;
  int ordered; /* the operation's order counts */
};

#ifdef MPICH_VERSION
enum { writes_beyond_buffers = 4 }; /* MPI_Reduce_scatter_block of 4.0.2, where the order counts */
#else
enum { writes_beyond_buffers = -1 };
#endif

static void* filled(const struct element* element, int rank, int count) {
  char* made = calloc((size_t)count + 1, element->size);
  for (int i = 0; i < count; ++i)
    element->set(made + (size_t)i * element->size, number_at(rank, i));
  return made;
}

static void look(struct digest* digest, const struct element* element, const void* data,
                 int count) {
  for (int i = 0; i < count; ++i)
    add_number(digest, element->get((const char*)data + (size_t)i * element->size));
}

static void run_all(struct digest* digest, const struct call* call, const struct element* element,
                    MPI_Datatype type, MPI_Op op) {
  const int n = call->count, p = call->size, all = n * p;
  int* counts = malloc(sizeof(int) * (size_t)p);
  int total = 0;
  for (int i = 0; i < p; ++i) total += counts[i] = n / 2 + (i * 3 + n) % (n + 1);
  const int longest = all > total ? all : total;
  for (int which = 0; which < 6; ++which) {
    if (call->ordered && which == writes_beyond_buffers) continue;
    void* in = filled(element, call->rank, longest);
    void* out = filled(element, call->rank, longest);
    const void* from = call->in_place ? MPI_IN_PLACE : in;
    switch (which) {
      case 0:
        RUN(call->form, Allreduce, allreduce, from, out, n, type, op, call->comm);
        look(digest, element, out, n);
        break;
      case 1:
        if (call->rank != call->root) from = in;
        RUN(call->form, Reduce, reduce, from, out, n, type, op, call->root, call->comm);
        if (call->rank == call->root) look(digest, element, out, n);
        break;
      case 2:
        RUN(call->form, Scan, scan, from, out, n, type, op, call->comm);
        look(digest, element, out, n);
        break;
      case 3:
        RUN(call->form, Exscan, exscan, from, out, n, type, op, call->comm);
        if (call->rank > 0) look(digest, element, out, n);
        break;
      case 4:
        RUN(call->form, Reduce_scatter_block, reduce_scatter_block, from, out, n, type, op,
            call->comm);
        look(digest, element, out, n);
        break;
      default:
        RUN(call->form, Reduce_scatter, reduce_scatter, from, out, counts, type, op, call->comm);
        look(digest, element, out, counts[call->rank]);
    }
    free(in);
    free(out);
  }
  free(counts);
}

static void predefined(enum form form) {
  const struct operation operations[] = {
      {MPI_SUM, "sum", integers | others | reals | complexes},
      {MPI_PROD, "product", integers | others | reals | complexes},
      {MPI_MIN, "min", integers | others | reals},
      {MPI_MAX, "max", integers | others | reals},
      {MPI_LAND, "land", integers | logicals},
      {MPI_LOR, "lor", integers | logicals},
      {MPI_LXOR, "lxor", integers | logicals},
      {MPI_BAND, "band", integers | others | bytes},
      {MPI_BOR, "bor", integers | others | bytes},
      {MPI_BXOR, "bxor", integers | others | bytes},
      {MPI_MINLOC, "minloc", pairs},
      {MPI_MAXLOC, "maxloc", pairs},
  };
  /* MPICH 4.0.2 ends with a segmentation fault in an MPI_Reduce in place from 2 KiB on. */
  const int counts[] = {7, 61, 0, 1, world_size - 1};
  const size_t used = form == blocking ? sizeof counts / sizeof *counts : 1;
  struct type* all;
  const int many = types(&all);
  for (int t = 0; t < many; ++t)
    for (size_t o = 0; o < sizeof operations / sizeof *operations; ++o) {
      if (!(operations[o].classes & (int)all[t].element.kind)) continue;
      struct digest digest = new_digest();
      for (size_t c = 0; c < used; ++c) {
        const int in_place = (int)(c + (size_t)t + o) % 2;
        const struct call call = {MPI_COMM_WORLD, world_rank, world_size,
                                  (int)c % world_size, counts[c], form, in_place, 0};
        run_all(&digest, &call, &all[t].element, all[t].type, operations[o].op);
      }
      char text[100];
      snprintf(text, sizeof text, "%s%s %s", form_names[form], all[t].element.name,
               operations[o].name);
      tell(text, digest);
    }
}

/* Matrices of 2 x 2 modulo 10007: an operation whose order counts. */
struct matrix {
  int at[4];
};
static MPI_Datatype handed_over[8];
static int number_handed_over, seen_other;

static void multiply(void* in, void* inout, int* count, MPI_Datatype* type) {
  int known = 0;
  for (int i = 0; i < number_handed_over; ++i) known |= handed_over[i] == *type;
  seen_other += !known;
  MPI_Aint lower, extent;
  MPI_Type_get_extent(*type, &lower, &extent);
  for (int i = 0; i < *count; ++i) {
    const struct matrix* a = (const void*)((char*)in + i * extent);
    struct matrix* b = (void*)((char*)inout + i * extent);
    struct matrix c;
    for (int r = 0; r < 2; ++r)
      for (int k = 0; k < 2; ++k)
        c.at[2 * r + k] = (int)(((long)a->at[2 * r] * b->at[k] +
                                 (long)a->at[2 * r + 1] * b->at[2 + k]) % 10007);
    *b = c;
  }
}

static void set_matrix(void* at, int value) {
  struct matrix* matrix = at;
  for (int i = 0; i < 4; ++i) matrix->at[i] = value + i * i;
}
static double get_matrix(const void* at) {
  const struct matrix* matrix = at;
  return matrix->at[0] + 1e4 * matrix->at[1] + 1e8 * matrix->at[2] + 1e12 * matrix->at[3];
}

static void absolute_sum(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((double*)inout)[i] += ((double*)in)[i];
}

/* Operations of the program: on a run of a type, on one with a gap, and on a predefined one. */
static void of_the_program(enum form form) {
  const struct element plain = {"matrix", integers, sizeof(struct matrix), set_matrix, get_matrix};
  const struct element wide = {"wide", integers, 32, set_matrix, get_matrix};
  const struct element number = {"double", reals, sizeof(double), set_f64, get_f64};
  MPI_Datatype run, gaps, inner;
  MPI_Type_contiguous(4, MPI_INT, &run);
  MPI_Type_contiguous(4, MPI_INT, &inner);
  MPI_Type_create_resized(inner, 0, 32, &gaps);
  MPI_Type_commit(&run);
  MPI_Type_commit(&gaps);
  MPI_Type_free(&inner);
  handed_over[0] = run, handed_over[1] = gaps, number_handed_over = 2;
  MPI_Op ordered, sum;
  MPI_Op_create(multiply, 0, &ordered);
  MPI_Op_create(absolute_sum, 1, &sum);
  const int counts[] = {0, 1, 5, 61};
  struct digest first = new_digest(), second = new_digest(), third = new_digest();
  for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c)
    for (int in_place = 0; in_place < 2; ++in_place) {
      struct call call = {MPI_COMM_WORLD, world_rank, world_size, 0, counts[c], form, in_place, 1};
      run_all(&first, &call, &plain, run, ordered);
      run_all(&second, &call, &wide, gaps, ordered);
      call.ordered = 0;
      run_all(&third, &call, &number, MPI_DOUBLE, sum);
    }
  tell("an operation whose order counts", first);
  tell("the same with gaps", second);
  tell("a sum of the program", third);
  /* All are freed while a call may still need them. */
  MPI_Request request;
  struct matrix in, out;
  set_matrix(&in, number_at(world_rank, 3));
  MPI_Iallreduce(&in, &out, 1, run, ordered, MPI_COMM_WORLD, &request);
  MPI_Op_free(&ordered);
  MPI_Type_free(&run);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  struct digest last = new_digest();
  add_number(&last, get_matrix(&out));
  add_number(&last, ordered == MPI_OP_NULL && run == MPI_DATATYPE_NULL);
  tell("freed in use", last);
  MPI_Op_free(&sum);
  MPI_Type_free(&gaps);
}

int main(int count, char** arguments) {
  begin(&count, &arguments);
  MPI_Barrier(MPI_COMM_WORLD);
  for (enum form form = blocking; form <= LAST_FORM; ++form) {
    predefined(form);
    of_the_program(form);
  }
  struct digest seen = new_digest();
  add_number(&seen, seen_other);
  tell("types that operations were handed", seen);
  MPI_Finalize();
  return 0;
}
