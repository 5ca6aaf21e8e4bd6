// Functions that decide on values: an early exit, k-means until it converges, beam search, Newton's method, a learning
// rate that falls on a plateau, steps that are skipped, experts chosen by a switch. Each is plain C++, compiled as it
// is, and gives what the plain function gives. Usage: 11_decisions
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "weft/weft.hpp"

using namespace weft;

namespace {

// ---- an encoder that leaves when its head is sure -------------------------------------------------------------------

struct Encoder {
  std::vector<nn::Linear> layers;
  nn::Linear head{32, 4};
  WEFT_MEMBERS(layers, head)
};
struct Classified {
  Tensor classes;
  int layers = 0;  // that it took
  WEFT_MEMBERS(classes, layers)
};
Classified early_exit(const Encoder& model, const Tensor& given, const Scalar& sure) {
  Tensor x = given;
  Classified found;
  for (const nn::Linear& layer : model.layers) {
    x = x + tanh(layer(x));
    ++found.layers;
    found.classes = softmax(model.head(x), -1);
    if (amin(amax(found.classes, -1)) > sure) break;
  }
  return found;
}

// ---- k-means --------------------------------------------------------------------------------------------------------

struct Clusters {
  Tensor centres, nearest;
  int rounds = 0;
  WEFT_MEMBERS(centres, nearest, rounds)
};
Clusters k_means(const Tensor& points, const Tensor& first) {
  Clusters c{first, argmin(cdist(points, first), 1)};
  for (bool moved = true; moved && c.rounds < 50; ++c.rounds) {
    const Tensor members = one_hot(c.nearest, first.size(0));  // [points, clusters]
    const Tensor counts = maximum(sum(members, 0), 1.);
    c.centres = sum(unsqueeze(members, 2) * unsqueeze(points, 1), 0) / unsqueeze(counts, 1);
    const Tensor nearest = argmin(cdist(points, c.centres), 1);
    moved = any(nearest != c.nearest).item<bool>();
    c.nearest = nearest;
  }
  return c;
}

// ---- beam search: the likeliest texts of tokens of which each depends on the one before
// ------------------------------

struct Beams {
  Tensor texts, scores;
  WEFT_MEMBERS(texts, scores)
};
Beams beam_search(const Tensor& likelihoods, const Tensor& start) {
  const std::int64_t width = 3, end = 0;
  const Dim tokens = likelihoods.size(1);
  Beams beams{full({width, 1}, start.item<int>(), {.dtype = DType::i64}), constant({0.f, -1e9f, -1e9f})};
  for (int length = 1; length < 8; ++length) {
    const Tensor last = select(beams.texts, 1, length - 1);
    const Tensor next =
        where(unsqueeze(last == end, 1), log(one_hot(last, tokens)), log(index_select(likelihoods, 0, last)));
    const ValuesAndIndices best = topk(reshape(unsqueeze(beams.scores, 1) + next, {width * tokens}), width);
    const Tensor from = floor_divide(best.indices, tokens), token = remainder(best.indices, tokens);
    beams.texts = concat({index_select(beams.texts, 0, from), unsqueeze(token, 1)}, 1);
    beams.scores = best.values;
    if (all(token == end)) break;
  }
  return beams;
}

// ---- Newton's method ------------------------------------------------------------------------------------------------

Tensor square_root(const Tensor& a) {
  Tensor x = a;
  while (abs(x * x - a) > a * 1e-6) x = (x + a / x) / 2;
  return x;
}

// ---- training: a rate that falls when the loss does not, and steps that are skipped
// -----------------------------------

struct Fit {
  Param w{zeros({8})};
  Tensor best = full({}, 1e9), rate = full({}, 0.05), waited = zeros({}), skipped = zeros({});
  WEFT_MEMBERS(w, best, rate, waited, skipped)
};
Tensor train(Fit& fit, const Tensor& x, const Tensor& y) {
  auto [loss, gradient] = value_and_grad([&](const Param& w) { return mean(square(sum(x * w, 1) - y)); }, fit.w);
  if (sum(square(gradient)) > 400) {
    fit.skipped = fit.skipped + 1;
    return loss;
  }
  if (loss < fit.best * 0.999) {
    fit.best = loss;
    fit.waited = zeros({});
  } else {
    fit.waited = fit.waited + 1;
    if (fit.waited > 4) {
      fit.rate = fit.rate * 0.5;
      fit.waited = zeros({});
    }
  }
  fit.w = fit.w - gradient * fit.rate;
  return loss;
}

// ---- experts that a switch chooses
// -----------------------------------------------------------------------------------

Tensor experts(const Tensor& gate, const Tensor& x) {
  switch (argmax(sum(x * gate, 1)).item<int>()) {
    case 0: return exp(-square(x));
    case 1: return maximum(x, 0.);
    case 2: return x / (1 + abs(x));
    default: return -x;
  }
}

// ---- each of them compiled, against the plain function
// -----------------------------------------------------------------

bool fine = true;
void compare(const char* name, int call, const Tensor& found, const Tensor& expected, double tolerance = 0) {
  if (allclose(found, expected, {.rtol = tolerance, .atol = tolerance}).item<bool>()) return;
  std::printf("%s, call %d: the compiled function gives something else\n", name, call);
  fine = false;
}

}  // namespace

