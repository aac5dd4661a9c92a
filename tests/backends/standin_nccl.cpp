// SPDX-License-Identifier: Apache-2.0

// Stands in for NCCL and RCCL and, with standin_runtime.cpp, for the runtimes of CUDA and HIP:
// their functions by their names, for ranks that are threads of one process. Device memory is the
// host's; a stream is a thread that runs what is put into it in order, so that operations wait for
// the other ranks as on a device.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/backends/standin_streams.hpp"

namespace {

using standin::Stream;

constexpr int invalid_argument = 4;

/// The ranks of one communicator.
class World {
 public:
  explicit World(int ranks) : size(ranks), given(static_cast<std::size_t>(ranks)) {}

  /// Returns when all ranks are here: each shows the others a pointer.
  void meet(int rank, const void* pointer) {
    std::unique_lock lock{mutex_};
    if (pointer) given[static_cast<std::size_t>(rank)] = pointer;
    const std::uint64_t round = round_;
    if (++here_ == size) {
      here_ = 0;
      ++round_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, std::chrono::seconds{60},
                                  [&] { return round_ != round; })) {
      std::fputs("stand-in: a rank did not come\n", stderr);
      std::abort();
    }
  }
  void send(int from, int to, std::vector<char> data) {
    const std::lock_guard lock{mutex_};
    mail_[{from, to}].push_back(std::move(data));
    changed_.notify_all();
  }
  std::vector<char> receive(int from, int to) {
    std::unique_lock lock{mutex_};
    auto& mail = mail_[{from, to}];
    if (!changed_.wait_for(lock, std::chrono::seconds{60}, [&] { return !mail.empty(); }))
      std::abort();
    auto data = std::move(mail.front());
    mail.pop_front();
    return data;
  }
  std::shared_ptr<World> child(std::uint64_t number, int colour, int ranks) {
    const std::lock_guard lock{mutex_};
    auto& world = children_[{number, colour}];
    if (!world) world = std::make_shared<World>(ranks);
    return world;
  }

  const int size;
  std::vector<const void*> given;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
  std::uint64_t round_ = 0;
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> mail_;
  std::map<std::pair<std::uint64_t, int>, std::shared_ptr<World>> children_;
};

struct Comm {
  std::shared_ptr<World> world;
  int rank;
  std::uint64_t splits = 0;
};

struct Worlds {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<World>> all;
};
Worlds& worlds() {
  static auto& worlds = *new Worlds;
  return worlds;
}

std::size_t size_of(int type) {
  constexpr std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8};
  return sizes[type];
}

template <class T>
void combine(char* into, const void* from, std::size_t count, int op) {
  T* a = reinterpret_cast<T*>(into);
  const T* b = static_cast<const T*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    if (op == 1)
      a[i] = static_cast<T>(a[i] * b[i]);
    else if (op == 2)
      a[i] = std::max(a[i], b[i]);
    else if (op == 3)
      a[i] = std::min(a[i], b[i]);
    else
      a[i] = static_cast<T>(a[i] + b[i]);
  }
}
template <class T>
void divide(char* data, std::size_t count, int by) {
  T* a = reinterpret_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<T>(a[i] / static_cast<T>(by));
}

/// Calls body.template operator()<T>() for the C++ type of a number; false for others.
template <class Body>
bool for_type(int type, const Body& body) {
  switch (type) {
    case 0:
      return body.template operator()<std::int8_t>(), true;
    case 1:
      return body.template operator()<std::uint8_t>(), true;
    case 2:
      return body.template operator()<std::int32_t>(), true;
    case 3:
      return body.template operator()<std::uint32_t>(), true;
    case 4:
      return body.template operator()<std::int64_t>(), true;
    case 5:
      return body.template operator()<std::uint64_t>(), true;
    case 7:
      return body.template operator()<float>(), true;
    case 8:
      return body.template operator()<double>(), true;
    default:
      return false;
  }
}

thread_local std::string last_error;

int refuse(const char* text) {
  last_error = text;
  return invalid_argument;
}

bool is_type(int type) {
  return for_type(type, []<class T>() {});
}

/// `count` elements from `offset` on of all ranks' inputs, combined.
std::vector<char> combined(const World& world, std::size_t offset, std::size_t count, int type,
                           int op) {
  const std::size_t bytes = count * size_of(type), skip = offset * size_of(type);
  std::vector<char> result(bytes);
  for_type(type, [&]<class T>() {
    for (int rank = 0; rank < world.size; ++rank) {
      const char* from = static_cast<const char*>(world.given[static_cast<std::size_t>(rank)]);
      if (rank == 0 && bytes > 0)
        std::memcpy(result.data(), from + skip, bytes);
      else if (bytes > 0)
        combine<T>(result.data(), from + skip, count, op);
    }
    if (op == 4) divide<T>(result.data(), count, world.size);
  });
  return result;
}

