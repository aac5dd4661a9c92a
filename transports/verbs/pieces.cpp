#include "transports/verbs/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "transports/mapping.hpp"

namespace capstan::verbs {

ibv_mr* pin(ibv_pd* domain, void* memory, std::uint64_t size, int access) {
  return made(::ibv_reg_mr(domain, memory, size, access),
              fmt::format("ibv_reg_mr of {} bytes", size),
              "raise the limit of locked memory: ulimit -l unlimited");
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

std::shared_ptr<const ibv_mr> lend(ibv_pd* domain, const void* memory, Bytes size) {
  return {pin(domain, const_cast<void*>(memory), size.value(), 0), Destroyer<ibv_dereg_mr>{}};
}

}  // namespace capstan::verbs
