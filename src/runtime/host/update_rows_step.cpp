#include "runtime/host/steps.hpp"

#include <cstring>

#include "runtime/parallel.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

bool HostRows::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  const std::span<const std::int64_t> n = numbers.subspan(sizes_.begin, sizes_.count);
  return rooms.size() == 4 && Reach::of({n[0], n[1], n[2]}, n[4]).is_in(rooms[0], dtype_) &&
         Reach::of({n[0], n[3], n[2]}, n[5]).is_in(rooms[1], dtype_) &&
         Reach::of({n[3]}, n[6]).is_in(rooms[2], DType::i64) &&
         Reach::of({n[0], n[1], n[2]}).may_write(rooms[3], dtype_);
}
std::size_t HostRows::workspace(std::span<const std::int64_t> numbers) const {
  const auto n = numbers.subspan(sizes_.begin);
  return update_rows_workspace(join_, dtype_, {n[0], n[1], n[2], n[3]});
}
void HostRows::run(const StepCall& call) const {
  const std::span<const std::int64_t> n = call.part(sizes_);
  const auto at = [&](std::size_t i, DType dtype) {
    return static_cast<std::byte*>(call.pointers[i]) + static_cast<std::size_t>(n[4 + i]) * storage_bytes(dtype, 1);
  };
  const RowSizes sizes{n[0], n[1], n[2], n[3]};
  struct Copy {
    const std::byte* from;
    std::byte* to;
  } copy{at(0, dtype_), static_cast<std::byte*>(call.pointers[3])};
  constexpr std::int64_t grain = 1 << 18;
  if (copy.from != copy.to)
    parallel_for(
        0, static_cast<std::int64_t>(storage_bytes(dtype_, n[0] * n[1] * n[2])), grain,
        [](void* context, std::int64_t begin, std::int64_t end) {
          const auto& [from, to] = *static_cast<const Copy*>(context);
          std::memmove(to + begin, from + begin, static_cast<std::size_t>(end - begin));
        },
        &copy);
  update_rows(join_, dtype_, sizes, at(1, dtype_), reinterpret_cast<const std::int64_t*>(at(2, DType::i64)), copy.to,
              call.workspace);
}

StepCost StoredRowsUpdate::cost() const {
  const Dim elements = what.outer * what.count * what.inner;
  return {storage_bytes(info(what.dtype), elements * Dim(what.adds ? 3 : 2)), what.adds ? elements : Dim(0)};
}
std::unique_ptr<Runnable> StoredRowsUpdate::prepare(const Preparation& preparation) const {
  return std::make_unique<HostRows>(what, preparation.numbers);
}

const NamedStep steps::update_rows{StoredRowsUpdate::name, StoredRowsUpdate::read};

}  // namespace weft::runtime
