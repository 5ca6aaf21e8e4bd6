// Products of up to 16 rows with weights [n, k] of 16-bit floats on a device, as a decoder has them for several texts:
// by our own kernel, which reads the weights once at the speed of memory (weft/detail/cuda_few_rows.inc). Products of
// the same rows are one launch, and of two one may gate the other: that is what a decoder of 16 texts gains by
// (docs/performance_gpu.md, gpu-decode). Where sizes are symbols, weights lie [k, n] or are few, the library is as
// good.
#include "runtime/cuda/few_rows_product.hpp"

#include <algorithm>

#include "base/device_target.hpp"
#include "base/options.hpp"
#include "codegen/cuda_functions.hpp"
#include "providers/known_epilogue.hpp"
#include "providers/product.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/stored_steps.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::few_rows_most, runtime::cuda::few_rows_warps;

// Weights of 2 MB and more, as those of a decoder's keys are, of which a warp has at least 64 of each row.
constexpr std::int64_t least_weights = std::int64_t{1} << 20, least_depth = 1024;
constexpr std::int64_t together = 8;  // 16 bytes at once

bool is(Dim dim, std::int64_t value) { return dim.same(Dim(value)); }
bool is_whole(Dim dim) { return dim.is_constant() && dim.constant() % together == 0; }

// What the kernel asks of a device. `shared_of_block` is 0 where there is no device, or none that the kernel was
// measured on. All that a package is made for have what it wants.
struct Limits {
  std::int64_t shared_of_block = 0;
  bool has_copy_engine = true;
};
Limits limits_of(Device device) {
  if (const DeviceTarget* target = current_device_target())
    return {target->shared_of_block, target->has(DeviceInstruction::bulk_copy)};
  const runtime::cuda::DeviceState* const state = runtime::cuda::find_device(device);
  if (!state || !state->has(DeviceInstruction::bulk_copy)) return {};
  return {state->shared_of_block, true};
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
  FewRowsPayload(runtime::cuda::FewRowsFields fields, const Candidate& candidate, std::int64_t stages,
                 bool has_copy_engine)
      : StoredPayload(runtime::cuda::StoredFewRows(std::move(fields)), candidate),
        weights_{candidate.operands[1].buffer},
        stages_(stages),
        has_copy_engine_(has_copy_engine) {}
  std::string details() const override {
    std::string text;
    for (const Contraction& c : products()) {
      const std::string k = dims::to_string(c.k), n = dims::to_string(c.n);
      text += (text.empty() ? " [" : ", [") + dims::to_string(c.m) + "," + k + "] x [" + k + "," + n + "]" +
              (c.has_bias ? " + [" + n + "]" : "");
    }
    return text + (stored_.what.is_gated ? ", gated" : "");
  }
  std::vector<bool> writes(std::size_t) const override {
    std::vector<bool> all;
    for (const Contraction& c : products()) {
      all.insert(all.end(), c.has_bias ? 3 : 2, false);
      all.push_back(true);
    }
    return all;
  }
  std::shared_ptr<const Payload> reading_early(const std::vector<bool>& steady) const override {
    if (!std::ranges::all_of(weights_, [&](int buffer) { return steady[static_cast<std::size_t>(buffer)]; }))
      return nullptr;
    auto early = std::make_shared<FewRowsPayload>(*this);
    early->stored_.what.begins_early = true;
    return early;
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    const Contraction& c = products()[0];
    return sources.add(codegen::cuda_few_rows(
        {c.dtype, c.is_wide, stored_.what.depth, stages_, has_copy_engine_, stored_.what.is_gated}));
  }

  const std::vector<Contraction>& products() const { return stored_.what.products; }
  // The products of both, of the same rows. Null where one launch does not do them.
  std::shared_ptr<FewRowsPayload> with(const FewRowsPayload& other) const {
    if (products().size() + other.products().size() > runtime::cuda::few_rows_most_products || stored_.what.is_gated ||
        other.stored_.what.is_gated || !runtime::cuda::same_rows(products()[0], other.products()[0]))
      return nullptr;
    auto both = std::make_shared<FewRowsPayload>(*this);
    std::vector<Contraction>& all = both->stored_.what.products;
    all.insert(all.end(), other.products().begin(), other.products().end());
    both->weights_.insert(both->weights_.end(), other.weights_.begin(), other.weights_.end());
    return both;
  }
  // silu(first) * second of two products, `turned` the other way round. Null where their kernel does not do that.
  std::shared_ptr<FewRowsPayload> gated(bool turned) const {
    if (!runtime::cuda::can_be_gated(products(), stored_.what.depth)) return nullptr;
    auto made = std::make_shared<FewRowsPayload>(*this);
    made->stored_.what.is_gated = true;
    if (turned) {
      std::swap(made->stored_.what.products[0], made->stored_.what.products[1]);
      std::swap(made->weights_[0], made->weights_[1]);
    }
    return made;
  }

 private:
  std::vector<int> weights_;  // buffers of the schedule
  std::int64_t stages_;
  bool has_copy_engine_;
};

