// Matrix products by oneDNN. In: a product of known sizes. Out: a Runnable. The result is cut into tiles by the shape
// alone, and the library does a tile on one thread, so results do not depend on the number of threads.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/host/onednn_task.hpp"
#include "runtime/product_numbers.hpp"
#include "runtime/step.hpp"

namespace weft::runtime {

namespace onednn {

// One product, its primitives made. Several threads may run it at once.
class Product {
 public:
  // Whether an operand of these sizes and strides can be read: unit stride along one axis of the product's two, and no
  // element twice.
  static bool reads(const Shape& shape, std::span<const Dim> strides);
  // Of f32 or bf16. Null where the sizes are not known or the library refuses the product.
  static std::shared_ptr<const Product> make(const Library& library, const Contraction& contraction);
  // On as many threads as a parallel loop has now.
  std::size_t workspace() const;
  // `now` says where the result lies, which may not have been known before.
  void run(const Matmul& now, const void* a, const void* b, void* c, std::span<std::byte> workspace) const;

 private:
  using Int = std::int64_t;
  struct Operand {
    Int row = 0, column = 0;
    std::vector<Int> batch;  // strides
    Int at(const std::vector<Int>& sizes, Int item, Int i, Int j) const;
  };
  Product() = default;
  std::shared_ptr<const Task> make_tile(Int rows, Int columns) const;
  bool cut();
  Int tiles() const;
  std::size_t result_bytes() const;  // of the workspace

  const Library* library_ = nullptr;
  DType dtype_ = DType::f32;
  bool swapped_ = false;  // c^T = b^T a^T, where c lies by columns
  bool copies_ = false;   // the result is computed by rows, then put where it belongs
  Int m_ = 0, n_ = 0, k_ = 0, items_ = 1, rows_ = 0, columns_ = 0;  // the last two: of a tile
  std::vector<Int> batch_;                                          // sizes
  Operand a_, b_, c_;
  std::size_t scratch_ = 0;                  // bytes that a tile wants
  std::shared_ptr<const Task> whole_[2][2];  // by whether the tile is at the lower and at the right end
};

}  // namespace onednn

// Buffers: a, b, c.
class OneDnnProduct final : public Runnable {
 public:
  OneDnnProduct(std::shared_ptr<const onednn::Product> product, const Contraction& contraction, NumberTable& numbers)
      : product_(std::move(product)), numbers_(contraction, numbers) {}
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t>) const override { return product_->workspace(); }
  void run(const StepCall& call) const override {
    const auto operand = [&](std::size_t i) { return numbers_.first(i, call.pointers[i], call.numbers); };
    product_->run(numbers_.product(call.numbers), operand(0), operand(1), operand(2), call.workspace);
  }

 private:
  std::shared_ptr<const onednn::Product> product_;
  ProductNumbers numbers_;
};

}  // namespace weft::runtime
