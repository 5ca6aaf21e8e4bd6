// Functions that decide on values (support/deciding.hpp), compiled as they are, beside the same functions without
// compile(): they give the same bits. auto_select computes both sides of the decisions that are cheap. Usage:
// 11_decisions
#include <cmath>
#include <cstdio>

#include "examples/support/deciding.hpp"

using namespace weft;
using namespace deciding;

namespace {

bool fine = true;
void compare(const char* name, int call, const Tensor& found, const Tensor& expected) {
  if (all(found == expected).item<bool>()) return;
  std::printf("%s, call %d: the compiled function gives something else\n", name, call);
  fine = false;
}

}  // namespace

int main() {
  seed(1);
  const Encoder encoder(6);
  auto compiled_exit = compile(early_exit);
  for (int call = 0; call < 6; ++call) {
    const Tensor x = normal({4, 8, 32}).eval();
    const Scalar sure = 0.26 + 0.01 * call;
    const Classified found = compiled_exit(encoder, x, sure), expected = early_exit(encoder, x, sure);
    compare("early exit", call, found.classes, expected.classes);
    std::printf("early exit: sure by %.2f after %d of 6 layers\n", 0.26 + 0.01 * call, found.layers);
    fine = fine && found.layers == expected.layers;
  }

  auto compiled_k_means = compile(k_means);
  for (int call = 0; call < 4; ++call) {
    const Tensor points = concat({normal({40, 2}), normal({40, 2}, 3), normal({40, 2}, -3)}).eval();
    const Tensor first = slice(points, 0, 0, 120, 40).eval();
    const Clusters found = compiled_k_means(points, first), expected = k_means(points, first);
    compare("k-means", call, found.centres, expected.centres);
    std::printf("k-means: %d rounds\n", found.rounds);
    fine = fine && found.rounds == expected.rounds;
  }

  auto compiled_search = compile(beam_search);
  for (int call = 0; call < 4; ++call) {
    const Tensor likelihoods = softmax(normal({5, 5}) * 2 + from_list<float>({2.f * call, 0, 0, 0, 0}), -1).eval();
    const Tensor start = from_list<std::int64_t>({1 + call % 2});
    const Beams found = compiled_search(likelihoods, start), expected = beam_search(likelihoods, start);
    compare("beam search", call, found.texts, expected.texts);
    compare("beam search", call, found.scores, expected.scores);
    std::printf("beam search: texts of %d tokens\n", static_cast<int>(found.texts.size(1).constant()));
  }

  auto compiled_root = compile(square_root);
  for (int call = 0; call < 5; ++call) {
    const Tensor a = full({}, std::pow(10., 3 * call - 5)).eval();
    compare("Newton", call, compiled_root(a), square_root(a));
  }

  auto step = compile(train, {.auto_select = true});
  Fit compiled_fit, plain_fit;
  Tensor x, y;
  for (int call = 0; call < 40; ++call) {
    x = normal({16, 8}).eval();
    y = (sum(x, 1) * (call % 10 == 9 ? 100. : 1.)).eval();
    compare("training", call, step(compiled_fit, x, y), train(plain_fit, x, y));
    compare("training", call, compiled_fit.w, plain_fit.w);
    compare("training", call, compiled_fit.skipped, plain_fit.skipped);
  }
  std::printf("training: %d of 40 steps skipped, the rate is %.4f\n", compiled_fit.skipped.item<int>(),
              compiled_fit.rate.item());
  for (const std::string& line : explain(step, compiled_fit, x, y).decisions) std::printf("  %s\n", line.c_str());

  auto compiled_experts = compile(experts);
  for (int call = 0; call < 8; ++call) {
    const Tensor x = normal({16}).eval(), gate = normal({4, 16}).eval();
    compare("experts", call, compiled_experts(gate, x), experts(gate, x));
  }
  std::printf("%d, %d, %d, %d, %d and %d specializations\n", static_cast<int>(specialization_count(compiled_exit)),
              static_cast<int>(specialization_count(compiled_k_means)),
              static_cast<int>(specialization_count(compiled_search)),
              static_cast<int>(specialization_count(compiled_root)), static_cast<int>(specialization_count(step)),
              static_cast<int>(specialization_count(compiled_experts)));
  if (fine) std::printf("all as the plain functions\n");
  return fine ? 0 : 1;
}
