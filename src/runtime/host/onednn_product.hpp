// Matrix products by oneDNN. In: a product of known sizes. Out: a Runnable. The result is cut into tiles by the shape
// alone, and the library does a tile on one thread, so results do not depend on the number of threads.
#pragma once
#include <cstddef>
#include <memory>

#include "runtime/host/onednn_task.hpp"
#include "runtime/host/product_tiles.hpp"
#include "runtime/host/steps.hpp"
#include "runtime/product_numbers.hpp"

namespace weft::runtime {

namespace onednn {

// One product, its primitives made. Several threads may run it at once.
class Product {
 public:
  // Of f32 or bf16, f32 of bf16, with a bias or without. Null where the sizes are not known or the library refuses the
  // product.
  static std::shared_ptr<const Product> make(const Library& library, const Contraction& contraction);
  // On as many threads as a parallel loop has now.
  std::size_t workspace() const { return tiles_.workspace(scratch_); }
  // `now` says where the result lies, which may not have been known before.
  void run(const Matmul& now, const ProductTiles::Operands& operands, std::span<std::byte> workspace) const;

 private:
  using Int = std::int64_t;
  Product(const Library& library, ProductTiles tiles, bool has_bias)
      : library_(library), tiles_(std::move(tiles)), has_bias_(has_bias) {}
  std::shared_ptr<const Task> make_tile(Int rows, Int columns) const;
  bool make_tiles();

  const Library& library_;
  ProductTiles tiles_;
  bool has_bias_;
  std::size_t scratch_ = 0;                  // bytes that a tile wants
  std::shared_ptr<const Task> whole_[2][2];  // by whether the tile is as high and as wide as the last ones
};

}  // namespace onednn

// Buffers: a, b, the bias if there is one, what is chosen of a and of b if it is, c.
class OneDnnProduct final : public Runnable {
 public:
  OneDnnProduct(std::shared_ptr<const onednn::Product> product, const Contraction& contraction, NumberTable& numbers)
      : product_(std::move(product)), numbers_(contraction, numbers) {}
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override {
    return numbers_.fits(numbers, rooms);
  }
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t>) const override { return product_->workspace(); }
  void run(const StepCall& call) const override {
    const ProductNumbers::Operands at = numbers_.first(call.pointers, call.numbers);
    product_->run(numbers_.product(call.numbers, at), {at.a, at.b, at.bias, at.c}, call.workspace);
  }

 private:
  std::shared_ptr<const onednn::Product> product_;
  ProductNumbers numbers_;
};

class StoredOneDnnProduct final : public StepOf<StoredOneDnnProduct, Contraction> {
 public:
  static constexpr const char* name = "onednn_matmul";
  StoredOneDnnProduct(Contraction product, const onednn::Library& library)
      : StepOf(std::move(product)), by_(onednn::name(library)), product_(onednn::Product::make(library, what)) {}
  // Null where the library is not there, or refuses the product.
  static std::shared_ptr<const StoredStep> read(FieldReader& from, const StepReader&);
  bool is_made() const { return product_ != nullptr; }
  std::string by() const override { return by_; }
  StepCost cost() const override { return cost_of(what); }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<OneDnnProduct>(product_, what, preparation.numbers);
  }

 private:
  std::string by_;
  std::shared_ptr<const onednn::Product> product_;
};

}  // namespace weft::runtime
