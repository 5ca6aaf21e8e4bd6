// Products of 8-bit floats with scales on a GPU, whole, by cuBLASLt. Sizes are known, and those along which memory is
// read multiples of 16; where the library has no kernel for them, the body is done.
#include "runtime/cuda/scaled_product.hpp"
#include "ir/callee.hpp"
#include "providers/provider.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::ScaledProduct;

constexpr std::int64_t together = 16;  // elements of 8 bits

std::optional<std::int64_t> size_of(Dim dim) {
  return dim.is_constant() && dim.constant() > 0 ? std::optional(dim.constant()) : std::nullopt;
}

// A call whose types are those of scaled_matmul. A graph that was imported may have given the name to something else.
std::optional<ScaledProduct> scaled_product_of(const Node& node) {
  const std::string_view prefix = "scaled_matmul_";
  if (node.op != Op::call || node.definition || node.operand_count < 4 || node.operand_count > 5 ||
      node.output_count != 1 || !std::string_view(name_of(node)).starts_with(prefix))
    return {};
  const Type &a = type_of(node.input(0)), &b = type_of(node.input(1));
  const Type &a_scale = type_of(node.input(2)), &b_scale = type_of(node.input(3));
  if (!only_holds(a.dtype) || !only_holds(b.dtype) || a.shape.rank() != 2 || b.shape.rank() != 2 ||
      a_scale.dtype != DType::f32 || b_scale.dtype != DType::f32 || !a.shape[1].same(b.shape[1]))
    return {};
  const auto m = size_of(a.shape[0]), n = size_of(b.shape[0]), k = size_of(a.shape[1]);
  if (!m || !n || !k || *n % together != 0 || *k % together != 0) return {};
  if (!node.type.shape.same(Shape::of(a.shape[0], b.shape[0]))) return {};
  ScaledProduct p{
      .a = a.dtype, .b = b.dtype, .result = node.type.dtype, .m = *m, .n = *n, .k = *k, .a_row = *k, .b_row = *k};
  p.by_rows = a_scale.shape.rank() == 2;
  if (p.by_rows != (b_scale.shape.rank() == 2)) return {};
  p.has_bias = node.operand_count == 5;
  if (p.has_bias && (type_of(node.input(4)).dtype != p.result || p.result == DType::f32)) return {};
  return p;
}

class ScaledPayload final : public Payload {
 public:
  ScaledPayload(const ScaledProduct& product, const Candidate& candidate) : product_(product) {
    for (const PlacedValue& operand : candidate.operands) offsets_.push_back(operand.offset);
    offsets_.push_back(candidate.result().offset);
  }
  std::string details() const override {
    const ScaledProduct& p = product_;
    return " [" + std::to_string(p.m) + "," + std::to_string(p.k) + "] x [" + std::to_string(p.k) + "," +
           std::to_string(p.n) + "]" + (p.by_rows ? ", scales of rows" : "") + (p.has_bias ? ", bias" : "");
  }
  std::string by() const override { return "cuBLASLt"; }
  loop::Cost cost() const override {
    const ScaledProduct& p = product_;
    const auto element = static_cast<std::int64_t>(storage_bytes(p.result, 1));
    return {Dim(p.m * p.k + p.n * p.k + p.m * p.n * element), Dim(2 * p.m * p.n * p.k)};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::DeviceScaledProduct>(product_, offsets_, preparation);
  }

 private:
  ScaledProduct product_;
  std::vector<Dim> offsets_;
};

class ScaledProvider final : public Provider {
 public:
  bool is_for_packages() const override { return false; }
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cuda) return false;
    const std::optional<ScaledProduct> product = scaled_product_of(node);
    return product && runtime::cuda::has_scaled_product(device, *product);
  }
  // In order: b [k, n] is transposed where it does not lie by columns.
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return is_row_major(shape, strides); }
  int alignment() const override { return together; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    const std::optional<ScaledProduct> product = scaled_product_of(candidate.node);
    if (!product) return {};
    auto payload = std::make_shared<ScaledPayload>(*product, candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(1000000), std::move(payload)};
  }
};

}  // namespace

const Provider& scaled_product() {
  static constinit const ScaledProvider provider;
  return provider;
}

}  // namespace weft::providers
