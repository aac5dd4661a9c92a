// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "transports/common/mapping.hpp"

namespace capstan::verbs {

namespace {

[[noreturn]] void refuse_to_pin(std::uint64_t size) {
  throw_errno(fmt::format("ibv_reg_mr of {} bytes", size),
              "raise the limit of locked memory: ulimit -l unlimited");
}

}  // namespace

ibv_mr* pin(ibv_pd* domain, void* memory, std::uint64_t size, int access) {
  ibv_mr* region = library().reg_mr(domain, memory, size, access);
  if (!region) refuse_to_pin(size);
  return region;
}

Pieces::Pieces(ibv_pd* domain, std::byte* memory, Bytes size, Bytes piece, int access)
    : domain_(domain),
      memory_(memory),
      size_(whole_pages(size).value()),
      piece_(piece.value()),
      access_(access),
      regions_((size_ + piece_ - 1) / piece_) {}

const ibv_mr& Pieces::at(std::uint64_t piece) {
  MemoryRegion& region = regions_.at(piece);
  if (!region) {
    const std::uint64_t start = piece * piece_;
    region.reset(pin(domain_, memory_ + start, std::min(piece_, size_ - start), access_));
  }
  return *region;
}

MemoryKeys CallerRegistrar::register_memory(AddressRange range) {
  ibv_mr* region = library().reg_mr(domain_, range.data(), range.size().value(), access_);
  if (!region && errno == EFAULT)
    throw InvalidArgument(fmt::format("{} at {} cannot be given to the device",
                                      readable(range.size()), range.data()));
  if (!region) refuse_to_pin(range.size().value());
  return {.handle = region, .local = region->lkey, .remote = region->rkey};
}

void CallerRegistrar::deregister_memory(const MemoryKeys& keys) noexcept {
  library().dereg_mr(static_cast<ibv_mr*>(keys.handle));
}

}  // namespace capstan::verbs
