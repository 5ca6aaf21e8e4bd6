#include "codegen/cuda_shape.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace weft::codegen {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;

namespace {

// The largest absolute value that an index or a part of it can have; nothing where a symbol leaves it open.
std::optional<double> magnitude(Dim dim) {
  double total = 0;
  for (const DimTerm& term : dims::terms(dim)) {
    double product =
        term.coefficient < 0 ? -static_cast<double>(term.coefficient) : static_cast<double>(term.coefficient);
    for (const DimNode* factor : term.factors) {
      std::optional<double> bound;
      switch (factor->kind) {
        case DimKind::axis:
        case DimKind::value: bound = magnitude(factor->extent); break;
        case DimKind::floor_divide:
        case DimKind::modulo: {
          const std::optional<double> left = magnitude(factor->left), right = magnitude(factor->right);
          if (left && right) bound = std::max(*left, *right);
          break;
        }
        case DimKind::sum: bound = magnitude(Dim::from_node(factor)); break;
        case DimKind::symbol: break;
      }
      if (!bound) return std::nullopt;
      product *= *bound;
    }
    total += product;
  }
  return total;
}

std::int64_t power_of_two_up_to(std::int64_t n) {
  return n < 1 ? 1 : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
}

Dim vector_extent(const Kernel& kernel) { return kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].extent; }

int pack_width(const Kernel& kernel, const Analysis& analysis, const Expressions& expressions) {
  if (analysis.form == Form::columns || kernel.vector_axis < 0) return 1;
  const auto size = static_cast<int>(kernel.body.size());
  std::int64_t smallest = 0, largest = 0;
  for (int i = 0; i < size; ++i) {
    if (!is_contiguous_access(kernel, analysis, expressions, i)) continue;
    const auto bytes = static_cast<std::int64_t>(storage_bytes(kernel.body[static_cast<std::size_t>(i)].dtype, 1));
    smallest = smallest ? std::min(smallest, bytes) : bytes;
    largest = std::max(largest, bytes);
  }
  if (smallest == 0) return 1;
  std::int64_t width = std::min<std::int64_t>({16 / smallest, 32 / largest, 8});
  if (size > 160) width = std::min<std::int64_t>(width, 2);  // the text is expanded for each element of a pack
  if (size > 400) width = 1;
  const Dim extent = vector_extent(kernel);
  if (extent.is_constant()) width = std::min(width, power_of_two_up_to(extent.constant()));
  return static_cast<int>(std::max<std::int64_t>(width, 1));
}

void choose_team(const Kernel& kernel, Analysis& analysis, CudaShape& shape) {
  const Dim inner = kernel.inner_count(), rows = kernel.outer_count();
  const bool few_rows = rows.is_constant() && rows.constant() < 512;
  const std::int64_t share = few_rows ? 4 : 16;  // elements a thread
  const std::int64_t count = inner.is_constant() ? inner.constant() : 256 * share;
  const std::int64_t wanted = (count + share - 1) / share;
  // A warp is several teams where rows are so short that some of its lanes would have nothing to do.
  const std::int64_t packs_a_row = few_rows ? 32 : (count + shape.width - 1) / shape.width;
  const std::int64_t least = std::clamp<std::int64_t>(power_of_two_up_to(2 * packs_a_row - 1), 4, 32);
  shape.team = static_cast<int>(std::clamp<std::int64_t>(power_of_two_up_to(2 * wanted - 1), least, 1024));
  shape.threads = shape.team <= 32 && !rows.same(Dim(1)) ? 256 : shape.team;
  if (!inner.is_constant()) return;
  // Kept values are registers: all turns of a row's walk are written out.
  const std::int64_t packs =
      (extent_of(kernel, analysis.inner) * divide_up(vector_extent(kernel), shape.width)).constant();
  const std::int64_t turns = (packs + shape.team - 1) / shape.team;
  const std::int64_t elements = turns * shape.width;
  if (elements > 32 || turns == 0) return;
  Analysis kept = analyze(kernel, {inner.constant(), static_cast<int>(64 / elements), true});
  std::size_t steps = 0;
  for (const std::vector<Step>& walk : kept.walks) steps += walk.size();
  if (kept.kept.empty() || static_cast<std::int64_t>(steps) * elements > 3000) return;
  shape.turns = turns;
  analysis = std::move(kept);
}

}  // namespace

bool is_contiguous_access(const Kernel& kernel, const Analysis& analysis, const Expressions& expressions, int i) {
  const Instruction& it = kernel.body[static_cast<std::size_t>(i)];
  return (it.kind == Kind::load || it.kind == Kind::store) && analysis.facts[static_cast<std::size_t>(i)].vector &&
         expressions.access(it.index).kind == Access::Kind::contiguous;
}

Dim extent_of(const Kernel& kernel, const std::vector<int>& axes) {
  Dim count = 1;
  for (const int axis : axes) count = count * kernel.axes[static_cast<std::size_t>(axis)].extent;
  return count;
}

CudaShape choose_cuda_shape(const Kernel& kernel, Analysis& analysis, const Expressions& expressions) {
  CudaShape shape;
  shape.width = pack_width(kernel, analysis, expressions);
  if (analysis.form == Form::rows) choose_team(kernel, analysis, shape);
  if (analysis.form == Form::columns) {
    const Dim count = kernel.inner_count();
    const std::int64_t rows = count.is_constant() ? count.constant() : 64;
    shape.team = static_cast<int>(std::clamp<std::int64_t>(power_of_two_up_to(rows / 8), 1, 32));
    shape.columns = std::max(32, 128 / shape.team);
    shape.threads = shape.team * shape.columns;
  }
  return shape;
}

bool fits_32_bits(const Kernel& kernel) {
  constexpr double small_index = 1 << 30;
  double points = 1;
  for (const loop::Axis& axis : kernel.axes) {
    if (!axis.extent.is_constant()) return false;
    points *= static_cast<double>(axis.extent.constant());
  }
  if (points > small_index) return false;
  for (const Instruction& instruction : kernel.body) {
    const std::optional<double> bound = magnitude(instruction.index);
    if (!bound || *bound > small_index) return false;
  }
  return true;
}

}  // namespace weft::codegen
