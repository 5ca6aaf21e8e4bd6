#include "runtime/host/steps.hpp"

#include <array>

#include "base/member_count.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

bool HostScatter::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  const std::span<const std::int64_t> size = numbers.subspan(sizes_.begin, sizes_.count);
  const auto [rows, count, width] = std::array{size[0], size[1], size[2]};
  return rooms.size() == 3 && Reach::of({count}).is_in(rooms[0], DType::i64) &&
         Reach::of({count, width}).is_in(rooms[1], dtype_) && Reach::of({rows, width}).may_write(rooms[2], dtype_);
}
void HostScatter::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  scatter(join_, dtype_, {size[0], size[1], size[2]}, static_cast<const std::int64_t*>(call.pointers[0]),
          call.pointers[1], call.pointers[2]);
}

static_assert(lists_all<ScatterFields>, "a member is not in fields()");

StepCost StoredScatter::cost() const {
  const auto& [join, dtype, rows, count, width] = what;
  return {storage_bytes(info(dtype), count * width * Dim(3) + rows * width), count * width};
}
std::unique_ptr<Runnable> StoredScatter::prepare(const Preparation& preparation) const {
  const auto& [join, dtype, rows, count, width] = what;
  return std::make_unique<HostScatter>(join, dtype, rows, count, width, preparation.numbers);
}

const NamedStep steps::scatter{StoredScatter::name, StoredScatter::read};

}  // namespace weft::runtime
