#include "runtime/host/cblas_product.hpp"

#include <algorithm>
#include <limits>

#include "runtime/steps.hpp"

namespace weft::runtime::cblas {

std::shared_ptr<const Product> Product::make(const Library& library, const Contraction& contraction) {
  if (contraction.a_is_chosen() || contraction.b_is_chosen()) return nullptr;
  std::optional<ProductTiles> tiles = ProductTiles::make(contraction);
  if (!tiles || tiles->copies || (tiles->dtype != DType::f32 && tiles->dtype != DType::f64)) return nullptr;
  const std::shared_ptr<Product> product(new Product(library, *std::move(tiles)));
  const ProductTiles& it = product->tiles_;
  std::int64_t most = std::max({it.m, it.n, it.k, it.c.row});
  const auto lie = [&](std::int64_t width, const ProductTiles::Operand& operand) {
    const bool by_rows = operand.column == 1 && operand.row >= width;
    const std::int64_t step = by_rows ? operand.row : operand.column;
    most = std::max(most, step);
    return Lie{by_rows ? Library::as_it_is : Library::transposed, static_cast<int>(step)};
  };
  product->a_ = lie(it.k, it.a);
  product->b_ = lie(it.n, it.b);
  product->c_ = {Library::as_it_is, static_cast<int>(it.c.row)};
  return most <= std::numeric_limits<int>::max() ? product : nullptr;
}

template <class T>
void Product::run_tile(Library::Gemm<T> gemm, const ProductTiles::Tile& tile) const {
  gemm(Library::row_major, a_.transpose, b_.transpose, static_cast<int>(tile.rows), static_cast<int>(tile.columns),
       static_cast<int>(tiles_.k), 1, static_cast<const T*>(tile.a), a_.step, static_cast<const T*>(tile.b), b_.step, 0,
       static_cast<T*>(tile.c), c_.step);
}

void Product::run(const void* a, const void* b, void* c) const {
  tiles_.run(
      {}, {a, b, nullptr, c}, {}, 0,
      [](void* context, const ProductTiles::Tile& tile) {
        const Product& it = *static_cast<const Product*>(context);
        const Call call(it.library_);
        it.tiles_.dtype == DType::f32 ? it.run_tile(it.library_.sgemm, tile) : it.run_tile(it.library_.dgemm, tile);
      },
      const_cast<Product*>(this));
}

}  // namespace weft::runtime::cblas

namespace weft::runtime {

std::shared_ptr<const StoredStep> StoredCblasProduct::read(FieldReader& from, const StepReader&) {
  auto product = from.take<Contraction>();
  runtime::check(product);
  if (product.has_bias || product.is_wide) throw Malformed();
  const cblas::Library* library = cblas::library();
  if (!library) return nullptr;
  auto step = std::make_shared<StoredCblasProduct>(std::move(product), *library);
  return step->is_made() ? std::move(step) : nullptr;
}

const NamedStep steps::cblas_matmul{StoredCblasProduct::name, StoredCblasProduct::read};

}  // namespace weft::runtime
