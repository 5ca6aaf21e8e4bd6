// Products of up to 64 rows by our own kernel, in which clusters of blocks share k
// (weft/detail/cuda_cluster_product.inc). In: sizes, a loaded function. Out: a step that queues it on the device's
// stream.
#pragma once
#include <optional>

#include "base/device_target.hpp"
#include "runtime/cuda/kernel_arguments.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/product_numbers.hpp"

namespace weft::runtime::cuda {

// Whether the kernel is for devices of this target, whose blocks may have so many bytes of shared memory.
bool has_cluster_products(const DeviceTarget& target, std::int64_t shared_of_block);
// Whether the device is there, and such a one.
bool has_cluster_products(Device device);

// How blocks share a product: each has so many columns of the result and so much of k, and so many blocks are a
// cluster. It follows from sizes alone, and so do the roundings.
struct ClusterParts {
  std::int64_t columns = 0, depth = 0, parts = 0;
  bool operator==(const ClusterParts&) const = default;
};
// Nothing where no parts have room for two blocks a multiprocessor.
std::optional<ClusterParts> cluster_parts(std::int64_t n, std::int64_t k);

struct ClusterProductCall {
  Contraction product;  // without a batch
  ClusterParts parts;
  bool has_gelu = false;      // the result is GELU by tanh of the product
  bool begins_early = false;  // no kernel that may still run writes the weights
};

// Buffers: x [m, k], weights [n, k], the bias if there is one, the result; all sizes are known. Memory of a
// device begins at multiples of 16 bytes (interop/strided.cpp), and the provider asks that of what is read in it.
class ClusterProduct final : public Runnable {
 public:
  ClusterProduct(const ClusterProductCall& what, const Preparation& preparation);
  void run(const StepCall& call) const override;

 private:
  ClusterProductCall what_;
  ProductNumbers product_;
  DeviceState& device_;
  DeviceFunction function_;
};

}  // namespace weft::runtime::cuda
