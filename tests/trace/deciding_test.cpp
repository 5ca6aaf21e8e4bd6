// The functions of examples/11_decisions.cpp, compiled with and without auto_select: the bits of the plain functions,
// over calls that decide otherwise, and for other sizes.
#include "examples/support/deciding.hpp"

#include <cmath>

#include "tests/trace/support.hpp"

using namespace weft;
using namespace trace_test;
using namespace deciding;

namespace {

bool same(const Tensor& a, const Tensor& b) { return a.shape().same(b.shape()) && text_of(a) == text_of(b); }

}  // namespace

TEST_CASE("deciding: a transformer leaves early") {
  seed(1);
  const Encoder encoder(4);
  auto f = compile(early_exit, {.auto_select = true});
  bool left[5] = {};
  for (const std::int64_t batch : {2, 2, 2, 3, 3}) {
    const Tensor x = normal({batch, 4, 32}).eval();
    for (const double sure : {0.2, 0.28, 0.32, 0.9}) {
      const Classified found = f(encoder, x, Scalar(sure)), expected = early_exit(encoder, x, Scalar(sure));
      CHECK(same(found.classes, expected.classes));
      CHECK(found.layers == expected.layers);
      left[found.layers] = true;
    }
  }
  CHECK(left[1]);
  CHECK(left[4]);
}

TEST_CASE("deciding: k-means until it converges") {
  seed(2);
  auto f = compile(k_means, {.auto_select = true});
  int fewest = 50, most = 0;
  for (const std::int64_t each : {20, 20, 20, 30, 30}) {
    const Tensor points = concat({normal({each, 2}), normal({each, 2}, 2), normal({each, 2}, -2)}).eval();
    const Tensor first = slice(points, 0, 0, 3 * each, each).eval();
    const Clusters found = f(points, first), expected = k_means(points, first);
    CHECK(same(found.centres, expected.centres));
    CHECK(same(found.nearest, expected.nearest));
    CHECK(found.rounds == expected.rounds);
    fewest = std::min(fewest, found.rounds);
    most = std::max(most, found.rounds);
  }
  CHECK(fewest < most);
}

TEST_CASE("deciding: beam search until all texts have ended") {
  seed(3);
  auto f = compile(beam_search, {.auto_select = true});
  std::int64_t shortest = 8, longest = 0;
  for (const float ends : {0.f, 6.f, 3.f, 9.f, 0.f, 6.f}) {
    const Tensor likelihoods = softmax(normal({5, 5}) * 2 + from_list<float>({ends, 0, 0, 0, 0}), -1).eval();
    const Tensor start = from_list<std::int64_t>({1});
    const Beams found = f(likelihoods, start), expected = beam_search(likelihoods, start);
    CHECK(same(found.texts, expected.texts));
    CHECK(same(found.scores, expected.scores));
    shortest = std::min(shortest, found.texts.size(1).constant());
    longest = std::max(longest, found.texts.size(1).constant());
  }
  CHECK(shortest < longest);
}

TEST_CASE("deciding: Newton's method") {
  auto f = compile(square_root, {.auto_select = true});
  for (int round = 0; round < 2; ++round)
    for (const double a : {2., 1e-5, 1e10, 3., 1e4, 1e-2}) {
      CHECK(same(f(full({}, a)), square_root(full({}, a))));
      CHECK(same(f(full({1}, a)), square_root(full({1}, a))));
    }
}

TEST_CASE("deciding: a rate that falls on a plateau, steps that are skipped") {
  for (const bool auto_select : {false, true}) {
    seed(4);
    auto f = compile(train, {.auto_select = auto_select});
    for (const std::int64_t rows : {16, 12}) {
      Fit own, plain;
      for (int call = 0; call < 40; ++call) {
        const Tensor x = normal({rows, 8}).eval(),
                     y = ((sum(x, 1) + normal({rows})) * (call % 10 == 9 ? 100. : 1.)).eval();
        CHECK(same(f(own, x, y), train(plain, x, y)));
        CHECK(same(own.w, plain.w));
        CHECK(same(own.best, plain.best));
        CHECK(same(own.rate, plain.rate));
        CHECK(same(own.waited, plain.waited));
        CHECK(same(own.skipped, plain.skipped));
      }
      CHECK(own.skipped.item() == 4);
      CHECK(own.rate.item() < 0.05);
      const std::string tree = to_string(explain(f, own, zeros({rows, 8}), zeros({rows})));
      CHECK(contains(tree, auto_select ? "both sides are computed" : "auto_select would compute both"));
    }
  }
}

TEST_CASE("deciding: experts that a switch chooses") {
  seed(5);
  auto f = compile(experts, {.auto_select = true});
  for (int call = 0; call < 16; ++call) {
    const Tensor x = normal({call % 3 == 2 ? 24 : 16}).eval(), gate = normal({4, call % 3 == 2 ? 24 : 16}).eval();
    CHECK(same(f(gate, x), experts(gate, x)));
  }
}
