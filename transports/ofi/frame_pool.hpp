// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "transports/common/mapping.hpp"
#include "transports/ofi/frame.hpp"
#include "transports/ofi/ofi_endpoint.hpp"

namespace capstan::ofi {

/// Reuses frames. Grows when none is left.
class FramePool {
 public:
  explicit FramePool(OfiEndpoint& endpoint) : endpoint_(endpoint) {}

  /// An empty frame. Throws SystemError when there is no memory.
  Frame& take() {
    if (free_.empty()) grow();
    Frame& frame = *free_.back();
    free_.pop_back();
    frame.clear();
    return frame;
  }
  void give_back(Frame& frame) { free_.push_back(&frame); }

 private:
  static constexpr std::size_t slab_frames = 32;

  struct Slab {
    Mapping memory;
    Registration registration;
    std::vector<std::unique_ptr<Frame>> frames;
  };

  void grow() {
    Slab& slab = slabs_.emplace_back();
    const Bytes size{slab_frames * frame_size};
    slab.memory = Mapping::anonymous(size);
    slab.registration = endpoint_.register_exchange(slab.memory.data(), size);
    for (std::size_t i = 0; i < slab_frames; ++i) {
      slab.frames.push_back(std::make_unique<Frame>(slab.memory.data() + i * frame_size,
                                                    slab.registration.descriptor()));
      free_.push_back(slab.frames.back().get());
    }
  }

  OfiEndpoint& endpoint_;
  std::vector<Slab> slabs_;
  std::vector<Frame*> free_;
};

}  // namespace capstan::ofi
