// Steps that run on the host, and the same as plans on disk have them, each in a file of its own (*_step.cpp). In:
// compiled functions, numbers of the plan's table; fields. Out: Runnables.
#pragma once
#include "runtime/constants.hpp"
#include "runtime/contraction.hpp"
#include "runtime/host/scatter.hpp"
#include "runtime/host/update_rows.hpp"
#include "runtime/product_numbers.hpp"
#include "runtime/stored_step.hpp"
#include "runtime/update_rows.hpp"
#include "runtime/update_slice.hpp"

namespace weft::runtime {

using KernelFunction = void (*)(void* const* buffers, const std::int64_t* parameters, std::int64_t begin,
                                std::int64_t end);

// A compiled kernel over its units: on one thread where that is less work than starting others.
class HostKernel final : public Runnable {
 public:
  // `work`: estimated nanoseconds of the whole on one thread. `parameters`: the kernel's size slots.
  HostKernel(KernelFunction function, const Preparation& preparation, Dim work, std::span<const Dim> parameters);
  // Its library was compiled for these buffers and numbers (package_file.hpp).
  bool fits(std::span<const std::int64_t>, std::span<const Room>) const override { return true; }
  void run(const StepCall& call) const override;

 private:
  KernelFunction function_;
  NumberTable::Range units_, work_, parameters_;
};

// Buffers: a, b, c.
class HostProduct final : public PackingStep {
 public:
  HostProduct(const Contraction& contraction, NumberTable& numbers);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override {
    return product_.fits(numbers, rooms);
  }
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override { run_packed(call, nullptr); }

  std::size_t packed_bytes(std::size_t buffer) const override;
  Digest packed_as(std::size_t buffer) const override;
  void pack(std::size_t buffer, const StepCall& call, std::byte* to) const override;
  void run_packed(const StepCall& call, const std::byte* const* packed) const override;

 private:
  // How an operand is packed; where its size is 0, it is not.
  struct Operand {
    MatmulPacking packing;
    std::int64_t offset = 0;
  };
  static Operand operand_of(const Contraction& contraction, bool is_b);
  ProductNumbers product_;
  Operand operands_[2];  // a, b
};

// Buffers: index, updates, result. result[index[i], j] += updates[i, j], from zeros, or the greater of both.
class HostScatter final : public Runnable {
 public:
  HostScatter(RowJoin join, DType dtype, Dim rows, Dim count, Dim width, NumberTable& numbers)
      : join_(join), dtype_(dtype), sizes_(numbers.add({rows, count, width})) {}
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  void run(const StepCall& call) const override;

 private:
  RowJoin join_;
  DType dtype_;
  NumberTable::Range sizes_;
};

// Buffers: values, their order or a part of it.
class HostSort final : public Runnable {
 public:
  HostSort(DType dtype, bool descending, Dim rows, Dim size, Dim first, Dim count, NumberTable& numbers)
      : dtype_(dtype), descending_(descending), sizes_(numbers.add({rows, size, first, count})) {}
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  void run(const StepCall& call) const override;

 private:
  DType dtype_;
  bool descending_;
  NumberTable::Range sizes_;
};

// The value is copied first, unless it lies where the result does.
class HostUpdate final : public Runnable {
 public:
  HostUpdate(const SliceUpdate& update, NumberTable& numbers)
      : element_(update.element), sizes_(update.numbers(numbers)) {}
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  void run(const StepCall& call) const override;

 private:
  std::int64_t element_;
  NumberTable::Range sizes_;
};

// The table is copied first, unless it lies where the result does.
class HostRows final : public Runnable {
 public:
  HostRows(const RowsUpdate& update, NumberTable& numbers)
      : dtype_(update.dtype), join_(update.adds ? RowJoin::add : RowJoin::replace), sizes_(update.numbers(numbers)) {}
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  bool has_workspace() const override { return update_rows_workspace(join_, dtype_, {1, 1, 1, 1}) > 0; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  DType dtype_;
  RowJoin join_;
  NumberTable::Range sizes_;
};

// Buffer 0 is one bool. False throws Error with the message.
class HostCheck final : public Runnable {
 public:
  explicit HostCheck(std::string message) : message_(std::move(message)) {}
  bool fits(std::span<const std::int64_t>, std::span<const Room> rooms) const override {
    return rooms.size() == 1 && rooms[0].bytes >= 1;
  }
  void run(const StepCall& call) const override;

