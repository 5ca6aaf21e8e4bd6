// Kernels that differ in sizes alone become one function over slots; what shapes a loop stays a number.
#include "schedule/common_sizes.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "loop/device_team.hpp"
#include "loop/parse.hpp"
#include "weft/explain.hpp"
#include "weft/weft.hpp"

using namespace weft;
using loop::Kernel;

namespace {

std::vector<std::optional<Kernel>> shared(const std::vector<Kernel>& kernels) {
  std::vector<const Kernel*> given;
  for (const Kernel& kernel : kernels) given.push_back(&kernel);
  return with_common_sizes(given);
}

// An update of a parameter, whose factor is element `of` of what an optimizer has for all of them.
Kernel updated(std::int64_t of, std::int64_t rows) {
  return loop::parse_kernel("updated(f32 p0[9], f64 p1[9], out f32 p2[9])\n  outer i0<" + std::to_string(rows) +
                            " outer i1<20 vector\n  once 0 v0 f64 = p1[" + std::to_string(of) +
                            "]\n  once 0 v1 f32 = cast(v0)\n  outer0 v2 f32 = p0[24*i0 + i1]\n"
                            "  outer0 v3 f32 = mul(v2, v1)\n  outer0 p2[24*i0 + i1] = v3\n");
}

// Rows of x with a frame of `frame` zeros in a row of `width`, of which the kernel stores `rows` from `start` on.
Kernel framed(std::int64_t rows, std::int64_t width, std::int64_t frame, std::int64_t start) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::string inside = text(width - 2 * frame);
  return loop::parse_kernel("framed(f32 p0[9], out f32 p1[9])\n  outer i0<" + text(rows) + " outer i1<" + text(width) +
                            " vector\n"
                            "  outer0 v0 bool = 0 <= i1 - " +
                            text(frame) + "\n  outer0 v1 f32 = p0[" + inside + "*i0 + i1 - " + text(frame) +
                            "] where v0\n  outer0 p1[" + text(width) + "*i0 + i1 + " + text(start) + "] = v1\n");
}

// Each image against itself one row and one column on.
std::vector<Tensor> edges(const std::vector<Tensor>& images) {
  std::vector<Tensor> all;
  for (const Tensor& x : images)
    all.push_back(maximum(slice(slice(x, 1, 1), 2, 1), slice(slice(x, 1, 0, -1), 2, 0, -1)));
  return all;
}

// Images of so many sizes, in rows that are no whole vectors.
std::vector<Tensor> images(int count) {
  std::vector<Tensor> all;
  for (int i = 0; i < count; ++i) all.push_back(reshape(arange(4 * (5 + i) * (20 + 3 * i)), {4, 5 + i, 20 + 3 * i}));
  return all;
}

std::set<std::string> functions(const std::vector<Tensor>& x) {
  std::set<std::string> names;
  for (const auto& kernel : explain(compile(edges), x).kernels) names.insert(kernel.name);
  return names;
}

}  // namespace

TEST_CASE("kernels of several sizes have a slot for each number in which they differ") {
  const auto made = shared({framed(10, 20, 1, 7), framed(12, 21, 1, 9), framed(30, 50, 2, 7)});
  std::set<std::string> texts;
  for (const auto& kernel : made) {
    REQUIRE(kernel);
    texts.insert(loop::shared_text(*kernel));
    loop::verify(*kernel);
  }
  CHECK(texts.size() == 1);
  CHECK(made[0]->parameters.size() == 5);
}

TEST_CASE("a kernel whose work is divided by a size that may be 0 is looked at as others are") {
  Kernel kernel = loop::parse_kernel(
      "divided(f32 p0[64], out f32 p1[64]) where s0 >= 1 is s0\n  outer i0<((64) / (s0)) outer i1<8 vector\n"
      "  outer0 v0 f32 = p0[8*i0 + i1]\n  outer0 p1[8*i0 + i1] = v0\n");
  kernel.parameters[0] = dims::symbol(0, 0);
  CHECK(!shared({kernel})[0]);
}

TEST_CASE("what shapes a loop stays a number: short and whole vectors have a function of their own") {
  const auto made = shared({framed(10, 20, 1, 7), framed(12, 21, 1, 9), framed(30, 50, 2, 7), framed(10, 9, 1, 7),
                            framed(10, 10, 1, 7), framed(11, 11, 1, 7), framed(10, 32, 1, 7), framed(10, 48, 1, 7)});
  const auto text = [&](std::size_t k) { return loop::shared_text(*made[k]); };
  CHECK(text(0) == text(2));
  CHECK(text(3) == text(5));
  CHECK(text(0) != text(3));
  CHECK(text(6) == text(7));
  CHECK(text(0) != text(6));
}

TEST_CASE("bounds of short rows stay numbers where a kernel has much work, and their number becomes a slot") {
  const auto made = shared({framed(100000, 20, 1, 7), framed(200000, 20, 1, 7), framed(100000, 24, 1, 7)});
  REQUIRE(made[0]);
  CHECK(loop::shared_text(*made[0]) == loop::shared_text(*made[1]));
  CHECK(made[0]->axes[1].extent.same(Dim(20)));
  CHECK_FALSE(made[2]);
}

TEST_CASE(
    "on a device kernels that differ in the element which all points read are one function, with narrow indices") {
  const std::vector<Kernel> kernels = {updated(3, 10), updated(7, 10), updated(7, 12), updated(0, 10)};
  std::vector<const Kernel*> given;
  for (const Kernel& kernel : kernels) given.push_back(&kernel);
  const auto made = with_common_elements(given);
  REQUIRE(made[0]);
  REQUIRE(made[1]);
  CHECK(loop::shared_text(*made[0]) == loop::shared_text(*made[1]));
  CHECK(made[0]->parameters.at(0).same(Dim(3)));
  CHECK(made[1]->parameters.at(0).same(Dim(7)));
  CHECK(loop::fits_32_bits(*made[0]));
  loop::verify(*made[0]);
  CHECK_FALSE(made[2]);  // other sizes, which may shape its loops
  CHECK_FALSE(made[3]);
}

TEST_CASE("a layer that is repeated over other sizes adds no function, and computes the same") {
  CHECK(functions(images(4)).size() == 1);
  CHECK(functions(images(9)).size() == 1);
  const std::vector<Tensor> x = images(9), plain = edges(x), compiled = compile(edges)(x);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(all(equal(plain[i], compiled[i])).item<bool>());
}
