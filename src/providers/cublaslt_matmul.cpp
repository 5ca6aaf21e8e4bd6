// Products on a device, with a layer's bias too, but for a matrix times a vector: that is a generated kernel. The
// library takes operands with unit stride along an axis; for the others, and where sizes that are not known yet may
// lead to such, a kernel of our own is compiled too. Those of 16-bit floats may be done by our own kernel for tensor
// cores, where that is the faster one.
#include "codegen/cuda_functions.hpp"
#include "providers/product.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/blas.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/cuda/tensor_core_product.hpp"

namespace weft::providers {

namespace {

class DevicePayload final : public Product {
 public:
  explicit DevicePayload(const Candidate& candidate) : Product(candidate) {
    if (!runtime::cuda::library_takes(contraction_))
      own_ = as_kernel();
    else
      by_rows_ = runtime::cuda::tensor_cores_read_by_rows(candidate.device, contraction_);
  }
  std::string by() const override {
    if (own_) return "";
    return by_rows_ ? "cuBLASLt or tensor cores" : contraction_.is_tf32 ? "cuBLASLt, tf32" : "cuBLASLt";
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (own_) return sources.add({&*own_, 1});
    if (!by_rows_) return {};
    const Contraction& c = contraction_;
    codegen::CudaFunction product = codegen::cuda_product(c.dtype, *by_rows_, c.has_bias);
    product.shared = runtime::cuda::product_shared;
    return sources.add(product);
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::DeviceProduct>(contraction_, preparation, sizes(), by_rows_.has_value());
  }
  // A plan on disk has no kernel of this device's tensor cores.
  std::string stored_as() const override { return by_rows_ ? "" : runtime::cuda::StoredProduct::name; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override {
    to(runtime::cuda::ProductFields{contraction_, sizes()});
  }

 private:
  std::vector<Dim> sizes() const { return own_ ? own_->parameters : std::vector<Dim>(); }

  std::optional<loop::Kernel> own_;  // for strides that the library does not take
  std::optional<bool> by_rows_;      // of the kernel for tensor cores, where it is used
};

class DeviceProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cuda) return false;
    const std::optional<DType> dtype = multiplied(node);
    const bool is_product = dtype ? is_floating(*dtype) : is_device_product_with_bias(node);
    return is_product && !is_matrix_times_vector(node);
  }
  // The library has one batch axis; each step along another is a call.
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    if (strides.size() == 1) return has_unit_stride(shape, strides);
    Dim inner_stride = 0;  // of the batch axis inside; 0: none yet
    for (std::size_t axis = strides.size() - 2; axis-- > 0;) {
      const Dim size = shape[static_cast<int>(axis)];
      if (size.same(Dim(1))) continue;
      if (!inner_stride.same(Dim(0)) && !strides[axis].same(inner_stride)) return false;
      inner_stride = strides[axis] * size;
    }
    return has_unit_stride(shape, strides);
  }
  // Of other sizes no kernel reads 16 bytes at a time: 8.0 ms and not 0.95 for 8192 x 768 x 50257 in bf16 on an H200.
  std::int64_t size_multiple(const Node& node) const override {
    const std::optional<DType> dtype = multiplied(node);
    return dtype && is_floating(*dtype) && info(*dtype).bits == 16 ? 8 : 1;
  }
  std::optional<Followed> followed(const Step& product, const Step& follower, bool keeps,
                                   Device device) const override {
    return followed_product(product, follower, keeps, device);
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<DevicePayload>(candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(candidate.result().type.dtype == DType::f64 ? 30000 : 50000), std::move(payload)};
  }
};

}  // namespace

const Provider& cublaslt_matmul() {
  static constinit const DeviceProvider provider;
  return provider;
}

}  // namespace weft::providers
