// SPDX-License-Identifier: Apache-2.0

// Gloo in a comparison, over TCP: on the interface between hosts, or on loopback inside one host,
// since Gloo has no shared memory.
//
// Usage: gloo_worker ring|bcube   which of its all-reduce algorithms

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstring>

#include "capstan/settings.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/platform/net/network.hpp"
#include "perf/compare/workers/worker.hpp"

namespace capstan::perf {
namespace {

/// Lets Gloo's ranks find each other through the store of the comparison.
class StoreAdapter : public gloo::rendezvous::Store {
 public:
  explicit StoreAdapter(capstan::Store& store) : store_(store) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.put(prefixed(key), std::as_bytes(std::span{data}));
  }
  std::vector<char> get(const std::string& key) override {
    const auto bytes = store_.get(prefixed(key), Deadline::in(kDefaultTimeout));
    const auto* data = reinterpret_cast<const char*>(bytes.data());
    return {data, data + bytes.size()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, kDefaultTimeout); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    const auto deadline = Deadline::in(timeout);
    for (const std::string& key : keys) store_.get(prefixed(key), deadline);
  }

 private:
  static std::string prefixed(const std::string& key) { return "gloo/" + key; }
  capstan::Store& store_;
};

class Gloo : public Library {
 public:
  Gloo(bool bcube, capstan::Store& comparison_store) : bcube_(bcube) {
    const Launch launch = detect_launch(process_environment());
    const bool one_host = launch.local_size == launch.size;
    gloo::transport::tcp::attr attributes;
    if (one_host)
      attributes.iface = "lo";
    else
      attributes.hostname = choose_address(Settings::from_environment().interface).address.text();
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    StoreAdapter store{comparison_store};
    auto context = std::make_shared<gloo::rendezvous::Context>(launch.rank, launch.size);
    context->connectFullMesh(store, device);
    context_ = context;
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  Call prepare(const Cell& cell, float* in, float* out) override {
    if (cell.in_place && cell.collective != Collective::broadcast) return {};
    const std::size_t n = cell.shape.count.value(), p = static_cast<std::size_t>(size());
    switch (cell.collective) {
      case Collective::barrier:
        return [this] { barrier(); };
      case Collective::broadcast:
        return [=, this] {
          gloo::BroadcastOptions options{context_};
          options.setOutput(out, n);
          options.setRoot(0);
          gloo::broadcast(options);
        };
      case Collective::reduce: {
        if (rank() != 0) scratch_.resize(n);
        float* const target = rank() == 0 ? out : scratch_.data();
        return [=, this] {
          gloo::ReduceOptions options{context_};
          options.setInput(in, n);
          options.setOutput(target, n);
          options.setRoot(0);
          options.setReduceFunction(sum);
          gloo::reduce(options);
        };
      }
      case Collective::all_reduce:
        return [=, this] {
          gloo::AllreduceOptions options{context_};
          options.setInput(in, n);
          options.setOutput(out, n);
          options.setReduceFunction(sum);
          options.setAlgorithm(bcube_ ? gloo::AllreduceOptions::Algorithm::BCUBE
                                      : gloo::AllreduceOptions::Algorithm::RING);
          gloo::allreduce(options);
        };
      case Collective::all_gather:
        return [=, this] {
          gloo::AllgatherOptions options{context_};
          options.setInput(in, n);
          options.setOutput(out, n * p);
          gloo::allgather(options);
        };
      case Collective::reduce_scatter: {
        // Gloo reduces in place. The input is copied first, since other libraries keep it, too.
        scratch_.resize(n * p);
        auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
            context_, std::vector<float*>{scratch_.data()}, static_cast<int>(n * p),
            std::vector<int>(p, static_cast<int>(n)));
        return [=, this] {
          std::memcpy(scratch_.data(), in, n * p * sizeof(float));
          algorithm->run();
          std::memcpy(out, scratch_.data(), n * sizeof(float));
        };
      }
      case Collective::all_to_all:
        return [=, this] {
          gloo::AlltoallOptions options{context_};
          options.setInput(in, n * p);
          options.setOutput(out, n * p);
          gloo::alltoall(options);
        };
      case Collective::gather:
        return [=, this] {
          gloo::GatherOptions options{context_};
          options.setInput(in, n);
          if (rank() == 0) options.setOutput(out, n * p);
          options.setRoot(0);
          gloo::gather(options);
        };
      case Collective::scatter:
        return [=, this] {
          gloo::ScatterOptions options{context_};
          std::vector<float*> blocks;
          for (std::size_t i = 0; rank() == 0 && i < p; ++i) blocks.push_back(in + i * n);
          if (rank() == 0) options.setInputs(blocks, n);
          options.setOutput(out, n);
          options.setRoot(0);
          gloo::scatter(options);
        };
      default:
        return with_counts(cell, in, out);
    }
  }

  void barrier() override {
    gloo::BarrierOptions options{context_};
    gloo::barrier(options);
  }

 private:
  /// Collectives with counts per rank.
  Call with_counts(const Cell& cell, float* in, float* out) {
    const Request request = request_of(cell, rank(), size(), reinterpret_cast<std::byte*>(in),
                                       reinterpret_cast<std::byte*>(out));
    if (cell.collective == Collective::all_gather_v)
      return [=, this, counts = values_of<std::size_t>(request.counts)] {
        gloo::AllgathervOptions options{context_};
        options.setInput(in, counts[static_cast<std::size_t>(rank())]);
        options.setOutput(out, counts);
        gloo::allgatherv(options);
      };
    if (cell.collective != Collective::all_to_all_v) return {};
    return [=, this, sent = values_of<std::int64_t>(request.counts),
            received = values_of<std::int64_t>(request.receive_counts)] {
      gloo::AlltoallvOptions options{context_};
      options.setInput(in, sent);
      options.setOutput(out, received);
      gloo::alltoallv(options);
    };
  }

  template <class Value>
  static std::vector<Value> values_of(const std::vector<Elements>& counts) {
    std::vector<Value> values;
    for (const Elements each : counts) values.push_back(static_cast<Value>(each.value()));
    return values;
  }

  static constexpr auto sum =
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>);

  const bool bcube_;
  std::shared_ptr<gloo::Context> context_;
  std::vector<float> scratch_;
};

}  // namespace
}  // namespace capstan::perf

int main(int argc, char** argv) {
  const bool bcube = argc > 1 && std::strcmp(argv[1], "bcube") == 0;
  return capstan::perf::run_worker(
      [=](capstan::Store& store) { return std::make_unique<capstan::perf::Gloo>(bcube, store); });
}
