// Products of up to 16 rows with weights [n, k] of 16-bit floats on a device, as a decoder has them for several texts:
// by our own kernel, which reads the weights once at the speed of memory (weft/detail/cuda_few_rows.inc). Where sizes
// are symbols, weights lie [k, n] or are few, the library is as good. Offered where candidates are timed: by itself it
// is faster than the library, but a decoder of 16 texts is slower with it (docs/performance_gpu_subjects.md).
#include "runtime/cuda/few_rows_product.hpp"
#include "base/fail.hpp"
#include "base/options.hpp"
#include "codegen/cuda.hpp"
#include "providers/product.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/device_target.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::few_rows_most, runtime::cuda::few_rows_warps;

// Weights of 8 MB and more, of which a warp has at least 64 of each row.
constexpr std::int64_t least_weights = std::int64_t{1} << 22, least_depth = 1024;
constexpr std::int64_t together = 8;  // 16 bytes at once

bool is(Dim dim, std::int64_t value) { return dim.same(Dim(value)); }
bool is_whole(Dim dim) { return dim.is_constant() && dim.constant() % together == 0; }

// Shared memory of a block; 0: no device, or none that the kernel was measured on. All that a package is made for have
// what it wants.
std::int64_t room_of(Device device) try {
  if (const runtime::DeviceTarget* target = runtime::current_device_target()) return target->shared_of_block;
  const runtime::cuda::DeviceState& state = runtime::cuda::use(device);
  return state.major < 9 ? 0 : state.shared_of_block;
} catch (const OutOfMemory&) {
  throw;
} catch (const Error&) {
  return 0;
}

// A product of a few rows, of one batch axis too, each item of which has one row of the same weights.
std::optional<Contraction> few_rows(Contraction c) {
  if (c.dtype != DType::bf16 && c.dtype != DType::f16) return {};
  if (c.a_is_chosen() || c.b_is_chosen()) return {};
  for (std::size_t axis = 0; axis < c.batch.size(); ++axis) {
    if (is(c.batch[axis], 1)) continue;
    if (!is(c.m, 1) || !is(c.b_batch[axis], 0)) return {};
    c.m = c.batch[axis], c.a_row = c.a_batch[axis], c.c_row = c.c_batch[axis];
  }
  c.batch.clear(), c.a_batch.clear(), c.b_batch.clear(), c.c_batch.clear();
  const Dim sizes[] = {c.m, c.n, c.k, c.c_row};
  if (!std::ranges::all_of(sizes, [](Dim size) { return size.is_constant(); })) return {};
  if (c.m.constant() < 2 || c.m.constant() > few_rows_most || c.k.constant() < least_depth) return {};
  if (c.n.constant() >= std::int64_t{1} << 30 || c.n.constant() * c.k.constant() < least_weights) return {};
  if (!is(c.a_column, 1) || !is(c.b_row, 1) || !is(c.c_column, 1)) return {};
  const Dim whole[] = {c.k, c.a_row, c.b_column, c.a_offset, c.b_offset};
  if (!std::ranges::all_of(whole, is_whole)) return {};
  return c;
}

class FewRowsPayload final : public StoredPayload<runtime::cuda::StoredFewRows, Product> {
 public:
  FewRowsPayload(runtime::cuda::FewRowsFields fields, const Candidate& candidate, std::int64_t stages)
      : StoredPayload(runtime::cuda::StoredFewRows(std::move(fields)), candidate),
        weights_(candidate.operands[1].buffer),
        stages_(stages) {}
  std::shared_ptr<const Payload> reading_early(const std::vector<bool>& steady) const override {
    if (!steady[static_cast<std::size_t>(weights_)]) return nullptr;
    auto early = std::make_shared<FewRowsPayload>(*this);
    early->stored_.what.begins_early = true;
    return early;
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    const Contraction& c = stored_.what.product;
    const auto made = codegen::cuda_few_rows({c.dtype, c.is_wide, stored_.what.depth, stages_});
    sources.add(made.name, made.text);
    return {made.name, 1, made.threads, made.shared};
  }

 private:
  int weights_;  // a buffer of the schedule
  std::int64_t stages_;
};

class FewRowsProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cuda || options().own_kernels == 0) return false;
    const std::optional<DType> dtype = multiplied(node);
    return (dtype ? storage_bytes(*dtype, 1) == 2 : multiplied_with_bias(node).has_value()) &&
           !is_matrix_times_vector(node);
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    if (!candidate.choices.measures && options().own_kernels != 2) return {};
    std::optional<Contraction> product = few_rows(contraction_of(candidate));
    const std::int64_t room = product ? room_of(candidate.device) : 0;
    if (room == 0) return {};
    // So that a block has all of k, if it can have two tiles on their way.
    constexpr std::int64_t short_depth = 128, long_depth = 256;
    const std::int64_t k = product->k.constant();
    std::int64_t depth = short_depth;
    if (k > few_rows_warps * short_depth && k <= few_rows_warps * long_depth &&
        codegen::few_rows_shared(long_depth, 2) < room)
      depth = long_depth;
    std::int64_t stages = 5;
    while (stages > 1 && codegen::few_rows_shared(depth, stages) >= room) --stages;
    if (depth == long_depth) stages = 2;
    if (stages < 2) return {};
    auto payload = std::make_shared<FewRowsPayload>(runtime::cuda::FewRowsFields{*std::move(product), depth, false},
                                                    candidate, stages);
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(60000), std::move(payload)};  // of the library 50000
  }
};

}  // namespace

const Provider& few_rows_product() {
  static constinit const FewRowsProvider provider;
  return provider;
}

}  // namespace weft::providers
