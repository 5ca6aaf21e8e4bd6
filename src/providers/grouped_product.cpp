// Products over groups of rows of 16-bit floats on a GPU, whole, by our own kernels: a product of each row with the
// matrix of its group, and the sums that are the gradient of these matrices. How many rows there are may be a symbol.
// Hopper GPUs have kernels of their own; on others, and for what these do not take, each warp multiplies for itself.
#include "runtime/cuda/grouped_product.hpp"
#include "base/options.hpp"
#include "codegen/cuda_functions.hpp"
#include "ir/callee.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::GroupedProduct;

constexpr std::int64_t together = 8;  // 16 bytes

bool is_whole(Dim dim) { return dim.is_constant() && dim.constant() > 0 && dim.constant() % together == 0; }

// Whether the kernels take a call of these types. A graph that was imported may have given the name to something else.
std::optional<GroupedProduct> grouped_product_of(const Node& node, Device device) {
  if (node.op != Op::call || node.definition || node.operand_count != 3 || node.output_count != 1) return {};
  const std::string_view name = name_of(node);
  GroupedProduct p;
  p.of_rows = name == "grouped_matmul_of_rows";
  if (!p.of_rows && name != "grouped_matmul") return {};
  const Type &x = type_of(node.input(0)), &y = type_of(node.input(1)), &ends = type_of(node.input(2));
  const Shape& result = node.type.shape;
  const int rank = p.of_rows ? 2 : 3;
  if ((x.dtype != DType::f16 && x.dtype != DType::bf16) || y.dtype != x.dtype || node.type.dtype != x.dtype ||
      ends.dtype != DType::i64 || x.shape.rank() != 2 || y.shape.rank() != rank || ends.shape.rank() != 1 ||
      result.rank() != 5 - rank)
    return {};
  p.dtype = x.dtype, p.rows = x.shape[0], p.m = x.shape[1], p.n = y.shape[rank - 1], p.groups = ends.shape[0];
  const Shape of_rows = Shape::of(p.groups, p.m, p.n), of_groups = Shape::of(p.rows, p.n);
  if (!result.same(p.of_rows ? of_rows : of_groups) || !y.shape.same(p.of_rows ? of_groups : of_rows)) return {};
  if (!is_whole(p.m) || !is_whole(p.n) || !p.groups.is_constant()) return {};
  const std::optional<int> stages = runtime::cuda::warp_stages_of(device, p);
  if (!stages) return {};
  p.warp_stages = *stages;
  return p;
}

class GroupedPayload final : public Payload {
 public:
  GroupedPayload(const GroupedProduct& product, const Candidate& candidate) : product_(product) {
    GroupedProduct& p = product_;
    const PlacedValue &x = candidate.operands[0], &y = candidate.operands[1];
    p.offsets = {x.offset, y.offset, candidate.operands[2].offset, candidate.result().offset};
    p.x_row = x.strides[0];
    if (p.of_rows) {
      p.y_group = 0, p.y_row = y.strides[0], p.by_rows = true;
    } else {
      p.by_rows = y.strides[2].same(Dim(1));
      p.y_group = y.strides[0], p.y_row = y.strides[p.by_rows ? 1 : 2];
    }
    // The stride of an axis of one element is any.
    if (p.rows.same(Dim(1))) p.x_row = p.m, p.y_row = p.of_rows ? p.n : p.y_row;
    if (p.groups.same(Dim(1))) p.y_group = p.m * p.n;
  }
  std::string details() const override {
    const GroupedProduct& p = product_;
    const auto size = [](Dim dim) { return dims::to_string(dim); };
    const std::string x = "[" + size(p.rows) + "," + size(p.m) + "]";
    return p.of_rows ? " " + x + " with [" + size(p.rows) + "," + size(p.n) + "], " + size(p.groups) + " groups"
                     : " " + x + " x [" + size(p.groups) + "," + size(p.m) + "," + size(p.n) + "]";
  }
  std::string by() const override {
    return product_.warp_stages > 0 ? "tensor cores, each warp for itself" : "tensor cores";
  }
  loop::Cost cost() const override {
    const GroupedProduct& p = product_;
    const Dim products = p.rows * p.m * p.n;
    return {Dim(2) * (p.rows * p.m + p.groups * p.m * p.n + p.rows * p.n), products + products};
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    const codegen::GroupsKernel kernel = product_.of_rows   ? codegen::GroupsKernel::sums
                                         : product_.by_rows ? codegen::GroupsKernel::rows_by_rows
                                                            : codegen::GroupsKernel::rows;
    if (product_.warp_stages > 0)
      return sources.add(codegen::cuda_groups_by_warps(product_.dtype, kernel, product_.warp_stages));
    codegen::CudaFunction product = codegen::cuda_groups(product_.dtype, kernel);
    product.shared = runtime::cuda::grouped_shared;
    return sources.add(product);
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::DeviceGroupedProduct>(product_, preparation);
  }

 private:
  GroupedProduct product_;
};

class GroupedProvider final : public Provider {
 public:
  bool is_for_packages() const override { return false; }
  bool takes(const Node& node, Device device) const override {
    return device.type == Device::Type::cuda && options().own_kernels != 0 &&
           grouped_product_of(node, device).has_value();
  }
  // Rows that begin at multiples of 16 bytes; of the matrices of groups columns may.
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    if (strides.size() == 1) return is_row_major(shape, strides);
    const std::size_t last = strides.size() - 1;
    std::size_t inner = last;
    if (strides.size() == 3 && !strides[last].same(Dim(1))) inner = 1;
    if (!strides[inner].same(Dim(1))) return false;
    for (std::size_t i = 0; i <= last; ++i)
      if (i != inner && !is_whole(strides[i]) && !shape[static_cast<int>(i)].same(Dim(1))) return false;
    return true;
  }
  int alignment() const override { return together; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    const std::optional<GroupedProduct> product = grouped_product_of(candidate.node, candidate.device);
    if (!product) return {};
    auto payload = std::make_shared<GroupedPayload>(*product, candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(500000), std::move(payload)};
  }
};

}  // namespace

const Provider& grouped_product() {
  static constinit const GroupedProvider provider;
  return provider;
}

}  // namespace weft::providers
