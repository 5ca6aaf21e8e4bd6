// Products of 17 to 64 rows with weights [n, k] of 16-bit floats on a Hopper GPU, as one short text has them in each
// layer: by our own kernel, in which clusters of blocks share k and ask for their weights before the kernel in front
// has ended (weft/detail/cuda_cluster_product.inc). GELU by tanh may be done at its end. What such products gain over
// the library's is in docs/performance_gpu.md, gpu-gpt2-infer.
#include "runtime/cuda/cluster_product.hpp"

#include <algorithm>

#include "base/device_target.hpp"
#include "base/options.hpp"
#include "codegen/cuda_functions.hpp"
#include "providers/known_epilogue.hpp"
#include "providers/product.hpp"
#include "providers/sources.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::ClusterParts, runtime::cuda::ClusterProductTile;

constexpr std::int64_t least_rows = 17, most_rows = ClusterProductTile::rows;  // of fewer rows: few_rows_product
constexpr std::int64_t least_columns = 64, least_depth = 128;
constexpr std::int64_t most_blocks = 264;  // two a multiprocessor; of more the library is as fast
constexpr std::int64_t together = 8;       // 16 bytes at once

bool is(Dim dim, std::int64_t value) { return dim.same(Dim(value)); }
bool is_whole(Dim dim) { return dim.is_constant() && dim.constant() % together == 0; }

bool is_for(Device device) {
  // Of a package: the device there may be another.
  return !current_device_target() && runtime::cuda::has_cluster_products(device);
}

// The product without its batch axes of one item; nothing where the kernel does not take it.
std::optional<Contraction> middle_rows(Contraction c) {
  if ((c.dtype != DType::bf16 && c.dtype != DType::f16) || c.is_wide || c.a_is_chosen() || c.b_is_chosen()) return {};
  if (!std::ranges::all_of(c.batch, [](Dim size) { return is(size, 1); })) return {};
  c.batch.clear(), c.a_batch.clear(), c.b_batch.clear(), c.c_batch.clear();
  const Dim sizes[] = {c.m, c.n, c.k};
  if (!std::ranges::all_of(sizes, [](Dim size) { return size.is_constant(); })) return {};
  const std::int64_t m = c.m.constant(), n = c.n.constant(), k = c.k.constant();
  constexpr std::int64_t most = 1 << 20;
  if (m < least_rows || m > most_rows || n < least_columns || n > most || k < least_depth || k > most) return {};
  if (!is(c.a_column, 1) || !is(c.b_row, 1) || !is(c.c_column, 1)) return {};
  const Dim whole[] = {c.n, c.k, c.a_row, c.b_column, c.c_row, c.a_offset, c.b_offset, c.c_offset, c.bias_offset};
  if (!std::ranges::all_of(whole, is_whole) || c.b_column.constant() < k) return {};
  return c;
}

class ClusterPayload final : public Product {
 public:
  ClusterPayload(const Candidate& candidate, Contraction product, ClusterParts parts)
      : Product(candidate), call_{std::move(product), parts}, weights_(candidate.operands[1].buffer) {}
  std::string details() const override { return Product::details() + (call_.has_gelu ? ", and GELU" : ""); }
  std::string by() const override { return "tensor cores, in clusters"; }
  std::shared_ptr<const Payload> reading_early(const std::vector<bool>& steady) const override {
    if (!steady[static_cast<std::size_t>(weights_)]) return nullptr;
    auto early = std::make_shared<ClusterPayload>(*this);
    early->call_.begins_early = true;
    return early;
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    const ClusterParts& parts = call_.parts;
    return sources.add(
        codegen::cuda_cluster_product({call_.product.dtype, parts.columns, parts.depth, parts.parts, call_.has_gelu}));
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::ClusterProduct>(call_, preparation);
  }
  std::shared_ptr<Payload> with_gelu() const {
    auto made = std::make_shared<ClusterPayload>(*this);
    made->call_.has_gelu = true;
    return made;
  }
  const Contraction& product() const { return call_.product; }
  bool has_gelu() const { return call_.has_gelu; }

 private:
  runtime::cuda::ClusterProductCall call_;
  int weights_;  // buffer of the schedule
};

class ClusterProvider final : public Provider {
 public:
  bool is_for_packages() const override { return false; }
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cuda || options().own_kernels == 0) return false;
    const std::optional<DType> dtype = multiplied(node);
    const bool is_narrow = dtype && is_floating(*dtype) && info(*dtype).bits == 16;
    return (dtype ? is_narrow : is_device_product_with_bias(node)) && !is_matrix_times_vector(node);
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    std::optional<Contraction> product = middle_rows(contraction_of(candidate));
    if (!product || !is_for(candidate.device)) return {};
    const std::int64_t n = product->n.constant();
    const std::optional<ClusterParts> parts = runtime::cuda::cluster_parts(n, product->k.constant());
    if (!parts || (n + parts->columns - 1) / parts->columns * parts->parts > most_blocks) return {};
    auto payload = std::make_shared<ClusterPayload>(candidate, *std::move(product), *parts);
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(60000), std::move(payload)};  // of the library 50000
  }
  std::optional<Followed> followed(const Step& product, const Step& follower, bool keeps, Device) const override {
    const auto* const payload = dynamic_cast<const ClusterPayload*>(product.payload.get());
    const loop::Kernel* const kernel = follower.payload->kernel();
    if (keeps || !payload || payload->has_gelu() || !kernel || follower.buffers.size() != kernel->buffers.size())
      return {};
    const Contraction& c = payload->product();
    if (!c.c_row.same(c.n) || !is(c.c_offset, 0)) return {};
    const auto place = std::ranges::find(follower.buffers, product.buffers.back()) - follower.buffers.begin();
    const auto known = known_epilogue(*kernel, static_cast<int>(place), c.m * c.n, c.n, keeps);
    if (!known || known->function != runtime::cuda::Epilogue::gelu || known->bias >= 0) return {};
    std::vector<int> buffers = product.buffers;
    buffers.back() = follower.buffers[static_cast<std::size_t>(known->result)];
    return Followed{payload->with_gelu(), std::move(buffers)};
  }
};

}  // namespace

const Provider& cluster_product() {
  static constinit const ClusterProvider provider;
  return provider;
}

}  // namespace weft::providers
