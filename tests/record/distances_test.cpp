// Distances, and slices that are scaled to a length: the numbers that PyTorch gives, in every way that there is to run
// them.
#include <cmath>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/statistics.hpp"

using namespace weft;
using namespace trace_test;
using test::refused;

TEST_CASE("distances and lengths") {
  check_every_size(
      [](const Tensor& a, const Tensor& b) {
        return Answers{
            {dist(a, b), "6.3245554"},
            {dist(a, b, 1), "12"},
            {dist(a, b, 3), "5.45136213"},
            {dist(a, b, 0), "5"},
            {dist(a, b, INFINITY), "5"},
            {dist(a, a), "0"},
            {round(grad([](const Tensor& v) { return dist(v, square(v)); }, a) * 1e4), "0 2483 -74485 0 12414 34759"},
            {renorm(a, 2, 0, 4.6), "1 2 -4 0 2.75999975 3.67999983"},
            {renorm(a, 1, 1, 4.5), "1 1.79999995 -2.25 0 2.69999981 2.25"},
            {renorm(a, INFINITY, -1, 2), "1 1.33333337 -2 0 2 2"},
            {renorm(a, 2, 0, 0), "0 0 -0 0 0 0"},
            {round(grad([](const Tensor& v) { return sum(square(renorm(v, 2, 0, 4.6))); }, a) * 1e4) + 0,
             "20000 40000 -80000 0 0 0"}};
      },
      from_list<float>({{1, 2, -4}, {0, 3, 4}}), vector_of({2, 2, 1}));
  refused([] { dist(arange(3), arange(3)); }, "[dist] needs a floating dtype");
  refused([] { renorm(ones({3}), 2, 0, 1); }, "[renorm] needs a floating dtype and two axes at least, it is f32[3]");
  refused([] { renorm(ones({2, 2}), 0, 0, 1); }, "p must be positive, it is 0");
  refused([] { renorm(ones({2, 2}), 2, 0, -1); }, "maxnorm must not be negative, it is -1");
}
