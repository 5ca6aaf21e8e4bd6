// A product on a device and the pointwise kernel that reads it, as one launch of our own kernel for tensor cores: for
// the schedule, which finds the two (schedule/epilogues.hpp).
#include "base/hash.hpp"
#include "base/options.hpp"
#include "codegen/cuda.hpp"
#include "providers/known_epilogue.hpp"
#include "providers/product.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/cuda/tensor_core_product.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::FollowedProductFields;

// Over numbers, which its text then has in the place of slots. Nothing where a size is a symbol of the graph.
std::optional<loop::Kernel> with_known_sizes(const loop::Kernel& kernel) {
  loop::Kernel known = kernel;
  for (const Dim size : kernel.parameters)
    if (!size.is_constant()) return {};
  std::vector<loop::Axis> axes = kernel.axes;
  std::vector<Dim> replacement;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    axes[a].extent = loop::over_symbols(axes[a].extent, kernel);
    replacement.push_back(dims::axis(static_cast<int>(a), axes[a].extent));
  }
  loop::replace_axes(known, std::move(axes), replacement);
  for (loop::Instruction& it : known.body) it.index = loop::over_symbols(it.index, kernel);
  for (loop::Buffer& buffer : known.buffers) buffer.elements = loop::over_symbols(buffer.elements, kernel);
  known.parameters.clear();
  known.shared = {};
  return known;
}

std::string epilogue_name(const std::string& function) { return function + "_epilogue"; }

class FollowedPayload final : public StoredPayload<runtime::cuda::StoredFollowedProduct> {
 public:
  FollowedPayload(FollowedProductFields fields, loop::Kernel kernel, std::string epilogue, std::string name,
                  std::vector<int> inputs, bool by_rows)
      : StoredPayload(runtime::cuda::StoredFollowedProduct(std::move(fields))),
        kernel_(std::move(kernel)),
        epilogue_(std::move(epilogue)),
        name_(std::move(name)),
        inputs_(std::move(inputs)),
        by_rows_(by_rows) {}
  std::string details() const override {
    const Contraction& c = stored_.what.product;
    const auto size = [](Dim dim) { return dims::to_string(dim); };
    return " [" + size(c.m) + "," + size(c.k) + "] x [" + size(c.k) + "," + size(c.n) + "]" +
           (c.has_bias ? " + [" + size(c.n) + "]" : "") + (stored_.what.keeps ? ", kept" : "") + ", and " +
           loop::to_text(kernel_);
  }
  std::vector<bool> writes(std::size_t) const override {
    std::vector<bool> all(inputs_.size(), false);
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i)
      if (i != stored_.what.place)
        all.push_back(kernel_.buffers[i].written);
      else if (stored_.what.keeps)
        all.push_back(true);
    return all;
  }
  // A thread reads an element before it writes there; but the product is still under way elsewhere.
  bool in_place(int argument, int result) const override {
    return std::ranges::find(inputs_, argument) == inputs_.end() && loop::may_overwrite(kernel_, argument, result);
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    const Contraction& c = stored_.what.product;
    sources.add(name_,
                codegen::cuda_product_with(c.dtype, by_rows_, c.has_bias, name_, epilogue_name(name_), epilogue_));
    runtime::EntryPoint entry;
    entry.inner.push_back({name_, 1, runtime::cuda::product_threads, runtime::cuda::product_shared});
    entry.inner.push_back(sources.add({&kernel_, 1}));
    return entry;
  }

 private:
  loop::Kernel kernel_;
  std::string epilogue_, name_;
  std::vector<int> inputs_;  // buffers of the schedule: those of the product
  bool by_rows_;
};

// Where it is faster by itself than the library and the kernel one after the other (docs/performance.md).
bool is_worth_it(const Contraction& c) {
  constexpr std::int64_t least_rows = 1024, least_columns = 1024, least_depth = 256;
  return c.m.constant() >= least_rows && c.n.constant() >= least_columns && c.k.constant() >= least_depth;
}

}  // namespace

std::shared_ptr<Payload> followed_product(const Step& product, const Step& follower, bool keeps, Device device) {
  const auto* const alone = dynamic_cast<const Product*>(product.payload.get());
  const loop::Kernel* const given = follower.payload->kernel();
  if (device.type != Device::Type::cuda || options().tensor_cores == 0 || !alone || !given) return {};
  const Contraction& c = alone->contraction();
  if (follower.buffers.size() != given->buffers.size() || given->buffers.size() > runtime::cuda::most_followed_buffers)
    return {};
  const std::optional<bool> by_rows = runtime::cuda::tensor_cores_take(device, c);
  if (!by_rows || !c.c_row.same(c.n) || !c.c_offset.same(Dim(0)) || (c.n % Dim(8)).constant() != 0) return {};
  if (options().tensor_cores != 2 && !is_worth_it(c)) return {};
  std::optional<loop::Kernel> kernel = with_known_sizes(*given);
  if (!kernel) return {};
  const auto place = std::ranges::find(follower.buffers, product.buffers.back()) - follower.buffers.begin();
  const auto& filled = kernel->buffers[static_cast<std::size_t>(place)];
  Dim points = 1;
  for (const loop::Axis& axis : kernel->axes) points = points * axis.extent;
  if (filled.dtype != c.dtype || !points.same(c.m * c.n) || !codegen::may_be_epilogue(*kernel, static_cast<int>(place)))
    return {};
  const int at = static_cast<int>(place);
  const std::optional<KnownEpilogue> known = known_epilogue(*kernel, at, keeps);
  if (known && c.has_bias && (known->bias >= 0 || known->function == runtime::cuda::Epilogue::gelu_gradient)) return {};
  const auto buffer = [&](int number) { return number < 0 ? given->buffers.size() : static_cast<std::size_t>(number); };
  kernel->comments.clear();  // they name lines, and the function is one for all that compute the same
  kernel->name = "epilogue";
  const Digest digest = Hasher().add(codegen::generate_epilogue(*kernel, at, keeps)).digest();
  const std::string name = codegen::cuda_product_name(c.dtype, *by_rows, c.has_bias) + "_" + hex(digest).substr(0, 16);
  kernel->name = epilogue_name(name);
  loop::Cost cost = alone->cost(), more = follower.payload->cost();
  const Dim bytes = Dim(2) * c.m * c.n;  // the product, which is not read, and kept or not written
  FollowedProductFields fields{
      .product = c,
      .buffers = given->buffers.size(),
      .place = static_cast<std::size_t>(place),
      .keeps = keeps,
      .sizes = given->parameters,
      .epilogue = digest.low,
      .by_library = static_cast<std::uint8_t>(known ? known->function : runtime::cuda::Epilogue::none),
      .bias = buffer(known ? known->bias : -1),
      .aux = buffer(known ? known->aux : -1),
      .result = buffer(known ? known->result : 0),
      .cost = {cost.bytes + more.bytes - (keeps ? bytes : bytes + bytes), cost.operations + more.operations}};
  return std::make_shared<FollowedPayload>(std::move(fields), *given, codegen::generate_epilogue(*kernel, at, keeps),
                                           name, std::vector<int>(product.buffers.begin(), product.buffers.end() - 1),
                                           *by_rows);
}

}  // namespace weft::providers
