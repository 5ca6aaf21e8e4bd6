#include "runtime/host/onednn_product.hpp"

#include <algorithm>
#include <mutex>

#include "base/fork.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime::onednn {

std::shared_ptr<const Task> Product::make_tile(Int rows, Int columns) const {
  Layout a, b, bias, c;
  const auto lay = [&](Layout& layout, Int height, Int width, const ProductTiles::Operand& operand, DType dtype) {
    const Int sizes[] = {height, width}, strides[] = {operand.row, operand.column};
    return library_.dnnl_memory_desc_init_by_strides(&layout, 2, sizes, data_type(dtype), strides) == 0;
  };
  const Int depth = tiles_.k;
  if (!lay(a, rows, depth, tiles_.a, tiles_.dtype) || !lay(b, depth, columns, tiles_.b, tiles_.dtype) ||
      !lay(bias, 1, columns, {columns, 1, {}}, tiles_.dtype) || !lay(c, rows, columns, tiles_.c, tiles_.result_dtype))
    return nullptr;
  Operation operation;
  if (library_.dnnl_matmul_desc_init(&operation, &a, &b, has_bias_ ? &bias : nullptr, &c) != 0) return nullptr;
  std::vector<Task::Operand> operands{{argument::source, a}, {argument::weights, b}, {argument::result, c}};
  if (has_bias_) operands.push_back({argument::bias, bias});
  return Task::make(library_, operation, std::move(operands));
}

bool Product::make_tiles() {
  const std::lock_guard no_fork(process_mutex(LockOrder::loader));  // a child could not make any afterwards
  const OneThread alone;
  const Int heights[] = {tiles_.rows, tiles_.last_rows()}, widths[] = {tiles_.columns, tiles_.last_columns()};
  for (const int down : {0, 1})
    for (const int across : {0, 1}) {
      std::shared_ptr<const Task>& tile = whole_[down][across];
      if (down && heights[1] == heights[0])
        tile = whole_[0][across];
      else if (across && widths[1] == widths[0])
        tile = whole_[down][0];
      else
        tile = make_tile(heights[down], widths[across]);
      if (!tile) return false;
      scratch_ = std::max(scratch_, tile->scratch());
    }
  return true;
}

std::shared_ptr<const Product> Product::make(const Library& library, const Contraction& contraction) {
  std::optional<ProductTiles> tiles = ProductTiles::make(contraction);
  if (!tiles) return nullptr;
  if (contraction.has_bias && (tiles->swapped || tiles->copies)) return nullptr;
  const std::shared_ptr<Product> product(new Product(library, *std::move(tiles), contraction.has_bias));
  return product->make_tiles() ? product : nullptr;
}

void Product::run(const Matmul& now, const ProductTiles::Operands& operands, std::span<std::byte> workspace) const {
  tiles_.run(
      now, operands, workspace, scratch_,
      [](void* context, const ProductTiles::Tile& tile) {
        const Product& it = *static_cast<const Product*>(context);
        const OneThread alone;
        void* const data[] = {const_cast<void*>(tile.a), const_cast<void*>(tile.b), tile.c,
                              const_cast<void*>(tile.bias)};
        it.whole_[tile.rows == it.tiles_.last_rows()][tile.columns == it.tiles_.last_columns()]->run(
            std::span(data).first(it.has_bias_ ? 4 : 3), tile.scratch, "matmul");
      },
      const_cast<Product*>(this));
}

}  // namespace weft::runtime::onednn

namespace weft::runtime {

std::shared_ptr<const StoredStep> StoredOneDnnProduct::read(FieldReader& from, const StepReader&) {
  auto product = from.take<Contraction>();
  runtime::check(product);
  const onednn::Library* library = onednn::library();
  if (!library) return nullptr;
  auto step = std::make_shared<StoredOneDnnProduct>(std::move(product), *library);
  return step->is_made() ? std::move(step) : nullptr;
}

const NamedStep steps::onednn_matmul{StoredOneDnnProduct::name, StoredOneDnnProduct::read};

}  // namespace weft::runtime
