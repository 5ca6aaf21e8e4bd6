// Matrix products by a CBLAS library. In: a product of known sizes. Out: a Runnable. The result is cut into tiles by
// the shape alone, and the library does a tile on one thread, so results do not depend on the number of threads.
#pragma once
#include <memory>

#include "runtime/host/cblas.hpp"
#include "runtime/host/product_tiles.hpp"
#include "runtime/product_numbers.hpp"
#include "runtime/step.hpp"

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
  void run(const StepCall& call) const override {
    const ProductNumbers::Operands at = numbers_.first(call.pointers, call.numbers);
    product_->run(at.a, at.b, at.c);
  }

 private:
  std::shared_ptr<const cblas::Product> product_;
  ProductNumbers numbers_;
};

}  // namespace weft::runtime
