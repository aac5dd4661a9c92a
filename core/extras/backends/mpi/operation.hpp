// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/extras/backends/mpi/library.hpp"
#include "core/extras/backends/polled_driver.hpp"

namespace capstan {

/// One call of a backend as the requests of MPI that make it up.
class MpiOperation : public NativeOperation {
 public:
  MpiOperation(LoadedMpi& mpi, std::string call, int longest)
      : mpi_(mpi), call_(std::move(call)), longest_(longest) {}
  ~MpiOperation() override {
    for (const MpiHandle type : types_) mpi_.adapter().free_type(type);
  }

  /// Calls start(&request) and waits for the request in test().
  template <class Start>
  void add(const Start& start) {
    MpiHandle request = 0;
    mpi_.require(mpi_.locked([&] { return start(&request); }), call_);
    requests_.push_back(request);
  }
  /// A type of so many bytes, for as long as this exists.
  MpiHandle bytes(std::uint64_t count) {
    MpiHandle type = 0;
    mpi_.require(mpi_.adapter().bytes_type(count, longest_, &type), call_);
    types_.push_back(type);
    return type;
  }
  /// Calls part(offset, count) for pieces of at most the longest count; once where there is
  /// nothing.
  template <class Part>
  void in_pieces(std::uint64_t count, const Part& part) const {
    const auto longest = static_cast<std::uint64_t>(longest_);
    std::uint64_t offset = 0;
    do {
      const std::uint64_t length = std::min(count - offset, longest);
      part(offset, static_cast<int>(length));
      offset += length;
    } while (offset < count);
  }

  bool test() override {
    return mpi_.locked([&] {
      for (; ended_ < requests_.size(); ++ended_) {
        bool ended = false;
        mpi_.require(mpi_.adapter().test(&requests_[ended_], &ended, &status_), call_);
        if (!ended) return false;
      }
      return true;
    });
  }
  std::optional<MessageInfo> message() const override {
    return MessageInfo{status_.source, status_.tag, Bytes{status_.bytes}};
  }

 private:
  LoadedMpi& mpi_;
  const std::string call_;
  const int longest_;
  std::vector<MpiHandle> requests_, types_;
  std::size_t ended_ = 0;
  MpiStatus status_{};
};

}  // namespace capstan
