// Products on a device, with a layer's bias too, but for a matrix times a vector: that is a generated kernel. The
// library takes operands with unit stride along an axis; for the others, and where sizes that are not known yet may
// lead to such, a kernel is generated too. Those of 16-bit floats may be done by our own kernels for tensor cores,
// where these are faster, and where there is no library; what they do not take then is done by a generated kernel.
#include "base/device_target.hpp"
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
    const bool is_for_package = current_device_target();
    has_library_ =
        runtime::cuda::library_takes(contraction_) && (is_for_package || runtime::cuda::has_product_library());
    if (!is_for_package) kernel_ = runtime::cuda::wanted_product_kernel(candidate.device, contraction_);
    if (!has_library_ && !kernel_) own_ = as_kernel();
  }
  std::string by() const override {
    if (own_) return "";
    if (!kernel_) return contraction_.is_tf32 ? "cuBLASLt, tf32" : "cuBLASLt";
    return std::string(has_library_ ? "cuBLASLt or " : "") + "tensor cores" +
           (kernel_->by_warps ? ", each warp for itself" : "") +
           (kernel_->is_cut() ? ", k cut into " + std::to_string(kernel_->cut.units) + " units" : "");
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (own_) return sources.add({&*own_, 1});
    if (!kernel_) return {};
    const runtime::cuda::KnownProduct& p = kernel_->product;
    const codegen::CudaProduct call{p.dtype, p.a_by_rows, p.b_by_rows, p.has_bias, kernel_->is_cut()};
    if (kernel_->by_warps) return sources.add(codegen::cuda_product_by_warps(call, p.is_wide, kernel_->stages));
    codegen::CudaFunction product = codegen::cuda_product(call);
    product.shared = runtime::cuda::product_shared;
    return sources.add(product);
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::DeviceProduct>(contraction_, preparation, sizes(), kernel_);
  }
  // A plan on disk has no kernel of this device's tensor cores.
  std::string stored_as() const override { return kernel_ ? "" : runtime::cuda::StoredProduct::name; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override {
    to(runtime::cuda::ProductFields{contraction_, sizes()});
  }

 private:
  std::vector<Dim> sizes() const { return own_ ? own_->parameters : std::vector<Dim>(); }

  bool has_library_ = true;
  std::optional<loop::Kernel> own_;                     // where nobody else takes the product
  std::optional<runtime::cuda::ProductKernel> kernel_;  // for tensor cores
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
