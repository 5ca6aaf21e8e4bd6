#include "runtime/host/steps.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/steps.hpp"

namespace weft::runtime {

bool HostUpdate::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  const std::span<const std::int64_t> n = numbers.subspan(sizes_.begin, sizes_.count);
  const auto bytes = [&](std::size_t offset, std::int64_t length) {  // of values, which lie at any place
    return Reach::is_size(n[offset]) ? Reach::of({n[0], n[1], length, element_}, n[offset] * element_) : Reach(-1);
  };
  return rooms.size() == 4 && bytes(4, n[2]).is_in(rooms[0], DType::u8) && bytes(5, n[3]).is_in(rooms[1], DType::u8) &&
         n[3] <= n[2] && Reach::of({1}, n[6]).is_in(rooms[2], DType::i64) &&
         Reach::of({n[0], n[1], n[2], element_}).may_write(rooms[3], DType::u8);
}
void HostUpdate::run(const StepCall& call) const {
  const std::span<const std::int64_t> n = call.part(sizes_);
  const std::int64_t outer = n[0], inner = n[1] * element_, whole = n[2] * inner, part = n[3] * inner;
  const auto at = [&](std::size_t i) { return static_cast<std::byte*>(call.pointers[i]) + n[4 + i] * element_; };
  const std::int64_t position = *reinterpret_cast<const std::int64_t*>(static_cast<std::byte*>(call.pointers[2]) +
                                                                       n[6] * std::int64_t{sizeof(std::int64_t)});
  const std::int64_t start = std::clamp<std::int64_t>(position, 0, n[2] - n[3]);
  auto* const result = static_cast<std::byte*>(call.pointers[3]);
  if (at(0) != result && outer * whole > 0) std::memmove(result, at(0), static_cast<std::size_t>(outer * whole));
  for (std::int64_t i = 0; i < outer && part > 0; ++i)
    std::memmove(result + i * whole + start * inner, at(1) + i * part, static_cast<std::size_t>(part));
}

StepCost StoredSliceUpdate::cost() const { return {what.outer * what.length * what.inner * Dim(2 * what.element), 0}; }
std::unique_ptr<Runnable> StoredSliceUpdate::prepare(const Preparation& preparation) const {
  return std::make_unique<HostUpdate>(what, preparation.numbers);
}

const NamedStep steps::update_slice{StoredSliceUpdate::name, StoredSliceUpdate::read};

}  // namespace weft::runtime
