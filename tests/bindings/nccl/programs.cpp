// SPDX-License-Identifier: Apache-2.0

// Programs for NCCL as its users write them: with the header and the run-time library of CUDA, here
// the stand-in. Each is one of the ways in which NVIDIA's examples use NCCL.
// Usage: programs WAY

#include <cuda_runtime.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#define NCCL(call) check(call, ncclSuccess, #call, ncclGetLastError(nullptr))
#define CUDA(call) check(call, cudaSuccess, #call, cudaGetErrorString(cudaGetLastError()))

namespace {

constexpr std::size_t count = 50'000;

template <class Result>
void check(Result result, Result good, const char* call, const char* text) {
  if (result == good) return;
  std::fprintf(stderr, "%s: %d: %s\n", call, static_cast<int>(result), text);
  std::_Exit(1);
}

void check(bool right, const char* what) {
  if (!right) check(1, 0, what, "is wrong");
}

int devices() {
  int number = 0;
  CUDA(cudaGetDeviceCount(&number));
  return number;
}

float value(int rank, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 3 + i) % 7);
}

/// Buffers of one rank on its device, and a stream.
struct Rank {
  Rank(int device, std::size_t sent, std::size_t received, bool by_nccl = false) : nccl(by_nccl) {
    CUDA(cudaSetDevice(device));
    CUDA(cudaStreamCreate(&stream));
    for (const auto& [buffer, size] : {std::pair{&send, sent}, std::pair{&receive, received}}) {
      void* memory = nullptr;
      if (nccl)
        NCCL(ncclMemAlloc(&memory, size * sizeof(float)));
      else
        CUDA(cudaMalloc(&memory, size * sizeof(float)));
      *buffer = static_cast<float*>(memory);
    }
    std::vector<float> host(sent);
    for (std::size_t i = 0; i < sent; ++i) host[i] = value(device, i);
    CUDA(cudaMemcpy(send, host.data(), sent * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemset(receive, 0, received * sizeof(float)));
  }
  Rank(const Rank&) = delete;
  ~Rank() {
    for (float* const buffer : {send, receive}) {
      if (nccl)
        NCCL(ncclMemFree(buffer));
      else
        CUDA(cudaFree(buffer));
    }
    CUDA(cudaStreamDestroy(stream));
  }

  std::vector<float> received(std::size_t size) const {
    std::vector<float> host(size);
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaMemcpy(host.data(), receive, size * sizeof(float), cudaMemcpyDeviceToHost));
    return host;
  }

  bool nccl;
  cudaStream_t stream = nullptr;
  float *send = nullptr, *receive = nullptr;
};

void check_sums(const Rank& rank, int ranks) {
  const auto sums = rank.received(count);
  for (std::size_t i = 0; i < count; ++i) {
    float expected = 0;
    for (int r = 0; r < ranks; ++r) expected += value(r, i);
    check(sums[i] == expected, "a sum");
  }
}

void finish(ncclComm_t comm) {
  NCCL(ncclCommFinalize(comm));
  NCCL(ncclCommDestroy(comm));
}

/// One process and one thread for all devices.
std::vector<ncclComm_t> all_communicators() {
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(devices()));
  NCCL(ncclCommInitAll(comms.data(), devices(), nullptr));
  for (int r = 0; r < devices(); ++r) {
    int rank = -1, size = -1, device = -1;
    const ncclComm_t comm = comms[static_cast<std::size_t>(r)];
    NCCL(ncclCommUserRank(comm, &rank));
    NCCL(ncclCommCount(comm, &size));
    NCCL(ncclCommCuDevice(comm, &device));
    check(rank == r && size == devices() && device == r, "rank, size and device");
  }
  return comms;
}

void all_from_one_process() {
  for (ncclComm_t comm : all_communicators()) finish(comm);
}

/// A communicator of `ranks` by an id, then `body`.
void with_communicator(ncclUniqueId id, int rank, int ranks,
                       const std::function<void(ncclComm_t)>& body) {
  CUDA(cudaSetDevice(rank));
  ncclComm_t comm = nullptr;
  NCCL(ncclCommInitRank(&comm, ranks, id, rank));
  body(comm);
  finish(comm);
}

void on_threads(const std::function<void(ncclComm_t, int)>& body) {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < devices(); ++rank)
    threads.emplace_back([&, rank] {
      with_communicator(id, rank, devices(), [&](ncclComm_t comm) { body(comm, rank); });
    });
  for (std::thread& thread : threads) thread.join();
}

void sum(ncclComm_t comm, int device) {
  const Rank rank{device, count, count};
  NCCL(ncclAllReduce(rank.send, rank.receive, count, ncclFloat, ncclSum, comm, rank.stream));
  check_sums(rank, devices());
}

void one_per_thread() {
  on_threads(sum);
}

/// The id goes through a pipe, as it does through MPI elsewhere.
void one_per_process() {
  int pipe[2];
  check(::pipe(pipe) == 0, "a pipe");
  std::vector<pid_t> children;
  const int ranks = devices();
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    ncclUniqueId id;
    if (rank == 0) {
      NCCL(ncclGetUniqueId(&id));
      for (int other = 1; other < ranks; ++other)
        check(::write(pipe[1], &id, sizeof id) == sizeof id, "writing the id");
    } else {
      check(::read(pipe[0], &id, sizeof id) == sizeof id, "reading the id");
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    CUDA(cudaSetDevice(rank));
    ncclComm_t comm = nullptr;
    NCCL(ncclCommInitRankConfig(&comm, ranks, id, rank, &config));
    sum(comm, rank);
    finish(comm);
    std::exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    check(::waitpid(child, &status, 0) == child && status == 0, "a process");
  }
}

