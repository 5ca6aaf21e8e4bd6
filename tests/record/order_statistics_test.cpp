// The most frequent element, and medians and quantiles without NaN: the numbers that PyTorch gives, in every way that
// there is to run them.
#include <cmath>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/statistics.hpp"

using namespace weft;
using namespace trace_test;
using test::refused;

TEST_CASE("modes, nanmedian and nanquantile, with their gradients") {
  check_every_size(
      [](const Tensor& x, const Tensor& h) {
        return Answers{{mode(x).values, "1 2"},
                       {mode(x).indices, "3 4"},
                       {mode(x, 0, true).values, "3 1 0 1 2"},
                       {mode(cast(x, DType::u8), 1).values, "1 2"},
                       {mode(h).values, "1 nan -1"},
                       {mode(x > 2, 1).indices, "4 4"},
                       {mode(x[0][0]).values, "3"},
                       {grad([](const Tensor& v) { return sum(square(mode(v).values)); }, x), "0 0 0 2 0 0 0 0 0 4"},
                       {nanmedian(h, 1).values, "2 nan 2"},
                       {nanmedian(h, 1).indices, "3 0 3"},
                       {nanmedian(h, 0, true).values, "5 3 -1 2 7"},
                       {nanmedian(h), "2"},
                       {nanmedian(cast(x, DType::i32), 1).values, "2 2"},
                       {grad(
                            [](const Tensor& v) {
                              return sum(square(where(isnan(nanmedian(v, 1).values), 0, nanmedian(v, 1).values)));
                            },
                            h),
                        "0 0 0 4 0 0 0 0 0 0 0 0 0 4 0"},
                       {round(nanquantile(h, 0.4, 1) * 1e5), "220000 nan 260000"},
                       {nanquantile(h, 0.5, 0, true), "5 3 0 2 inf"},
                       {nanquantile(h, 1, 1), "7 nan inf"},
                       {nanquantile(x, 0.3), "1.70000005"},
                       {nanquantile(h[1], 0.3), "nan"},
                       {nanquantile(h, {0.25, 1}, 1), "1.75 nan 1.25 7 nan inf"},
                       {nanquantile(h, std::vector<double>{0.5, 0}), "2.5 -1"},
                       {nanquantile(x, {0.5, 1}, 0, true), "3.5 2.5 1.5 1.5 2 4 4 3 2 2"},
                       {nanquantile(h[0][1], {0.5, 1}), "3 3"},
                       {grad([](const Tensor& v) { return sum(square(nanquantile(v, 0.4, 1))); }, x),
                        "0 0 0 1.27999997 1.92000008 0 0 0 1.5999999 2.4000001"}};
      },
      from_list<float>({{3, 1, 3, 1, 2}, {4, 4, 0, 2, 2}}),
      from_list<float>({{NAN, 3, 1, 2, 7}, {NAN, NAN, NAN, NAN, NAN}, {5, NAN, -1, 2, INFINITY}}));
}

TEST_CASE("order statistics of what they do not take") {
  const Tensor none = zeros({2, 0});
  refused([&] { mode(none); }, "[mode] of no elements: f32[2,0]");
  refused([&] { nanmedian(none, 1); }, "[nanmedian] of no elements");
  refused([&] { nanquantile(none, 0.5, 1); }, "[nanquantile] of no elements");
  refused([&] { nanquantile(arange(3), 0.5); }, "needs a floating dtype");
  refused([&] { nanquantile(ones({3}), std::vector<double>()); }, "[nanquantile] of no q");
  refused([&] { nanquantile(ones({3}), 1.5); }, "q is 1.5, which is not in 0 to 1");
  refused([&] { mode(ones({3}), 1); }, "axis 1");
}
