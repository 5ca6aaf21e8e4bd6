// The steps of a device's plan as a file has them: the fields of the host's steps (host/steps.hpp), and what makes them
// ready on a device. In: fields. Out: the Runnables of cuda/steps.hpp. Reading them opens no device.
#pragma once
#include "runtime/host/steps.hpp"

namespace weft::runtime::cuda {

class StoredKernel final : public StepOf<StoredKernel, KernelFields> {
 public:
  static constexpr const char* name = "kernel";
  using StepOf::StepOf;
  bool generated() const override { return true; }
  StepCost cost() const override { return what.cost; }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const {
    if (what.parameters.empty()) throw Malformed();
  }
};

struct ProductFields {
  Contraction product;
  std::vector<Dim> sizes;  // the slots of the kernel for its strides, if the entry point has one
  static auto fields(auto& self) { return std::tie(self.product, self.sizes); }
};
class StoredProduct final : public StepOf<StoredProduct, ProductFields> {
 public:
  static constexpr const char* name = "cublaslt_matmul";
  using StepOf::StepOf;
  std::string by() const override { return what.sizes.empty() ? "cuBLASLt" : ""; }
  StepCost cost() const override { return cost_of(what.product); }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const {
    runtime::check(what.product);
    if (!is_floating(what.product.dtype) || what.product.a_is_chosen() || what.product.b_is_chosen()) throw Malformed();
  }
};

// Products of the same few rows, in one launch.
struct FewRowsFields {
  std::vector<Contraction> products;  // without a batch; they differ in the weights, the bias and the result
  std::int64_t depth = 0;
  bool begins_early = false;  // no kernel that may still run writes the weights
  bool is_gated = false;      // of two products the result is silu(first) * second, in the place of each
  static auto fields(auto& self) { return std::tie(self.products, self.depth, self.begins_early, self.is_gated); }
};
class StoredFewRows final : public StepOf<StoredFewRows, FewRowsFields> {
 public:
  static constexpr const char* name = "few_rows_product";
  using StepOf::StepOf;
  std::string by() const override { return "tensor cores, few rows"; }
  StepCost cost() const override;
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const;
};

// Attention of few queries: what AttentionSizes has fixed, and the rest as SplitAttention takes it.
struct SplitAttentionFields {
  DType dtype = DType::bf16, mask_dtype = DType::f32;
  bool is_causal = false, has_mask = false;
  float scale = 1;
  std::int64_t features = 0, value_features = 0;
  std::vector<Dim> dims, offsets;
  std::int64_t page_size = 0;  // of KeyPages
  Dim pages = 0, pages_of_text = 0;
  StepCost cost;
  static auto fields(auto& self) {
    return std::tie(self.dtype, self.mask_dtype, self.is_causal, self.has_mask, self.scale, self.features,
                    self.value_features, self.dims, self.offsets, self.page_size, self.pages, self.pages_of_text,
                    self.cost);
  }
};
class StoredSplitAttention final : public StepOf<StoredSplitAttention, SplitAttentionFields> {
 public:
  static constexpr const char* name = "split_attention";
  using StepOf::StepOf;
  std::string by() const override { return "tensor cores, keys in parts"; }
  StepCost cost() const override { return what.cost; }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const;
};

// The same fields, name and cost as the host's step; `Own` has of(), which makes the Runnable.
template <class Own, class Host>
class StoredAs : public StoredStep {
 public:
  explicit StoredAs(Host host) : host_(std::move(host)) {}
  StepCost cost() const override { return host_.cost(); }
  void write(FieldWriter& to, const EntryPoint& entry) const override { host_.write(to, entry); }
  std::string stored_as() const override { return Own::name; }
  static std::shared_ptr<const StoredStep> read(FieldReader& from, const StepReader&) {
    Host host(from.take<decltype(Host::what)>());
    host.check();
    return std::make_shared<Own>(std::move(host));
  }
  const auto& what() const { return host_.what; }

 private:
  Host host_;
};

// A step of a device by its name: a StepReader, for plans of a device alone.
std::shared_ptr<const Preparable> read_step(const std::string& name, FieldReader& from);

}  // namespace weft::runtime::cuda