 private:
  std::string message_;
};

// A generated kernel's size slots, and what it does.
struct KernelFields {
  std::size_t buffers = 0;
  std::vector<std::vector<Dim>> parameters;  // of each kernel of one launch: of one on the host
  StepCost cost;
  static auto fields(auto& self) { return std::tie(self.buffers, self.parameters, self.cost); }
};
class StoredKernel final : public StepOf<StoredKernel, KernelFields> {
 public:
  static constexpr const char* name = "kernel";
  using StepOf::StepOf;
  bool generated() const override { return true; }
  StepCost cost() const override { return what.cost; }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const {
    if (what.parameters.size() != 1) throw Malformed();
  }
};

StepCost cost_of(const Contraction& product);
// Throws Malformed where the lists of a product that was read do not belong together.
void check(const Contraction& product);

class StoredProduct final : public StepOf<StoredProduct, Contraction> {
 public:
  static constexpr const char* name = "packed_matmul";
  using StepOf::StepOf;
  StepCost cost() const override { return cost_of(what); }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const {
    runtime::check(what);
    if ((what.dtype != DType::f32 && what.dtype != DType::f64) || what.is_wide || what.has_bias) throw Malformed();
  }
};

struct ScatterFields {
  RowJoin join = RowJoin::add;
  DType dtype = DType::f32;
  Dim rows = 0, count = 0, width = 1;
  static auto fields(auto& self) { return std::tie(self.join, self.dtype, self.rows, self.count, self.width); }
};
class StoredScatter final : public StepOf<StoredScatter, ScatterFields> {
 public:
  static constexpr const char* name = "scatter";
  using StepOf::StepOf;
  StepCost cost() const override;
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const {
    const bool is_summed = what.dtype == DType::f32 || what.dtype == DType::f64 || what.dtype == DType::i32 ||
                           what.dtype == DType::i64 || what.dtype == DType::u8;
    if ((what.join != RowJoin::add && what.join != RowJoin::greatest) || !is_summed) throw Malformed();
  }
};

struct SortFields {
  DType dtype = DType::f32;
  bool descending = false;
  Dim rows = 1, size = 0, first = 0, count = 0;
  static auto fields(auto& self) {
    return std::tie(self.dtype, self.descending, self.rows, self.size, self.first, self.count);
  }
};
class StoredSort final : public StepOf<StoredSort, SortFields> {
 public:
  static constexpr const char* name = "argsort";
  using StepOf::StepOf;
  StepCost cost() const override;
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const {
    if (what.dtype == DType::boolean || info(what.dtype).computed != what.dtype) throw Malformed();
  }
};

class StoredSliceUpdate final : public StepOf<StoredSliceUpdate, SliceUpdate> {
 public:
  static constexpr const char* name = "update_slice";
  using StepOf::StepOf;
  StepCost cost() const override;
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const {
    if (what.offsets.size() < 3 || what.element < 1 || what.element > 16) throw Malformed();
  }
};

class StoredRowsUpdate final : public StepOf<StoredRowsUpdate, RowsUpdate> {
 public:
  static constexpr const char* name = "update_rows";
  using StepOf::StepOf;
  StepCost cost() const override;
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
  void check() const {
    const bool adds_what_only_holds = what.adds && only_holds(what.dtype);
    if (what.offsets.size() < 3 || adds_what_only_holds) throw Malformed();
  }
};

struct CheckFields {
  std::string message;
  static auto fields(auto& self) { return std::tie(self.message); }
};
class StoredCheck final : public StepOf<StoredCheck, CheckFields> {
 public:
  static constexpr const char* name = "check";
  using StepOf::StepOf;
  StepCost cost() const override { return {1, 1}; }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override;
};

}  // namespace weft::runtime
