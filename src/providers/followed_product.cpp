// A product on a device and the activation that reads it, as one kernel of cuBLASLt: for the schedule, which finds the
// two (schedule/epilogues.hpp).
#include <algorithm>

#include "base/options.hpp"
#include "providers/known_epilogue.hpp"
#include "providers/product.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/followed_product.hpp"
#include "runtime/cuda/tensor_core_product.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::FollowedProductCall;

class FollowedPayload final : public Payload {
 public:
  FollowedPayload(FollowedProductCall call, loop::Cost cost, loop::Kernel kernel, std::vector<int> inputs)
      : call_(std::move(call)), cost_(cost), kernel_(std::move(kernel)), inputs_(std::move(inputs)) {}
  std::string details() const override {
    const Contraction& c = call_.product;
    const auto size = [](Dim dim) { return dims::to_string(dim); };
    return " [" + size(c.m) + "," + size(c.k) + "] x [" + size(c.k) + "," + size(c.n) + "]" +
           (c.has_bias ? " + [" + size(c.n) + "]" : "") + (call_.keeps ? ", kept" : "") + ", and " +
           loop::to_text(kernel_);
  }
  std::string by() const override { return "cuBLASLt"; }
  loop::Cost cost() const override { return cost_; }
  std::vector<bool> writes(std::size_t) const override {
    std::vector<bool> all(inputs_.size(), false);
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i)
      if (i != call_.place)
        all.push_back(kernel_.buffers[i].written);
      else if (call_.keeps)
        all.push_back(true);
    return all;
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override { return sources.add({&kernel_, 1}); }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::FollowedProduct>(call_, preparation);
  }

 private:
  FollowedProductCall call_;
  loop::Cost cost_;
  loop::Kernel kernel_;
  std::vector<int> inputs_;  // buffers of the schedule: those of the product
};

// Where both were measured to be faster than one after the other (docs/performance_gpu.md): large products on Hopper
// GPUs.
bool is_worth_it(Device device, const Contraction& c) {
  constexpr std::int64_t least_rows = 1024, least_columns = 1024, least_depth = 256;
  const int wanted = options().product_epilogues;
  if (wanted == 0 || !runtime::cuda::has_product_library()) return false;
  const std::optional<runtime::cuda::ProductKernel> kernel = runtime::cuda::product_kernel(device, c);
  if (!kernel || kernel->by_warps || kernel->product.a_by_rows) return false;
  return wanted == 2 ||
         (c.m.constant() >= least_rows && c.n.constant() >= least_columns && c.k.constant() >= least_depth);
}

}  // namespace

std::optional<Followed> followed_product(const Step& product, const Step& follower, bool keeps, Device device) {
  const auto* const alone = dynamic_cast<const Product*>(product.payload.get());
  const loop::Kernel* const kernel = follower.payload->kernel();
  if (device.type != Device::Type::cuda || !alone || !kernel) return {};
  const std::vector<bool> writes = product.payload->writes(product.buffers.size());
  if (std::ranges::count(writes, true) != 1) return {};
  const Contraction& c = alone->contraction();
  const std::size_t buffers = kernel->buffers.size();
  if (follower.buffers.size() != buffers || buffers > runtime::cuda::most_followed_buffers) return {};
  if (!is_worth_it(device, c) || !c.c_row.same(c.n) || !c.c_column.same(Dim(1)) || !c.c_offset.same(Dim(0))) return {};
  const auto place = std::ranges::find(follower.buffers, product.buffers.back()) - follower.buffers.begin();
  const std::optional<KnownEpilogue> known = known_epilogue(*kernel, static_cast<int>(place), c.m * c.n, c.n, keeps);
  if (!known) return {};
  // The library adds one bias, and none to a gradient.
  if (c.has_bias && (known->bias >= 0 || known->function == runtime::cuda::Epilogue::gelu_gradient)) return {};
  const auto number = [&](int buffer) { return buffer < 0 ? buffers : static_cast<std::size_t>(buffer); };
  const loop::Cost cost = alone->cost(), more = follower.payload->cost();
  const Dim bytes = Dim(2) * c.m * c.n;  // the product, which is not read, and kept or not written
  FollowedProductCall call{.product = c,
                           .buffers = buffers,
                           .place = static_cast<std::size_t>(place),
                           .keeps = keeps,
                           .sizes = kernel->parameters,
                           .epilogue = known->function,
                           .bias = number(known->bias),
                           .aux = number(known->aux),
                           .result = number(known->result)};
  const loop::Cost of_both{cost.bytes + more.bytes - (keeps ? bytes : bytes + bytes),
                           cost.operations + more.operations};
  std::vector<int> inputs(product.buffers.begin(), product.buffers.end() - 1), all = inputs;
  for (const int each : follower.buffers)
    if (keeps || each != product.buffers.back()) all.push_back(each);
  return Followed{std::make_shared<FollowedPayload>(std::move(call), of_both, *kernel, std::move(inputs)),
                  std::move(all)};
}

}  // namespace weft::providers