void ring_of_messages() {
  const auto comms = all_communicators();
  const auto ranks = static_cast<int>(comms.size());
  std::deque<Rank> all;
  for (int r = 0; r < ranks; ++r) all.emplace_back(r, count, count);
  NCCL(ncclGroupStart());
  for (int r = 0; r < ranks; ++r) {
    const Rank& rank = all[static_cast<std::size_t>(r)];
    const ncclComm_t comm = comms[static_cast<std::size_t>(r)];
    NCCL(ncclSend(rank.send, count, ncclFloat, (r + 1) % ranks, comm, rank.stream));
    NCCL(ncclRecv(rank.receive, count, ncclFloat, (r + ranks - 1) % ranks, comm, rank.stream));
  }
  NCCL(ncclGroupEnd());
  for (int r = 0; r < ranks; ++r) {
    const auto data = all[static_cast<std::size_t>(r)].received(count);
    for (std::size_t i = 0; i < count; ++i)
      check(data[i] == value((r + ranks - 1) % ranks, i), "a message");
  }
  for (ncclComm_t comm : comms) finish(comm);
}

void all_reduce_in_a_group() {
  const auto comms = all_communicators();
  std::deque<Rank> all;
  for (int r = 0; r < devices(); ++r) all.emplace_back(r, count, count);
  NCCL(ncclGroupStart());
  for (std::size_t r = 0; r < comms.size(); ++r)
    NCCL(ncclAllReduce(all[r].send, all[r].receive, count, ncclFloat, ncclSum, comms[r],
                       all[r].stream));
  NCCL(ncclGroupEnd());
  for (const Rank& rank : all) check_sums(rank, static_cast<int>(comms.size()));
  for (ncclComm_t comm : comms) finish(comm);
}

void registered_buffers() {
  on_threads([](ncclComm_t comm, int device) {
    const Rank rank{device, count, count, true};
    void *send = nullptr, *receive = nullptr;
    NCCL(ncclCommRegister(comm, rank.send, count * sizeof(float), &send));
    NCCL(ncclCommRegister(comm, rank.receive, count * sizeof(float), &receive));
    NCCL(ncclAllReduce(rank.send, rank.receive, count, ncclFloat, ncclSum, comm, rank.stream));
    check_sums(rank, devices());
    NCCL(ncclCommDeregister(comm, send));
    NCCL(ncclCommDeregister(comm, receive));
  });
}

/// A window may be null: the library has none, and the call works as without it.
void with_windows(ncclComm_t comm, const Rank& rank, std::size_t received,
                  const std::function<void()>& call) {
  ncclWindow_t send = nullptr, receive = nullptr;
  NCCL(ncclCommWindowRegister(comm, rank.send, count * sizeof(float), &send,
                              NCCL_WIN_COLL_SYMMETRIC));
  NCCL(ncclCommWindowRegister(comm, rank.receive, received * sizeof(float), &receive,
                              NCCL_WIN_COLL_SYMMETRIC));
  call();
  CUDA(cudaStreamSynchronize(rank.stream));
  NCCL(ncclCommWindowDeregister(comm, send));
  NCCL(ncclCommWindowDeregister(comm, receive));
}

void all_reduce_in_windows() {
  on_threads([](ncclComm_t comm, int device) {
    const Rank rank{device, count, count, true};
    with_windows(comm, rank, count, [&] {
      NCCL(ncclAllReduce(rank.send, rank.receive, count, ncclFloat, ncclSum, comm, rank.stream));
    });
    check_sums(rank, devices());
  });
}

void all_gather_in_windows() {
  on_threads([](ncclComm_t comm, int device) {
    const std::size_t all = count * static_cast<std::size_t>(devices());
    const Rank rank{device, count, all, true};
    with_windows(comm, rank, all, [&] {
      NCCL(ncclAllGather(rank.send, rank.receive, count, ncclFloat, comm, rank.stream));
    });
    const auto data = rank.received(all);
    for (std::size_t i = 0; i < all; ++i)
      check(data[i] == value(static_cast<int>(i / count), i % count), "a block");
  });
}

/// Objects that a program leaves behind: freed after main, in the wrong order, with work under way.
struct Left {
  ~Left() {
    for (cudaStream_t stream : streams) CUDA(cudaStreamDestroy(stream));
    for (ncclComm_t comm : comms) NCCL(ncclCommDestroy(comm));
  }
  std::vector<ncclComm_t> comms;
  std::vector<cudaStream_t> streams;
};

void work_at_exit() {
  static float data = 1;
  static Left left;
  left.comms = all_communicators();
  left.streams.resize(left.comms.size());
  for (int r = 0; r < devices(); ++r) {
    const auto index = static_cast<std::size_t>(r);
    CUDA(cudaSetDevice(r));
    CUDA(cudaStreamCreate(&left.streams[index]));
    if (r > 0)  // rank 0 never makes the call: the others wait for it until the process has ended
      NCCL(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, left.comms[index],
                         left.streams[index]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> ways = {{"AllFromOneProcess", all_from_one_process},
                                                  {"OnePerThread", one_per_thread},
                                                  {"OnePerProcess", one_per_process},
                                                  {"RingOfMessages", ring_of_messages},
                                                  {"AllReduceInAGroup", all_reduce_in_a_group},
                                                  {"RegisteredBuffers", registered_buffers},
                                                  {"AllReduceInWindows", all_reduce_in_windows},
                                                  {"AllGatherInWindows", all_gather_in_windows},
                                                  {"WorkAtExit", work_at_exit}};
  const auto way = ways.find(argc == 2 ? argv[1] : "");
  if (way == ways.end()) {
    std::fprintf(stderr, "usage: programs WAY, which is one of\n");
    for (const auto& [name, run] : ways) std::fprintf(stderr, "  %s\n", name.c_str());
    return 2;
  }
  way->second();
  std::puts("right");
}
