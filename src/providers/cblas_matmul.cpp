// Products of f32 and f64 on the CPU by a CBLAS library, where one is installed: those in which it was measured to be
// faster than our own kernel, and all larger ones where WEFT_CBLAS=1 asks for it.
#include "base/options.hpp"
#include "providers/product.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/host/cblas_product.hpp"
#include "runtime/host/isa.hpp"

namespace weft::providers {

namespace {

constexpr std::int64_t least = std::int64_t{1} << 18;  // multiplications: a call costs a microsecond before the first

// Few rows times a deep matrix, on a CPU with AVX2: 0.59 to 0.95 of our own time (docs/decisions/0007).
bool is_faster(const Node& node) {
  const Shape &a = type_of(node.operands[0]).shape, &result = node.type.shape;
  const Dim rows = result[result.rank() - 2], columns = result[result.rank() - 1], depth = a[a.rank() - 1];
  return target_instruction_set() == InstructionSet(Isa::avx2) && rows.constant() >= 16 && rows.constant() <= 128 &&
         columns.constant() >= 512 && depth.constant() >= 3072;
}

class CblasPayload final : public StoredPayload<runtime::StoredCblasProduct, Product> {
 public:
  CblasPayload(const Candidate& candidate, const runtime::cblas::Library& library)
      : StoredPayload(runtime::StoredCblasProduct(contraction_of(candidate), library), candidate) {}
  bool is_made() const { return stored_.is_made(); }
};

class CblasProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    const std::optional<DType> dtype = multiplied(node);
    if (target_instruction_set().architecture != host_architecture) return false;  // who knows what is there
    if (device.type != Device::Type::cpu || (dtype != DType::f32 && dtype != DType::f64)) return false;
    const bool asked = options().cblas == 1;
    if (multiplications(node) < least || (!asked && !is_faster(node))) return false;
    const runtime::cblas::Library* library = runtime::cblas::library();
    return library && (asked || library->is_measured);
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    return runtime::ProductTiles::reads(shape, strides);
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    const bool asked = options().cblas == 1;
    const bool rows_lie_whole = candidate.operands[0].strides.back().same(Dim(1));
    if (!asked && !rows_lie_whole) return std::nullopt;  // 0.86 to 1.01
    auto payload = std::make_shared<CblasPayload>(candidate, *runtime::cblas::library());
    if (!payload->is_made()) return std::nullopt;
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(asked ? 70 : 64), std::move(payload)};  // asked for: less than others
  }
};

}  // namespace

const Provider& cblas_matmul() {
  static constinit const CblasProvider provider;
  return provider;
}

}  // namespace weft::providers
