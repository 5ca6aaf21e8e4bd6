// Matrix products by a CBLAS library. In: a product of known sizes. Out: a Runnable. The result is cut into tiles by
// the shape alone, and the library does a tile on one thread, so results do not depend on the number of threads.
#pragma once
#include <memory>

#include "runtime/host/cblas.hpp"
#include "runtime/host/product_tiles.hpp"
#include "runtime/host/steps.hpp"
#include "runtime/product_numbers.hpp"

namespace weft::runtime {

namespace cblas {

// One product. Several threads may run it at once.
class Product {
 public:
  // Of f32 or f64. Null where sizes are not known or beyond 32 bits, where matrices are chosen, or where the
  // library can't read an operand or write the result where it lies.
  static std::shared_ptr<const Product> make(const Library& library, const Contraction& contraction);
  void run(const void* a, const void* b, void* c) const;

 private:
  // How a matrix is told to the library: the distance of its rows, or of its columns where it is transposed.
  struct Lie {
    int transpose, step;
  };
  Product(const Library& library, ProductTiles tiles) : library_(library), tiles_(std::move(tiles)) {}
  template <class T>
  void run_tile(Library::Gemm<T> gemm, const ProductTiles::Tile& tile) const;

  const Library& library_;
  ProductTiles tiles_;
  Lie a_{}, b_{}, c_{};
};

}  // namespace cblas

// Buffers: a, b, c.
class CblasProduct final : public Runnable {
 public:
  CblasProduct(std::shared_ptr<const cblas::Product> product, const Contraction& contraction, NumberTable& numbers)
      : product_(std::move(product)), numbers_(contraction, numbers) {}
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override {
    return numbers_.fits(numbers, rooms);
  }
  void run(const StepCall& call) const override {
    const ProductNumbers::Operands at = numbers_.first(call.pointers, call.numbers);
    product_->run(at.a, at.b, at.c);
  }

 private:
  std::shared_ptr<const cblas::Product> product_;
  ProductNumbers numbers_;
};

class StoredCblasProduct final : public StepOf<StoredCblasProduct, Contraction> {
 public:
  static constexpr const char* name = "cblas_matmul";
  StoredCblasProduct(Contraction product, const cblas::Library& library)
      : StepOf(std::move(product)), by_(library.name), product_(cblas::Product::make(library, what)) {}
  // Null where the library is not there, or refuses the product.
  static std::shared_ptr<const StoredStep> read(FieldReader& from, const StepReader&);
  bool is_made() const { return product_ != nullptr; }
  std::string by() const override { return by_; }
  StepCost cost() const override { return cost_of(what); }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<CblasProduct>(product_, what, preparation.numbers);
  }

 private:
  std::string by_;
  std::shared_ptr<const cblas::Product> product_;
};

}  // namespace weft::runtime
