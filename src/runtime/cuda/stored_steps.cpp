#include "runtime/cuda/stored_steps.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/member_count.hpp"
#include "runtime/cuda/few_rows_product.hpp"
#include "runtime/cuda/rows.hpp"
#include "runtime/cuda/selection.hpp"
#include "runtime/cuda/split_attention.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/loop.hpp"
#include "runtime/plan_file.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime::cuda {

static_assert(lists_all<ProductFields> && lists_all<FewRowsFields> && lists_all<SplitAttentionFields>,
              "a member is not in fields()");

std::unique_ptr<Runnable> StoredKernel::prepare(const Preparation& preparation) const {
  WEFT_CHECK(preparation.function(), "kernel ", preparation.entry.name, " has not been compiled");
  if (what.parameters.size() == 1) return std::make_unique<DeviceKernel>(preparation, what.buffers, what.parameters[0]);
  WEFT_CHECK(preparation.entry.sets.size() == what.parameters.size(), "a table of ", what.parameters.size(), " sets");
  return std::make_unique<DeviceKernelTable>(
      preparation, what.buffers, std::vector<std::span<const Dim>>(what.parameters.begin(), what.parameters.end()));
}

std::unique_ptr<Runnable> StoredProduct::prepare(const Preparation& preparation) const {
  return std::make_unique<DeviceProduct>(what.product, preparation, what.sizes);
}

namespace {
bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
}  // namespace

StepCost StoredFewRows::cost() const {
  StepCost all;
  for (const Contraction& product : what.products) {
    const StepCost one = cost_of(product);
    all.bytes = all.bytes + one.bytes, all.operations = all.operations + one.operations;
  }
  return all;
}

void StoredFewRows::check() const {
  if (what.products.empty() || what.products.size() > few_rows_most_products ||
      (what.depth != 128 && what.depth != 256))
    throw Malformed();
  for (const Contraction& c : what.products) {
    runtime::check(c);
    const bool known = std::ranges::all_of(
        std::initializer_list<Dim>{c.m, c.n, c.k, c.a_row, c.a_column, c.b_row, c.b_column, c.c_row, c.c_column},
        [](Dim dim) { return dim.is_constant(); });
    if (!is_half(c.dtype) || !known || !c.batch.empty() || c.a_is_chosen() || c.b_is_chosen() ||
        !same_rows(what.products[0], c))
      throw Malformed();
  }
  if (what.is_gated && !can_be_gated(what.products, what.depth)) throw Malformed();
}

std::unique_ptr<Runnable> StoredFewRows::prepare(const Preparation& preparation) const {
  return std::make_unique<FewRowsProduct>(what, preparation);
}

void StoredSplitAttention::check() const {
  const auto fits = [](std::int64_t features) { return features > 0 && features % 8 == 0 && features <= 256; };
  const std::size_t values = what.has_mask ? 6 : 5;
  const bool is_paged = what.page_size != 0;
  if (what.page_size < 0 || what.page_size % SplitAttentionTile::keys_of_warp != 0 ||
      (is_paged && (what.has_mask || what.is_causal)))
    throw Malformed();
  if (!is_half(what.dtype) || !(is_half(what.mask_dtype) || what.mask_dtype == DType::f32) || !fits(what.features) ||
      !fits(what.value_features) || what.dims.size() != 5 + 4 * values ||
      what.offsets.size() != values + (is_paged ? 2 : 0))
    throw Malformed();
}

std::unique_ptr<Runnable> StoredSplitAttention::prepare(const Preparation& preparation) const {
  AttentionSizes fixed;
  fixed.dtype = what.dtype, fixed.mask_dtype = what.mask_dtype;
  fixed.is_causal = what.is_causal, fixed.has_mask = what.has_mask, fixed.scale = what.scale;
  fixed.features = what.features, fixed.value_features = what.value_features;
  return std::make_unique<SplitAttention>(fixed, what.dims, what.offsets,
                                          KeyPages{what.page_size, what.pages, what.pages_of_text}, preparation);
}

namespace {

class Scatter final : public StoredAs<Scatter, StoredScatter> {
 public:
  static constexpr const char* name = "scatter";
  using StoredAs::StoredAs;
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<DeviceScatter>(what(), preparation);
  }
};

class Sort final : public StoredAs<Sort, StoredSort> {
 public:
  static constexpr const char* name = "argsort";
  using StoredAs::StoredAs;
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return device_order(what(), preparation);
  }
};

template <class Own, class Host, class Device, bool checked>
class Update : public StoredAs<Own, Host> {
 public:
  using StoredAs<Own, Host>::StoredAs;
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<Device>(this->what(), checked, preparation);
  }
};
#define WEFT_UPDATE(Own, row, Host, Device, checked)            \
  class Own final : public Update<Own, Host, Device, checked> { \
   public:                                                      \
    static constexpr const char* name = row;                    \
    using Update::Update;                                       \
  }
WEFT_UPDATE(Slice, "update_slice", StoredSliceUpdate, DeviceUpdate, false);
WEFT_UPDATE(CheckedSlice, "checked_update_slice", StoredSliceUpdate, DeviceUpdate, true);
WEFT_UPDATE(Rows, "update_rows", StoredRowsUpdate, DeviceRows, false);
WEFT_UPDATE(CheckedRows, "checked_update_rows", StoredRowsUpdate, DeviceRows, true);
#undef WEFT_UPDATE

class Check final : public StoredAs<Check, StoredCheck> {
 public:
  static constexpr const char* name = "check";
  using StoredAs::StoredAs;
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<DeviceCheck>(what().message, preparation);
  }
};

namespace rows {
constexpr NamedStep kernel{StoredKernel::name, StoredKernel::read};
constexpr NamedStep cublaslt_matmul{StoredProduct::name, StoredProduct::read};
constexpr NamedStep few_rows_product{StoredFewRows::name, StoredFewRows::read};
constexpr NamedStep split_attention{StoredSplitAttention::name, StoredSplitAttention::read};
constexpr NamedStep scatter{Scatter::name, Scatter::read};
constexpr NamedStep argsort{Sort::name, Sort::read};
constexpr NamedStep update_slice{Slice::name, Slice::read};
constexpr NamedStep checked_update_slice{CheckedSlice::name, CheckedSlice::read};
constexpr NamedStep update_rows{Rows::name, Rows::read};
constexpr NamedStep checked_update_rows{CheckedRows::name, CheckedRows::read};
constexpr NamedStep check{Check::name, Check::read};
constexpr NamedStep loop{StoredLoop::name, StoredLoop::read};  // its bodies know their device
}  // namespace rows

constexpr NamedStep all[] = {
#define WEFT_DEVICE_STEP(name) rows::name,
#include "runtime/device_steps.def"
#undef WEFT_DEVICE_STEP
};

}  // namespace

std::shared_ptr<const Preparable> read_step(const std::string& name, FieldReader& from) {
  for (const NamedStep& each : all)
    if (name == std::string(device_step_prefix) + each.name) return each.read(from, read_step);
  return nullptr;
}

}  // namespace weft::runtime::cuda