const FewRowsPayload* few_rows_of(const Step& step) { return dynamic_cast<const FewRowsPayload*>(step.payload.get()); }

class FewRowsProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cuda || options().own_kernels == 0) return false;
    const std::optional<DType> dtype = multiplied(node);
    const bool is_narrow = dtype && is_floating(*dtype) && info(*dtype).bits == 16;
    return (dtype ? is_narrow : is_device_product_with_bias(node)) && !is_matrix_times_vector(node);
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    std::optional<Contraction> product = few_rows(contraction_of(candidate));
    const auto [room, has_copy_engine] = product ? limits_of(candidate.device) : Limits();
    if (room == 0) return {};
    // So that a block has all of k, if it can have two tiles on their way.
    constexpr std::int64_t short_depth = 128, long_depth = 256;
    const std::int64_t k = product->k.constant();
    std::int64_t depth = short_depth;
    if (k > few_rows_warps * short_depth && k <= few_rows_warps * long_depth &&
        codegen::few_rows_shared(long_depth, 2, has_copy_engine) < room)
      depth = long_depth;
    std::int64_t stages = 5;
    while (stages > 1 && codegen::few_rows_shared(depth, stages, has_copy_engine) >= room) --stages;
    if (depth == long_depth) stages = 2;
    if (stages < 2) return {};
    auto payload = std::make_shared<FewRowsPayload>(
        runtime::cuda::FewRowsFields{{*std::move(product)}, depth, false, false}, candidate, stages, has_copy_engine);
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(60000), std::move(payload)};  // of the library 50000
  }
  std::shared_ptr<Payload> joined(const Step& first, const Step& second) const override;
  // Two products, of which one gates the other.
  std::optional<Followed> followed(const Step& products, const Step& follower, bool keeps, Device) const override;
};

std::shared_ptr<Payload> FewRowsProvider::joined(const Step& first, const Step& second) const {
  const FewRowsPayload *const one = few_rows_of(first), *const other = few_rows_of(second);
  return one && other && first.buffers[0] == second.buffers[0] ? one->with(*other) : nullptr;
}

std::optional<Followed> FewRowsProvider::followed(const Step& products, const Step& follower, bool keeps,
                                                  Device) const {
  if (keeps) return {};
  const FewRowsPayload* const pair = few_rows_of(products);
  const loop::Kernel* const kernel = follower.payload->kernel();
  if (!pair || pair->products().size() != 2 || products.buffers.size() != 6 || follower.buffers.size() != 3) return {};
  const auto place = [&](int buffer) {
    return static_cast<int>(std::ranges::find(follower.buffers, buffer) - follower.buffers.begin());
  };
  const int first = place(products.buffers[2]), second = place(products.buffers[5]);
  if (!kernel || first > 2 || second > 2) return {};
  const Contraction& c = pair->products()[0];
  if (!c.c_row.same(c.n) || !c.c_offset.same(Dim(0))) return {};
  const std::optional<KnownGate> known = known_gate(*kernel, first, second, c.m * c.n);
  if (!known) return {};
  const bool turned = known->gate == second;
  std::shared_ptr<Payload> payload = pair->gated(turned);
  if (!payload) return {};
  std::vector<int> buffers = products.buffers;
  if (turned) std::swap(buffers[1], buffers[4]);
  buffers[2] = buffers[5] = follower.buffers[static_cast<std::size_t>(known->result)];
  return Followed{std::move(payload), std::move(buffers)};
}

}  // namespace

const Provider& few_rows_product() {
  static constinit const FewRowsProvider provider;
  return provider;
}

}  // namespace weft::providers
