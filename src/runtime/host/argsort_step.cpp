#include "runtime/host/steps.hpp"

#include <array>

#include "base/member_count.hpp"
#include "runtime/host/argsort.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

bool HostSort::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  const std::span<const std::int64_t> size = numbers.subspan(sizes_.begin, sizes_.count);
  const auto [rows, length, first, count] = std::array{size[0], size[1], size[2], size[3]};
  return rooms.size() == 2 && Reach::of({rows, length}).is_in(rooms[0], dtype_) && Reach::is_size(first) &&
         Reach::of({rows, count}).may_write(rooms[1], DType::i64) && count <= length && first <= length - count;
}
void HostSort::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  argsort(dtype_, {size[0], size[1], size[2], size[3]}, descending_, call.pointers[0],
          static_cast<std::int64_t*>(call.pointers[1]));
}

static_assert(lists_all<SortFields>, "a member is not in fields()");

StepCost StoredSort::cost() const {
  const std::int64_t comparisons = what.count.same(what.size) ? 12 : 4;  // an element, about
  const Dim count = what.rows * what.size;
  return {storage_bytes(info(what.dtype), count) + storage_bytes(info(DType::i64), what.rows * what.count),
          count * Dim(comparisons)};
}
std::unique_ptr<Runnable> StoredSort::prepare(const Preparation& preparation) const {
  const auto& [dtype, descending, rows, size, first, count] = what;
  return std::make_unique<HostSort>(dtype, descending, rows, size, first, count, preparation.numbers);
}

const NamedStep steps::argsort{StoredSort::name, StoredSort::read};

}  // namespace weft::runtime
