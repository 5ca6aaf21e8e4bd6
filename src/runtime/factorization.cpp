#include "runtime/factorization.hpp"

#include <algorithm>
#include <utility>

#include "base/member_count.hpp"
#include "runtime/host/factorization.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

bool FactorizationStep::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  using Kind = Factorization::Kind;
  const std::span<const std::int64_t> size = numbers.subspan(sizes_.begin, sizes_.count);
  const std::int64_t batch = size[0], m = size[1], n = size[2], sides = size[3], k = std::min(m, n), half = n / 2 + 1;
  const bool transforms = what_.is_transform();
  for (const std::int64_t each : size)
    if (!Reach::is_size(each) || each >= std::int64_t{1} << 31) return false;
  if (transforms ? m != 1 || n < 1 : m != n && what_.kind != Kind::qr && what_.kind != Kind::svd) return false;
  std::size_t next = 0;
  const auto next_fits = [&](std::int64_t rows, std::int64_t columns, bool is_result = true, bool is_index = false) {
    const Reach reach = Reach::of({batch, rows, columns});
    const DType dtype = is_index ? DType::i64 : what_.dtype;
    if (next >= rooms.size()) return false;
    const Room& room = rooms[next++];
    return is_result ? reach.may_write(room, dtype) : reach.is_in(room, dtype);
  };
  const auto read = [&](std::int64_t rows, std::int64_t columns) { return next_fits(rows, columns, false); };
  const auto all = [&] {
    switch (what_.kind) {
      case Kind::cholesky: return read(n, n) && next_fits(n, n);
      case Kind::triangular_solve: return read(n, n) && read(n, sides) && next_fits(n, sides);
      case Kind::lu:
      case Kind::ldl: return read(n, n) && next_fits(n, n) && next_fits(1, n, true, true);
      case Kind::qr: return read(m, n) && next_fits(m, k) && next_fits(k, n);
      case Kind::eigh: return read(n, n) && next_fits(1, n) && (!what_.vectors || next_fits(n, n));
      case Kind::eig:
        return read(n, n) && next_fits(1, n) && next_fits(1, n) &&
               (!what_.vectors || (next_fits(n, n) && next_fits(n, n)));
      case Kind::svd:
        return read(m, n) && next_fits(1, k) &&
               (!what_.vectors || (next_fits(m, what_.full ? m : k) && next_fits(what_.full ? n : k, n)));
      case Kind::fourier: return read(1, n) && read(1, n) && next_fits(1, n) && next_fits(1, n);
      case Kind::real_fourier: return read(1, n) && next_fits(1, half) && next_fits(1, half);
      case Kind::inverse_real_fourier: return read(1, half) && read(1, half) && next_fits(1, n);
    }
    return false;
  };
  return all() && next == rooms.size();
}

void FactorizationStep::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  const FactorizationSizes<std::int64_t> sizes{size[0], size[1], size[2], size[3]};
  if (device_.type == Device::Type::cpu)
    factorize(what_, sizes, call.pointers);
  else
    run_on_copies(call, sizes);
}

void FactorizationStep::run_on_copies(const StepCall& call, const FactorizationSizes<std::int64_t>& sizes) const {
  struct Block {
    Storage* storage;
    explicit Block(std::size_t bytes) : storage(allocate(Device::cpu(), bytes)) {}
    Block(Block&& other) noexcept : storage(std::exchange(other.storage, nullptr)) {}
    ~Block() {
      if (storage) release(storage);
    }
  };
  const DeviceInterface& memory = device_interface(device_.type);
  const std::span<const std::int64_t> bytes = call.part(bytes_);
  std::vector<Block> blocks;
  std::vector<void*> buffers;
  for (const std::int64_t each : bytes) {
    blocks.emplace_back(static_cast<std::size_t>(each));
    buffers.push_back(blocks.back().storage->data);
  }
  const auto size_of = [&](std::size_t i) { return static_cast<std::size_t>(bytes[i]); };
  for (std::size_t i = 0; i < operands_; ++i)
    if (bytes[i] > 0) memory.copy(buffers[i], Device::cpu(), call.pointers[i], device_, size_of(i), call.queue);
  memory.synchronize(device_);
  factorize(what_, sizes, buffers.data());
  for (std::size_t i = operands_; i < buffers.size(); ++i)
    if (bytes[i] > 0) memory.copy(call.pointers[i], device_, buffers[i], Device::cpu(), size_of(i), call.queue);
  memory.synchronize(device_);  // the copies are read until then
}

static_assert(member_count<Factorization> == 8 && member_count<FactorizationSizes<Dim>> == 4 &&
                  member_count<FactorizationFields> == 4,
              "a member is not in fields()");

StepCost StoredFactorization::cost() const {
  // A transform's logarithm counts as 16.
  const Dim third = what.what.is_transform()                                  ? Dim(16)
                    : what.what.kind == Factorization::Kind::triangular_solve ? what.sizes.sides
                                                                              : what.sizes.columns;
  Dim bytes = 0;
  for (const Dim each : what.bytes) bytes = bytes + each;
  return {bytes, what.sizes.batch * what.sizes.rows * what.sizes.columns * third};
}

const NamedStep steps::factorization{StoredFactorization::name, StoredFactorization::read};

}  // namespace weft::runtime