int main() {
  seed(1);
  Encoder encoder;
  for (int i = 0; i < 12; ++i) encoder.layers.emplace_back(32, 32);
  auto compiled_exit = compile(early_exit);
  for (int call = 0; call < 6; ++call) {
    const Tensor x = normal({8, 32});
    const Scalar sure = 0.26 + 0.02 * call;
    const Classified found = compiled_exit(encoder, x, sure), expected = early_exit(encoder, x, sure);
    compare("early exit", call, found.classes, expected.classes, 1e-5);
    std::printf("early exit: sure by %.2f after %d of 12 layers\n", 0.26 + 0.02 * call, found.layers);
    fine = fine && found.layers == expected.layers;
  }

  auto compiled_k_means = compile(k_means);
  for (int call = 0; call < 4; ++call) {
    const Tensor points = concat({normal({40, 2}), normal({40, 2}, 3), normal({40, 2}, -3)}).eval();
    const Tensor first = slice(points, 0, 0, 120, 40).eval();
    const Clusters found = compiled_k_means(points, first), expected = k_means(points, first);
    compare("k-means", call, found.centres, expected.centres, 1e-5);
    std::printf("k-means: %d rounds\n", found.rounds);
    fine = fine && found.rounds == expected.rounds;
  }

  auto compiled_search = compile(beam_search);
  for (int call = 0; call < 4; ++call) {
    const Tensor likelihoods = softmax(normal({5, 5}) * 2, -1).eval();
    const Tensor start = from_list<std::int64_t>({1 + call % 2});
    const Beams found = compiled_search(likelihoods, start), expected = beam_search(likelihoods, start);
    compare("beam search", call, found.texts, expected.texts);
    compare("beam search", call, found.scores, expected.scores, 1e-6);
    std::printf("beam search: texts of %d tokens\n", static_cast<int>(found.texts.size(1).constant()));
  }

  auto compiled_root = compile(square_root);
  for (int call = 0; call < 5; ++call) {
    const Tensor a = full({}, std::pow(10., 3 * call - 5)).eval();
    compare("Newton", call, compiled_root(a), square_root(a));
  }

  auto step = compile(train);
  Fit compiled_fit, plain_fit;
  for (int call = 0; call < 40; ++call) {
    const Tensor x = normal({16, 8}).eval();
    const Tensor y = (sum(x, 1) * (call % 10 == 9 ? 100. : 1.)).eval();
    compare("training", call, step(compiled_fit, x, y), train(plain_fit, x, y), 1e-4);
    compare("training", call, compiled_fit.w, plain_fit.w, 1e-4);
    compare("training", call, compiled_fit.skipped, plain_fit.skipped);
  }
  std::printf("training: %d of 40 steps skipped, the rate is %.4f\n", compiled_fit.skipped.item<int>(),
              compiled_fit.rate.item());

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