/// Enqueues a collective: `result` reads what the ranks have shown, and is written to `out` when
/// all have read.
int collective(Comm* comm, void* stream, const void* in, void* out,
               std::function<std::vector<char>(const World&)> result) {
  static_cast<Stream*>(stream)->put([=, world = comm->world, rank = comm->rank] {
    world->meet(rank, in);
    const std::vector<char> data = result(*world);
    world->meet(rank, nullptr);
    if (!data.empty()) std::memcpy(out, data.data(), data.size());
  });
  return 0;
}

}  // namespace

struct UniqueId {
  char bytes[128];
};

EXPORT int ncclGetVersion(int* version) {
  *version = STANDIN_VERSION;
  return 0;
}
EXPORT int ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> number = 0;
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::snprintf(id->bytes, sizeof id->bytes, "stand-in %d", ++number);
  return 0;
}
EXPORT int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank) {
  if (std::strncmp(id.bytes, "stand-in", 8) != 0) return refuse("the unique id is not mine");
  std::shared_ptr<World> world;
  {
    const std::lock_guard lock{worlds().mutex};
    auto& entry = worlds().all[id.bytes];
    world = entry.lock();
    if (!world) entry = world = std::make_shared<World>(ranks);
  }
  world->meet(rank, nullptr);
  *comm = new Comm{world, rank};
  return 0;
}
EXPORT int ncclCommDestroy(void* comm) {
  return delete static_cast<Comm*>(comm), 0;
}
EXPORT int ncclCommAbort(void* comm) {
  return delete static_cast<Comm*>(comm), 0;
}
EXPORT int ncclCommGetAsyncError(void*, int* result) {
  return *result = 0;
}
EXPORT int ncclCommSplit(void* from, int colour, int key, void** made, void*) {
  auto& comm = *static_cast<Comm*>(from);
  const std::pair<int, int> mine{colour, key};
  comm.world->meet(comm.rank, &mine);
  int ranks = 0, before = 0;
  for (const void* pointer : comm.world->given) {
    const auto& other = *static_cast<const std::pair<int, int>*>(pointer);
    ranks += other.first == colour;
    before += other.first == colour && other.second < key;
  }
  *made = colour < 0 ? nullptr : new Comm{comm.world->child(comm.splits, colour, ranks), before};
  ++comm.splits;
  comm.world->meet(comm.rank, nullptr);
  return 0;
}
EXPORT const char* ncclGetErrorString(int) {
  return "invalid argument";
}
EXPORT const char* ncclGetLastError(void*) {
  return last_error.c_str();
}

EXPORT int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op, void* comm,
                         void* stream) {
  if (!is_type(type)) return refuse("the stand-in does not compute with this type");
  return collective(static_cast<Comm*>(comm), stream, in, out,
                    [=](const World& world) { return combined(world, 0, count, type, op); });
}
EXPORT int ncclReduce(const void* in, void* out, std::size_t count, int type, int op, int root,
                      void* comm, void* stream) {
  const bool gets = static_cast<Comm*>(comm)->rank == root;
  return collective(static_cast<Comm*>(comm), stream, in, out, [=](const World& world) {
    return gets ? combined(world, 0, count, type, op) : std::vector<char>{};
  });
}
EXPORT int ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int op,
                             void* comm, void* stream) {
  const auto rank = static_cast<std::size_t>(static_cast<Comm*>(comm)->rank);
  return collective(static_cast<Comm*>(comm), stream, in, out, [=](const World& world) {
    return combined(world, rank * count, count, type, op);
  });
}
EXPORT int ncclBroadcast(const void* in, void* out, std::size_t count, int type, int root,
                         void* comm, void* stream) {
  return collective(static_cast<Comm*>(comm), stream, in, out, [=](const World& world) {
    const char* from = static_cast<const char*>(world.given[static_cast<std::size_t>(root)]);
    return std::vector<char>(from, from + count * size_of(type));
  });
}
EXPORT int ncclAllGather(const void* in, void* out, std::size_t count, int type, void* comm,
                         void* stream) {
  return collective(static_cast<Comm*>(comm), stream, in, out, [=](const World& world) {
    std::vector<char> all;
    for (const void* given : world.given) {
      const char* from = static_cast<const char*>(given);
      all.insert(all.end(), from, from + count * size_of(type));
    }
    return all;
  });
}
EXPORT int ncclSend(const void* data, std::size_t count, int type, int peer, void* to,
                    void* stream) {
  const auto& comm = *static_cast<Comm*>(to);
  static_cast<Stream*>(stream)->put([=, world = comm.world, rank = comm.rank] {
    const char* from = static_cast<const char*>(data);
    world->send(rank, peer, {from, from + count * size_of(type)});
  });
  return 0;
}
EXPORT int ncclRecv(void* data, std::size_t count, int type, int peer, void* from, void* stream) {
  const auto& comm = *static_cast<Comm*>(from);
  static_cast<Stream*>(stream)->put([=, world = comm.world, rank = comm.rank] {
    const auto received = world->receive(peer, rank);
    std::memcpy(data, received.data(), std::min(received.size(), count * size_of(type)));
  });
  return 0;
}
