// SPDX-License-Identifier: Apache-2.0

// The functions of MPI that the door serves: the one table from which the jumps of the stub and the
// table of the implementations are made. A collective has six forms: MPI_Name, MPI_Iname,
// MPI_Name_init, and each again for counts of any length, as MPI_Name_c. Alltoallw moves like an
// all_to_all_v. The last column is the name that CAPSTAN_MPI and the report have for it.
//
//   COUNTLESS(Name, name, text)    a collective without counts, which has no forms that end in _c
//   COLLECTIVE(Name, name, text)   one with counts
//   FUNCTION(Name)                 any other function

// clang-format off
COUNTLESS(Barrier, barrier, barrier)
COLLECTIVE(Bcast, bcast, broadcast)
COLLECTIVE(Reduce, reduce, reduce)
COLLECTIVE(Allreduce, allreduce, all_reduce)
COLLECTIVE(Gather, gather, gather)
COLLECTIVE(Gatherv, gatherv, gather_v)
COLLECTIVE(Scatter, scatter, scatter)
COLLECTIVE(Scatterv, scatterv, scatter_v)
COLLECTIVE(Allgather, allgather, all_gather)
COLLECTIVE(Allgatherv, allgatherv, all_gather_v)
COLLECTIVE(Alltoall, alltoall, all_to_all)
COLLECTIVE(Alltoallv, alltoallv, all_to_all_v)
COLLECTIVE(Alltoallw, alltoallw, all_to_all_w)
COLLECTIVE(Reduce_scatter, reduce_scatter, reduce_scatter_v)
COLLECTIVE(Reduce_scatter_block, reduce_scatter_block, reduce_scatter)
COLLECTIVE(Scan, scan, scan)
COLLECTIVE(Exscan, exscan, exscan)

FUNCTION(Init)
FUNCTION(Init_thread)
FUNCTION(Finalize)
FUNCTION(Error_string)
FUNCTION(Op_free)
FUNCTION(Type_free)
FUNCTION(Start)
FUNCTION(Startall)
FUNCTION(Request_free)
FUNCTION(Request_get_status)
FUNCTION(Wait)
FUNCTION(Waitall)
FUNCTION(Waitany)
FUNCTION(Waitsome)
FUNCTION(Test)
FUNCTION(Testall)
FUNCTION(Testany)
FUNCTION(Testsome)
// clang-format on
