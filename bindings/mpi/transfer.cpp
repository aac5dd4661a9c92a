// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "capstan/error.hpp"

namespace capstan::mpi {
namespace {

Collective collective_of(Kind kind) {
  switch (kind) {
    case Kind::bcast:
      return Collective::broadcast;
    case Kind::reduce:
      return Collective::reduce;
    case Kind::allreduce:
      return Collective::all_reduce;
    case Kind::gather:
      return Collective::gather;
    case Kind::scatter:
      return Collective::scatter;
    case Kind::allgather:
      return Collective::all_gather;
    case Kind::allgatherv:
      return Collective::all_gather_v;
    case Kind::alltoall:
      return Collective::all_to_all;
    case Kind::reduce_scatter:
      return Collective::reduce_scatter_v;
    case Kind::reduce_scatter_block:
      return Collective::reduce_scatter;
    case Kind::scan:
      return Collective::scan;
    case Kind::exscan:
      return Collective::exscan;
    default:
      return Collective::barrier;
  }
}

}  // namespace

Transfer::Transfer(const Arguments& a, const Reduction* reduction, Place place) : place_(place) {
  describe(a, reduction);
  if (!is_exchange_ && !a.send.in_place() && !a.receive.in_place() && a.kind != Kind::bcast)
    separate();
}

std::size_t Transfer::bytes_of(Elements count) const {
  const auto& user = request_.reducer.user();
  const std::size_t width = reduces(request_.collective) && user ? user->width : 1;
  return count.value() * size_of(request_.type).value() * width;
}

/// Buffers that share memory though the program has not said MPI_IN_PLACE: some MPIs let it pass.
void Transfer::separate() {
  const auto* const from = static_cast<const std::byte*>(request_.input);
  auto* const to = static_cast<std::byte*>(request_.output);
  const std::size_t sent = bytes_of(request_.input_count);
  const std::size_t received = bytes_of(request_.output_count);
  const std::less<> before;
  if (!from || !to || !before(from, to + received) || !before(to, from + sent)) return;
  request_.output = memory(received);
  results_.push_back({{to, static_cast<MPI_Count>(received), bytes_layout()},
                      static_cast<const std::byte*>(request_.output)});
}

void Transfer::describe(const Arguments& a, const Reduction* by) {
  request_.collective = collective_of(a.kind);
  request_.root = a.root;
  switch (a.kind) {
    case Kind::barrier:
    case Kind::count:
      return;
    case Kind::bcast:
      return broadcast(a);
    case Kind::reduce:
    case Kind::allreduce:
    case Kind::scan:
    case Kind::exscan:
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_block:
      return reduction(a, *by);
    case Kind::allgather:
      return all_gather(a);
    case Kind::allgatherv:
      return all_gather_v(a);
    case Kind::gather:
      return gather(a);
    case Kind::scatter:
      return scatter(a);
    case Kind::alltoall:
      return all_to_all(a);
    case Kind::gatherv:
      return gather_v(a);
    case Kind::scatterv:
      return scatter_v(a);
    case Kind::alltoallv:
    case Kind::alltoallw:
      return all_to_all_v(a);
  }
}

/// A side whose blocks, one for each of so many ranks, follow one another.
Transfer::Run Transfer::run(const Side& side, int blocks) const {
  return {side.buffer, side.count * blocks, layout_of(side.type)};
}

/// The block of a rank, in a side that has counts and offsets.
Transfer::Run Transfer::block(const Side& side, int peer) {
  const Layout layout = layout_of(side.types ? side.types[peer] : side.type);
  const std::ptrdiff_t offset = side.offsets[peer] * (side.types ? 1 : layout.extent);
  return {static_cast<std::byte*>(side.buffer) + offset, side.counts[peer], layout};
}

std::byte* Transfer::memory(std::size_t bytes) {
  memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return memory_.back().get();
}

/// The data of a run, one after another.
const std::byte* Transfer::reading(const Run& run) {
  if (run.layout.direct || run.bytes() == 0) return first_byte(run.start, run.layout);
  std::byte* const packed = memory(run.bytes());
  pack(run.start, run.count, run.layout, packed);
  return packed;
}

/// Memory for the data of a run, which finish() brings there.
std::byte* Transfer::writing(const Run& run) {
  if (run.layout.direct || run.bytes() == 0) return first_byte(run.start, run.layout);
  std::byte* const packed = memory(run.bytes());
  results_.push_back({run, packed});
  return packed;
}

void Transfer::input(const void* data, std::size_t bytes) {
  request_.input = data;
  request_.input_count = Elements{bytes};
}

void Transfer::output(void* data, std::size_t bytes) {
  request_.output = data;
  request_.output_count = Elements{bytes};
}

void Transfer::broadcast(const Arguments& a) {
  const Run data = run(a.send);
  if (a.root == place_.rank)
    input(reading(data), data.bytes());
  else
    input(writing(data), data.bytes());
  output(const_cast<void*>(request_.input), data.bytes());
}

void Transfer::reduction(const Arguments& a, const Reduction& by) {
  request_.type = by.type;
  request_.reducer = by.reducer;
  const int p = place_.size;
  const bool scatters = a.kind == Kind::reduce_scatter || a.kind == Kind::reduce_scatter_block;
  MPI_Count all = a.receive.count, own = a.receive.count;
  if (a.kind == Kind::reduce_scatter_block) all *= p;
  if (a.kind == Kind::reduce_scatter) {
    own = a.receive.counts[place_.rank];
    for (int peer = 0; peer < p; ++peer) {
      request_.counts.emplace_back(static_cast<std::uint64_t>(a.receive.counts[peer]));
      all += a.receive.counts[peer];
    }
  }
  const Run from{a.send.in_place() ? a.receive.buffer : a.send.buffer, all, by.operand};
  const Run to{a.receive.buffer, own, by.operand};
  input(reading(from), static_cast<std::size_t>(all));
  if (a.kind == Kind::reduce && a.root != place_.rank) return;
  std::byte* result = nullptr;
  if (a.kind == Kind::exscan && place_.rank == 0) {
    result = memory(to.bytes());  // the program's buffer stays as it is, and may be none
  } else if (scatters && a.send.in_place() && by.operand.direct) {
    result = memory(to.bytes());  // MPI's result lies at the beginning, and not in the own block
    results_.push_back({to, result});
  } else {
    result = writing(to);
  }
  output(result, static_cast<std::size_t>(own));
}

/// The output of a gather, with this rank's block in place where it is to be.
void Transfer::gathered(const Side& receive, const Side& send) {
  const Run all = run(receive, place_.size), own = run(receive);
  if (!send.in_place() && run(send).bytes() != own.bytes()) return gathered_apart(own, run(send));
  std::byte* const to = writing(all);
  output(to, all.bytes());
  std::byte* const own_block = to + own.bytes() * static_cast<std::size_t>(place_.rank);
  if (!send.in_place()) {
    const Run sent = run(send);
    return input(reading(sent), sent.bytes());
  }
  if (!own.layout.direct) {
    const auto* const start = static_cast<const std::byte*>(receive.buffer);
    pack(start + own.layout.extent * static_cast<std::ptrdiff_t>(own.count * place_.rank),
         own.count, own.layout, own_block);
  }
  input(own_block, own.bytes());
}

/// This rank sends blocks of another length than it receives: the others go by what is sent. Each
/// received block gets what it has room for.
void Transfer::gathered_apart(const Run& own, const Run& sent) {
  const auto ranks = static_cast<std::size_t>(place_.size);
  std::byte* from = memory(sent.bytes() * ranks);
  input(reading(sent), sent.bytes());
  output(from, sent.bytes() * ranks);
  Run to = own;
  const std::size_t elements = own.layout.size == 0 ? 0 : sent.bytes() / own.layout.size;
  to.count = std::min(own.count, static_cast<MPI_Count>(elements));
  for (std::size_t peer = 0; peer < ranks; ++peer, from += sent.bytes()) {
    results_.push_back({to, from});
    to.start = static_cast<std::byte*>(to.start) + own.layout.extent * own.count;
  }
  if (sent.bytes() > own.bytes())
    complaint_ =
        fmt::format("{}: rank {} sends {} bytes and receives blocks of {}: receive all",
                    capstan::name_of(request_.collective), place_.rank, sent.bytes(), own.bytes());
}

void Transfer::all_gather(const Arguments& a) {
  gathered(a.receive, a.send);
}

void Transfer::gather(const Arguments& a) {
  if (a.root == place_.rank) return gathered(a.receive, a.send);
  const Run sent = run(a.send);
  input(reading(sent), sent.bytes());
}

void Transfer::scatter(const Arguments& a) {
  if (a.root == place_.rank) {
    const Run all = run(a.send, place_.size), own = run(a.send);
    const std::byte* const from = reading(all);
    input(from, all.bytes());
    if (a.receive.in_place())
      return output(
          const_cast<std::byte*>(from) + own.bytes() * static_cast<std::size_t>(place_.rank),
          own.bytes());
  }
  const Run received = run(a.receive);
  output(writing(received), received.bytes());
}

void Transfer::all_gather_v(const Arguments& a) {
  std::size_t total = 0, own_offset = 0;
  bool adjacent = true;
  for (int peer = 0; peer < place_.size; ++peer) {
    const Run to = block(a.receive, peer);
    const auto offset =
        static_cast<const std::byte*>(to.start) - static_cast<const std::byte*>(a.receive.buffer);
    adjacent = adjacent && to.layout.direct &&
               (to.bytes() == 0 || offset == static_cast<std::ptrdiff_t>(total));
    if (peer == place_.rank) own_offset = total;
    request_.counts.emplace_back(to.bytes());
    total += to.bytes();
  }
  const Run own = block(a.receive, place_.rank);
  std::byte* const all = adjacent ? first_byte(a.receive.buffer, own.layout) : memory(total);
  output(all, total);
  if (!a.send.in_place()) {
    const Run sent = run(a.send);
    input(reading(sent), sent.bytes());
  } else {
    if (!adjacent) pack(own.start, own.count, own.layout, all + own_offset);
    input(all + own_offset, own.bytes());
  }
  if (adjacent) return;
  const std::byte* from = all;
  for (int peer = 0; peer < place_.size; ++peer) {
    const Run to = block(a.receive, peer);
    results_.push_back({to, from});
    from += to.bytes();
  }
}

void Transfer::all_to_all(const Arguments& a) {
  const Run to = run(a.receive, place_.size);
  std::byte* const received = writing(to);
  output(received, to.bytes());
  if (!a.send.in_place()) {
    const Run from = run(a.send, place_.size);
    return input(reading(from), from.bytes());
  }
  if (!to.layout.direct) pack(to.start, to.count, to.layout, received);
  input(received, to.bytes());
}

void Transfer::send(int peer, const Run& run) {
  if (run.bytes() == 0) return;
  Message message;
  message.sends = true;
  message.peer = peer;
  message.data = const_cast<std::byte*>(reading(run));
  message.count = Elements{run.bytes()};
  messages_.push_back(std::move(message));
}

void Transfer::receive(int peer, const Run& run) {
  if (run.bytes() == 0) return;
  Message message;
  message.peer = peer;
  message.data = writing(run);
  message.count = Elements{run.bytes()};
  messages_.push_back(std::move(message));
}

/// This rank's message to itself.
void Transfer::copy(const Run& from, const Run& to) {
  if (from.bytes() == 0) return;
  results_.push_back({to, reading(from)});
}

void Transfer::gather_v(const Arguments& a) {
  is_exchange_ = true;
  if (a.root != place_.rank) return send(a.root, run(a.send));
  for (int peer = 0; peer < place_.size; ++peer)
    if (peer != place_.rank) receive(peer, block(a.receive, peer));
  if (!a.send.in_place()) copy(run(a.send), block(a.receive, place_.rank));
}

void Transfer::scatter_v(const Arguments& a) {
  is_exchange_ = true;
  if (a.root != place_.rank) return receive(a.root, run(a.receive));
  for (int peer = 0; peer < place_.size; ++peer)
    if (peer != place_.rank) send(peer, block(a.send, peer));
  if (!a.receive.in_place()) copy(block(a.send, place_.rank), run(a.receive));
}

void Transfer::all_to_all_v(const Arguments& a) {
  is_exchange_ = true;
  for (int distance = 1; distance < place_.size; ++distance) {
    const int to = (place_.rank + distance) % place_.size;
    const int from = (place_.rank + place_.size - distance) % place_.size;
    receive(from, block(a.receive, from));
    if (!a.send.in_place()) {
      send(to, block(a.send, to));
      continue;
    }
    Run sent = block(a.receive, to);  // which a receive overwrites
    std::byte* const copied = memory(sent.bytes());
    pack(sent.start, sent.count, sent.layout, copied);
    send(to, {copied, static_cast<MPI_Count>(sent.bytes()), bytes_layout()});
  }
  if (!a.send.in_place()) copy(block(a.send, place_.rank), block(a.receive, place_.rank));
}

std::size_t Transfer::bytes() const {
  if (!is_exchange_) return bytes_of(std::max(request_.input_count, request_.output_count));
  std::size_t sent = 0, received = 0;
  for (const Message& message : messages_)
    (message.sends ? sent : received) += message.count.value();
  return std::max(sent, received);
}

void Transfer::finish() const {
  for (const Result& result : results_)
    unpack(result.from, result.to.start, result.to.count, result.to.layout);
  if (!complaint_.empty()) throw Truncated(complaint_);
}

}  // namespace capstan::mpi
