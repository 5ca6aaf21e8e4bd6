// Sizes of a kernel become slots, those in the ranges of its values too.
#include "schedule/kernel_axes.hpp"

#include <doctest/doctest.h>

#include <utility>

using namespace weft;
using loop::Kernel;

namespace {

// Loads values, of which each is below `range`, and loads at twice these.
Kernel gather(Dim count, Dim range) {
  Kernel kernel;
  kernel.axes = {{count}};
  kernel.body.resize(2);
  for (loop::Instruction& it : kernel.body) it.kind = loop::Kind::load;
  kernel.body[0].index = dims::axis(0, count);
  kernel.body[1].index = dims::value(0, range) * Dim(2);
  return kernel;
}
// The range in the kernel, where the sizes of its graph are these numbers.
std::int64_t range_of(const Kernel& kernel, std::vector<std::int64_t> sizes) {
  std::vector<std::int64_t> slots;
  for (const Dim parameter : kernel.parameters) slots.push_back(dims::evaluate(parameter, sizes));
  const DimNode* const value = dims::terms(kernel.body[1].index)[0].factors[0];
  return dims::evaluate(value->extent, slots);
}

}  // namespace

TEST_CASE("bounds of sizes keep the indices of a device's kernel in 32 bits") {
  DimEnvironment sizes;
  DimEnvironment* const saved = std::exchange(DimEnvironment::current(), &sizes);
  const Dim bounded = sizes.new_symbol(8, 1, 4096), free = sizes.new_symbol(8);
  CHECK(is_small(gather(bounded, bounded * Dim(16))));
  CHECK(is_small(gather(bounded, Dim(1000) / bounded)));
  CHECK_FALSE(is_small(gather(bounded, bounded * bounded * Dim(64))));
  CHECK_FALSE(is_small(gather(bounded * Dim(1 << 20), bounded)));
  const Dim longer = sizes.new_symbol(8, 1, 1 << 16), none = sizes.new_symbol(0, 0, 0);
  Kernel outer = gather(longer, Dim(2));  // its points are more than any input has
  CHECK(is_small(outer));
  outer.axes.push_back({longer});
  CHECK_FALSE(is_small(outer));
  CHECK_FALSE(is_small(gather(bounded, none * bounded * Dim(1 << 30))));  // parts of the product are large
  CHECK_FALSE(is_small(gather(bounded, free)));
  CHECK_FALSE(is_small(gather(Dim(8), Dim(16))));  // one text serves all constant sizes
  DimEnvironment::current() = saved;
  CHECK_FALSE(is_small(gather(bounded, bounded)));
}

TEST_CASE("a value's range may have sizes that are nowhere else: each has a slot") {
  Dim s[4];
  for (int i = 0; i < 4; ++i) s[i] = dims::symbol(i, 2);
  Kernel windows = gather(s[0], s[3] / (s[1] - s[2]));
  parametrize(windows);
  CHECK(windows.parameters.size() == 4);
  CHECK(range_of(windows, {5, 9, 4, 35}) == 7);
  Kernel one_size = gather(Dim(8), s[0]);
  parametrize(one_size);
  CHECK(range_of(one_size, {11}) == 11);
}
