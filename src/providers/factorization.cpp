#include "ir/factorization.hpp"

#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/factorization.hpp"
#include "runtime/cuda/fourier.hpp"
#include "runtime/factorization.hpp"

namespace weft::providers {

namespace {

class FactorizationPayload final : public Payload {
 public:
  explicit FactorizationPayload(const Candidate& candidate)
      : device_(candidate.device),
        operands_(candidate.operands.size()),
        what_(factorization_of(candidate.node.op, candidate.node.attributes(), candidate.operands[0].type.dtype)),
        sizes_(factorization_sizes(candidate.node.op, candidate.node.attributes(),
                                   candidate.operands.front().type.shape, candidate.operands.back().type.shape)),
        attributes_(candidate.node.attributes().to_text(what_.dtype)) {
    for (const auto* values : {&candidate.operands, &candidate.results})
      for (const PlacedValue& value : *values)
        bytes_.push_back(storage_bytes(info(value.type.dtype), value.type.shape.element_count()));
  }
  static auto fields(auto& self) {
    auto& [kind, dtype, upper, transposed, unit, vectors, full, inverse] = self.what_;
    auto& [batch, rows, columns, sides] = self.sizes_;
    return std::tie(self.device_.type, self.device_.index, self.operands_, kind, dtype, upper, transposed, unit,
                    vectors, full, inverse, batch, rows, columns, sides, self.attributes_, self.bytes_);
  }
  explicit FactorizationPayload(runtime::FieldReader& from) {
    std::apply(from, fields(*this));
    if (what_.kind > Factorization::Kind::inverse_real_fourier) throw runtime::Malformed();
  }
  std::string stored_as() const override { return "factorization"; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override { std::apply(to, fields(*this)); }
  bool may_fail() const override { return true; }  // it allocates
  std::string details() const override { return attributes_.empty() ? "" : " " + attributes_; }
  std::string by() const override {
    if (!has_device_library(device_)) return "Eigen";
    return is_transform() ? "cuFFT" : "cuSOLVER";
  }
  loop::Cost cost() const override {
    // A transform's logarithm counts as 16.
    const Dim third = is_transform()                                        ? Dim(16)
                      : what_.kind == Factorization::Kind::triangular_solve ? sizes_.sides
                                                                            : sizes_.columns;
    Dim bytes = 0;
    for (const Dim each : bytes_) bytes = bytes + each;
    return {bytes, sizes_.batch * sizes_.rows * sizes_.columns * third};
  }
  std::vector<bool> writes(std::size_t buffers) const override {
    std::vector<bool> all(buffers, true);
    for (std::size_t i = 0; i < operands_; ++i) all[i] = false;
    return all;
  }
  // Where the device has a library: the function that makes its operands.
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (!has_device_library(sources.device())) return {};
    const bool transforms = is_transform();
    const std::string name =
        transforms ? codegen::cuda_fourier_name(what_.dtype) : codegen::cuda_matrices_name(what_.dtype);
    sources.add(name, transforms ? codegen::cuda_fourier(what_.dtype) : codegen::cuda_matrices(what_.dtype));
    return {name};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.entry.name.empty())
      return std::make_unique<runtime::FactorizationStep>(what_, sizes_, bytes_, operands_, preparation);
    if (is_transform())
      return std::make_unique<runtime::cuda::DeviceFourier>(what_, sizes_.batch, sizes_.columns, preparation);
    return std::make_unique<runtime::cuda::DeviceFactorization>(what_, sizes_, bytes_, operands_, preparation);
  }

 private:
  bool is_transform() const { return what_.is_transform(); }
  // The host does what the device has no library for.
  bool has_device_library(Device device) const {
    if (device.type == Device::Type::cpu || what_.kind == Factorization::Kind::eig ||
        what_.kind == Factorization::Kind::ldl)
      return false;
    return is_transform() ? runtime::cuda::fft_available() : runtime::cuda::solver_available();
  }

  Device device_;
  std::size_t operands_ = 0;
  Factorization what_;
  FactorizationSizes<Dim> sizes_;
  std::string attributes_;
  std::vector<Dim> bytes_;  // of each buffer
};

class FactorizationProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return info(node.op).kind == OpKind::factorization; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<FactorizationPayload>(candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations, std::move(payload)};
  }
  std::shared_ptr<const Payload> read(runtime::FieldReader& from) const override {
    return std::make_shared<FactorizationPayload>(from);
  }
};

}  // namespace

const Provider& factorization() {
  static constinit const FactorizationProvider provider;
  return provider;
}

}  // namespace weft::providers
