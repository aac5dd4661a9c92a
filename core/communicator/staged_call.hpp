// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "capstan/message.hpp"
#include "capstan/request.hpp"
#include "core/platform/device/device_memory.hpp"
#include "core/platform/memory/pinned_memory.hpp"

namespace capstan {

/// A call in a stream whose data the stream itself copies to pinned memory and back, piece by
/// piece, while the host runs it there:
///
///   stream:  | copy in, raise arrived | ... | wait for released, copy out | ...
///   host:             await arrived(k), run(k), release(k)
///
/// The host asks the driver nothing between these: a program's thread that copies pageable memory
/// in a stream behind the call may hold up all calls of the driver until the call has ended.
class StagedCall {
 public:
  using Call = std::variant<Request, std::vector<Message>>;

  /// Null where the driver's streams do not raise words, or pinned memory is used up: such a call
  /// goes another way. Pieces are those of pieces_of(). Throws InvalidArgument for a request that
  /// is none, SystemError.
  static std::unique_ptr<StagedCall> make(const Call& call, int rank, int ranks,
                                          const DeviceBuffer& where, PinnedMemory& pinned,
                                          Bytes longest_piece);

  /// Puts all of it into the stream. False where the device's streams do not raise words: nothing
  /// is in the stream then. Throws SystemError.
  bool enter(void* stream);

  std::size_t pieces() const { return pieces_.size(); }
  /// The call on host memory.
  const Call& piece(std::size_t index) const { return pieces_[index].call; }
  /// Whether the data of a piece have arrived.
  bool arrived(std::size_t index) const;
  /// Lets the stream copy the results of all pieces up to this one, and continue.
  void release(std::size_t index);
  void release_all() { release(pieces_.size() - 1); }

 private:
  struct Copy {
    std::byte* device = nullptr;
    std::size_t at = 0;  ///< in the pinned memory
    std::size_t bytes = 0;
    bool in = false, out = false;
  };
  /// A buffer of the call on host memory.
  struct Operand {
    std::size_t at = 0;  ///< in the pinned memory
    bool is_input = false;
    std::size_t message = 0;  ///< of an exchange: its index
  };
  struct Piece {
    Call call;
    std::vector<Operand> operands{};
    std::vector<Copy> copies{};
  };

  explicit StagedCall(const DeviceBuffer& where) : where_(where) {}
  void add(const Request& request, int rank, int ranks);
  void add(const std::vector<Message>& messages);
  std::size_t reserve(std::size_t bytes);
  void resolve();
  std::uint32_t* word(int index) const;

  const DeviceBuffer where_;
  std::vector<Piece> pieces_;
  std::size_t size_ = 2 * sizeof(std::uint32_t);  // the words come first
  PinnedMemory::Handle memory_;
};

}  // namespace capstan
