// checkpoint(): values and gradients are those of the plain function, eagerly, compiled, in a split step, nested, in
// loops and under vmap; what is inside is not held, and a compiled step needs less memory.
#include "weft/checkpoint.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "base/fail.hpp"
#include "ir/node.hpp"
#include "tests/on_the_host.hpp"
#include "tests/trace/support.hpp"
#include "weft/effects.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"
#include "weft/random.hpp"
#include "weft/transforms.hpp"
#include "weft/vmap.hpp"

using namespace weft;
using namespace trace_test;

namespace {

struct Block {
  nn::Linear in{16, 64}, out{64, 16};
  nn::LayerNorm norm{16};
  Tensor operator()(const Tensor& x) const { return x + out(gelu(in(norm(x)))); }
};
struct Stack {
  std::vector<Block> blocks = std::vector<Block>(4);
};
enum class How { plain, each, nested, sequential };

Tensor run(const Stack& m, Tensor x, How how) {
  if (how == How::sequential) return checkpoint_sequential(m.blocks, 2, x);
  for (const Block& block : m.blocks) {
    const auto once = [&](const Tensor& x) { return block(x); };
    if (how == How::plain) x = once(x);
    if (how == How::each) x = checkpoint(once)(x);
    if (how == How::nested) x = checkpoint([&](const Tensor& x) { return x + checkpoint(once)(x) * sin(x); })(x);
  }
  return x;
}
// The same layers in the lists that a user has: of one class, by pointers, of several classes.
template <class M>
void check_sequential(const M& blocks, const Tensor& x) {
  const auto plain = [&](const M& m) {
    Tensor y = x;
    for (int i = 0; i < 3; ++i) y = detail::run_blocks(m, i, i + 1, y);
    return sum(square(y));
  };
  const M expected = grad(plain, blocks);
  for (const int segments : {1, 2, 3, 7}) {
    const M found = grad([&](const M& m) { return sum(square(checkpoint_sequential(m, segments, x))); }, blocks);
    tree::for_each(expected, found, [](const Param& a, const Param& b) { CHECK(amax(abs(a - b)).item() < 1e-5); });
  }
}
Tensor loss_of(const Stack& m, const Tensor& x, How how) { return mean(square(run(m, x, how))); }
Tensor nested_plain(const Stack& m, Tensor x) {
  for (const Block& block : m.blocks) x = x + block(x) * sin(x);
  return mean(square(x));
}

template <class M>
double difference(const M& a, const M& b) {
  double greatest = 0;
  detail::LeafList left, right;
  M x = detail::clone<M>(a), y = detail::clone<M>(b);
  detail::flatten(x, left);
  detail::flatten(y, right);
  for (std::size_t i = 0; i < left.leaves.size(); ++i) {
    if (!detail::holds_tensor(left.leaves[i].kind) || !left.leaves[i].tensor().defined()) continue;
    const Tensor one = left.leaves[i].tensor(), two = right.leaves[i].tensor();
    greatest = std::max(greatest, amax(abs(one - two)).template item<double>());
  }
  return greatest;
}

}  // namespace

TEST_CASE("checkpoint_sequential over vectors, pointers and a Sequential; layers that change") {
  const Tensor x = normal({4, 3});
  const nn::Linear first(3, 3);
  check_sequential(std::vector{first, first, first}, x);
  check_sequential(nn::Sequential(first, nn::ReLU(), nn::Linear(3, 2)), x);
  nn::Sequential changing(first, nn::BatchNorm1d(3), nn::Linear(3, 2)), plain = changing;
  checkpoint_sequential(changing, 2, x).eval();
  plain(x).eval();
  CHECK(allclose(get<1>(changing).running_mean, get<1>(plain).running_mean).item<bool>());
  CHECK(get<1>(changing).num_batches_tracked->item() == 1);
  std::vector<std::unique_ptr<nn::Linear>> pointers;
  for (int i = 0; i < 3; ++i) pointers.push_back(std::make_unique<nn::Linear>(first));
  CHECK(allclose(checkpoint_sequential(pointers, 2, x), first(first(first(x)))).item<bool>());
}

TEST_CASE("gradients of checkpointed blocks are those of the blocks: eagerly, compiled and in a split step") {
  seed(3);
  const Stack model;
  const Tensor x = normal({8, 16});
  for (const How how : {How::each, How::sequential, How::nested}) {
    CAPTURE(static_cast<int>(how));
    const auto plain = value_and_grad(
        [&](const Stack& m) { return how == How::nested ? nested_plain(m, x) : loss_of(m, x, How::plain); }, model);
    const auto check = [&](const auto& found) {
      CHECK(std::abs(found.value.template item<double>() - plain.value.template item<double>()) <= 1e-6);
      CHECK(difference(found.gradients, plain.gradients) <= 1e-5);
    };
    check(value_and_grad([&](const Stack& m) { return loss_of(m, x, how); }, model));
    const auto step = compile([](const Stack& m, const Tensor& x, How how) {
      return value_and_grad([&](const Stack& m) { return loss_of(m, x, how); }, m);
    });
    check(step(model, x, how));
    const auto forward = compile([](const Stack& m, const Tensor& x, How how) { return loss_of(m, x, how); });
    check(value_and_grad([&](const Stack& m) { return forward(m, x, how); }, model));
  }
}

TEST_CASE("eagerly what is inside a checkpoint is gone after the call") {
  const Tensor x = normal({4, 4});
  const Tensor slope = grad(
      [&](const Tensor& x) {
        const Tensor y = checkpoint([](const Tensor& x) { return tanh(exp(sin(x))); })(x);
        y.eval();
        CHECK(y.node()->op == Op::call);
        CHECK(y.node()->operand_count == 1);  // the argument is all that the derivative reads
        return sum(y);
      },
      x);
  const Tensor plain = grad([&](const Tensor& x) { return sum(tanh(exp(sin(x)))); }, x);
  CHECK(text_of(slope) == text_of(plain));
}

TEST_CASE("a compiled step with checkpoints computes values again and takes less memory") {
  const Stack model;
  const Tensor x = normal({512, 16});
  const auto step = [](const Stack& m, const Tensor& x, How how) {
    return value_and_grad([&](const Stack& m) { return loss_of(m, x, how); }, m);
  };
  const Explanation plain = explain(compile(step), model, x, How::plain),
                    again = explain(compile(step), model, x, How::each);
  const auto products = [](const Explanation& e) {
    std::ptrdiff_t count = 0;
    for (std::size_t at = 0; (at = e.optimized.find("= matmul(", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(products(plain) == 4 * 6);
  CHECK(products(again) == 4 * 7);  // the second product of a block is not needed again
  CHECK(contains(again.optimized, " recomputation "));
  if (test::in_least_memory()) CHECK(again.arena_bytes * 10 < plain.arena_bytes * 7);
}

TEST_CASE("what is computed again waits for the gradient, and products for weights do not wait" *
          test::needs(test::order_of_least_memory)) {
  const std::vector<nn::TransformerEncoderLayer> layers(
      5, nn::TransformerEncoderLayer(64, 4, {.dim_feedforward = 256, .dropout = 0}));
  const auto step = compile([](const std::vector<nn::TransformerEncoderLayer>& layers, const Tensor& x, bool again) {
    return grad(
        [&](const std::vector<nn::TransformerEncoderLayer>& layers) {
          Tensor y = x;
          for (const auto& layer : layers) {
            const auto run = [&](const Tensor& x) { return layer(x); };
            y = again ? checkpoint(run)(y) : run(y);
          }
          return mean(square(y));
        },
        layers);
  });
  const Tensor x = normal({64, 4, 64});
  const std::int64_t plain = explain(step, layers, x, false).arena_bytes,
                     again = explain(step, layers, x, true).arena_bytes;
  CAPTURE(plain);
  CAPTURE(again);
  CHECK(again * 10 < plain * 6);
}

namespace {
// The numbers of recomputations in a graph's text.
std::set<std::string> recomputations(const std::string& text) {
  const std::string word = " recomputation ";
  std::set<std::string> found;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
    at += word.size();
    found.insert(text.substr(at, text.find_first_not_of("0123456789", at) - at));
  }
  return found;
}
}  // namespace

TEST_CASE("checkpoints inside of a checkpoint are computed again one by one, and take less memory") {
  const auto step = compile([](const Stack& m, const Tensor& x, bool inner) {
    return grad(
        [&](const Stack& m) {
          const auto all = [&](const Tensor& x) { return run(m, x, inner ? How::each : How::plain); };
          return mean(square(checkpoint(all)(x)));
        },
        m);
  });
  const Stack model;
  const Tensor x = normal({512, 16});
  const auto outer = explain(step, model, x, false), both = explain(step, model, x, true);
  CHECK(recomputations(outer.optimized).size() == 1);
  CHECK(recomputations(both.optimized).size() == 5);
  CAPTURE(outer.arena_bytes);
  CAPTURE(both.arena_bytes);
  if (test::in_least_memory()) CHECK(both.arena_bytes * 10 < outer.arena_bytes * 7);
}

TEST_CASE("a checkpoint's gradient in vmap and in a rule of the program computes values again") {
  static constexpr auto inside = [](const Tensor& x) { return sum(tanh(x * x) * sin(x)); };
  static constexpr auto again = [](const Tensor& x) { return grad(checkpoint(inside), x); };
  const auto examples = compile([](const Tensor& x) { return vmap(again)(x); });
  const auto ruled = compile([](const Tensor& x) {
    const auto f = custom_vjp(
        inside,
        [](const Tensor& x) {
          return std::pair{inside(x), x};
        },
        [](const Tensor& x, const Tensor& g) { return again(x) * g; });
    return grad([&](const Tensor& x) { return f(x); }, x) + grad([&](const Tensor& x) { return f(x); }, x * 2);
  });
  const Tensor x = normal({5, 3}) * 0.5;
  CHECK(amax(abs(examples(x) - grad(inside, x))).item<double>() <= 1e-6);
  CHECK(amax(abs(ruled(x) - grad(inside, x) - grad(inside, x * 2))).item<double>() <= 1e-6);
  CHECK(recomputations(explain(examples, x).optimized).size() == 1);
  CHECK(recomputations(explain(ruled, x).optimized).size() == 2);
}

TEST_CASE("draws inside a checkpoint are the same when they are computed again") {
  static constexpr auto f = [](const Tensor& x, Generator& generator, bool checkpointed) {
    const auto inside = [&](const Tensor& x) {
      return exp(dropout(x, 0.5, generator)) + normal({6, 6}, 0, 1, generator) * x;
    };
    const Tensor y = checkpointed ? checkpoint(inside)(x) : inside(x);
    return sum(y * normal({6, 6}, 0, 1, generator));  // the generator has gone on
  };
  const Tensor x = normal({6, 6});
  const auto slope = [&](bool checkpointed) {
    Generator generator(5);
    return text_of(grad([&](const Tensor& x) { return f(x, generator, checkpointed); }, x));
  };
  CHECK(slope(true) == slope(false));
  const auto step = compile([](const Tensor& x, Generator& generator, bool checkpointed) {
    return grad([&](const Tensor& x) { return f(x, generator, checkpointed); }, x);
  });
  Generator first(5), second(5);
  CHECK(text_of(step(x, first, true)) == text_of(step(x, second, false)));
  // The default generator too, eagerly and compiled.
  const auto by_default = [](const Tensor& x, bool checkpointed) {
    const auto inside = [](const Tensor& x) { return exp(dropout(x, 0.5)); };
    return sum((checkpointed ? checkpoint(inside)(x) : inside(x)) * normal({6, 6}));
  };
  const auto of_default = [&](auto function, bool checkpointed) {
    seed(11);
    return text_of(grad([&](const Tensor& x) { return function(x, checkpointed); }, x));
  };
  CHECK(of_default(by_default, true) == of_default(by_default, false));
  CHECK(of_default(compile(by_default), true) == of_default(by_default, false));
}

TEST_CASE("checkpoints in scan, vmap, jvp and second derivatives") {
  const auto inside = [](const Tensor& x) { return tanh(x * x) * sin(x); };
  const auto both = [&](auto use) {
    const Tensor plain = use([&](const Tensor& x) { return inside(x); });
    const Tensor found = use([&](const Tensor& x) { return checkpoint(inside)(x); });
    CHECK(amax(abs(plain - found)).item<double>() <= 1e-6);
  };
  const Tensor x = normal({5, 3}) * 0.5;
  both([&](auto f) {
    return grad(
        [&](const Tensor& x) {
          return sum(scan([&](Tensor state, const Tensor& row) { return state + f(state + row); }, zeros({3}), x));
        },
        x);
  });
  both([&](auto f) { return grad([&](const Tensor& x) { return sum(vmap(f)(x) * x); }, x); });
  both([&](auto f) { return jvp(f, x, x + 1).tangent; });
  both([&](auto f) {
    return grad([&](const Tensor& x) { return sum(square(grad([&](const Tensor& x) { return sum(f(x)); }, x))); }, x);
  });
  static constexpr auto once = [](const Tensor& x) { return tanh(x * x) * sin(x); };
  const auto slopes = compile([](const Tensor& x, bool checkpointed) {
    const auto f = [&](const Tensor& x) { return checkpointed ? checkpoint(once)(x) : once(x); };
    return grad([&](const Tensor& x) { return sum(square(grad([&](const Tensor& x) { return sum(f(x)); }, x))); }, x);
  });
  CHECK(text_of(slopes(x, true)) == text_of(slopes(x, false)));
}

// What is read at positions is checked, also where a loop or a rule of the program computes it again.
TEST_CASE("checkpoints of loops and of functions with a derivative of their own that read at positions") {
  const Tensor places = from_list<std::int64_t>({2, 0});
  const auto look = [&](const Tensor& x) { return sum(sin(gather(x, places))); };
  const auto loop = [&](const Tensor& x) {
    return sum(scan(
        [&](const Tensor& state, const Tensor& each) {
          const Tensor at = remainder(cast(state * 10, DType::i64), 3);
          return sin(gather(x, at)) * each + state;
        },
        zeros({2}), x));
  };
  const auto reverse = custom_vjp(
      look,
      [&](const Tensor& x) {
        return std::pair{look(x), x};
      },
      [&](const Tensor& x, const Tensor& g) { return grad(look, x) * g; });
  const auto forward = custom_jvp(
      look, [&](const Tensor& x, const Tensor& dx) { return sum(cos(gather(x, places)) * gather(dx, places)); });
  const Tensor x = from_list<float>({0.3f, 0.7f, -0.2f});
  const auto both = [&](auto f) {
    const auto slope = [&](auto g) { return grad([&](const Tensor& x) { return g(x) * g(x * 2); }, x); };
    CHECK(text_of(slope(f)) == text_of(slope(checkpoint(f))));
    const Tensor distance = amax(abs(hvp(f, x, x) - hvp(checkpoint(f), x, x)));
    CHECK(distance.item() <= 1e-6);
  };
  both(loop);
  both(reverse);
  both(forward);
  const auto step = compile([](const Tensor& x, const Tensor& places) {
    const auto loop = [&](const Tensor& x) {
      return sum(scan([&](const Tensor& state, const Tensor& each) { return state + gather(x, places) * each; },
                      zeros({2}), x));
    };
    return grad([&](const Tensor& x) { return checkpoint(loop)(x); }, x);
  });
  CHECK(amax(abs(step(x, places) - from_list<float>({0.9f, 0.1f, 0.9f}))).item() <= 1e-6);
  CHECK(contains(message_of([&] { step(x, places + 1); }), "out of range"));
}

TEST_CASE("vmap over a checkpoint whose function checks: each example is checked, and its error has the line") {
  static constexpr auto loss = [](const Tensor& x, const Tensor& label) {
    return nn::cross_entropy(x, label) * sum(tanh(x));  // it checks that a label is a class
  };
  const auto plain = [](const Tensor& x, const Tensor& labels) {
    const auto f = [&](const Tensor& x) { return sum(vmap(loss)(x, labels)); };
    return grad(f, x);
  };
  const auto slopes = [](const Tensor& x, const Tensor& labels) {
    const auto f = [&](const Tensor& x) { return sum(vmap(checkpoint(loss))(x, labels)); };
    return grad(f, x);
  };
  // A checkpoint around vmap, too.
  const auto around = [](const Tensor& x, const Tensor& labels) {
    const auto f = [&](const Tensor& x) {
      return sum(checkpoint([](const Tensor& x, const Tensor& labels) { return vmap(loss)(x, labels); })(x, labels));
    };
    return grad(f, x);
  };
  const Tensor x = normal({5, 3}), labels = from_list<std::int64_t>({0, 2, 1, 1, 0});
  const Tensor wrong = from_list<std::int64_t>({0, 2, 3, 1, 0}), expected = plain(x, labels);
  const auto compiled = compile(slopes);
  const auto compiled_around = compile(around);
  for (const auto& call :
       {std::function<Tensor(const Tensor&)>([&](const Tensor& own) { return slopes(x, own); }),
        std::function<Tensor(const Tensor&)>([&](const Tensor& own) { return compiled(x, own); }),
        std::function<Tensor(const Tensor&)>([&](const Tensor& own) { return around(x, own); }),
        std::function<Tensor(const Tensor&)>([&](const Tensor& own) { return compiled_around(x, own); })}) {
    CHECK(amax(abs(call(labels) - expected)).item<double>() <= 1e-6);
    const std::string message = message_of([&] { call(wrong).eval(); });
    CAPTURE(message);
    CHECK(contains(message, "[cross_entropy] an index is out of range [0, 3)"));
    CHECK(contains(message, "checkpoint_test.cpp:"));
    CHECK(message.find('\n') == std::string::npos);
    CHECK(amax(abs(call(labels) - expected)).item<double>() <= 1e-6);  // and the next call is as before
  }
  CHECK(contains(explain(compiled, x, labels).optimized, " recomputation "));  // the batch is a checkpoint too
}

TEST_CASE("a checkpoint of a thousand operands: gradients, tangents, vmap") {
  std::vector<Tensor> weights;
  for (int i = 0; i < 1200; ++i) weights.push_back(ones({2}) * (0.001 * (i % 7)));
  const auto f = [&](const Tensor& x) {
    Tensor y = x;
    for (const Tensor& w : weights) y = y + w * x;
    return sum(square(y));
  };
  const auto again = [&](const Tensor& x) { return checkpoint(f)(x); };
  const Tensor x = normal({3, 2});
  const auto close = [](const Tensor& a, const Tensor& b) { CHECK(amax(abs(a / b - 1)).item<double>() <= 1e-5); };
  close(grad(again, x), grad(f, x));
  close(jvp(again, x, x).tangent, jvp(f, x, x).tangent);
  close(grad([&](const Tensor& x) { return sum(vmap(again)(x)); }, x), grad(f, x));
  // What a signature names: here each weight is an operand of a function with a derivative of its own.
  const auto own = custom_vjp(
      f,
      [&](const Tensor& x) {
        return std::pair{f(x), x};
      },
      [&](const Tensor& x, const Tensor& g) { return grad(f, x) * g; });
  close(grad([&](const Tensor& x) { return checkpoint(own)(x); }, x), grad(f, x));
}

TEST_CASE("a checkpoint in the body of a scan: the loop keeps its states, and nothing of the inside of an iteration") {
  static constexpr auto loss = [](const nn::Linear& in, const nn::Linear& out, const Tensor& xs, bool checkpointed) {
    const auto block = [&](const Tensor& h, const Tensor& x) {
      const Tensor middle = dropout(tanh(in(h + x)), 0.25);
      return tanh(h + out(middle * middle));
    };
    const auto body = [&](const Tensor& h, const Tensor& x) {
      return checkpointed ? checkpoint(block)(h, x) : block(h, x);
    };
    return mean(square(scan(body, zeros_like(xs[0]), xs)));
  };
  using Both = std::pair<nn::Linear, nn::Linear>;
  static constexpr auto slopes = [](const Both& model, const Tensor& xs, bool checkpointed) {
    return value_and_grad([&](const Both& m) { return loss(m.first, m.second, xs, checkpointed); }, model);
  };
  static constexpr auto second = [](const Both& model, const Tensor& xs, bool checkpointed) {
    return grad(
        [&](const Both& model) {
          const auto found = slopes(model, xs, checkpointed).gradients;
          return sum(square(found.first.weight)) + sum(square(found.second.weight));
        },
        model);
  };
  Both model(nn::Linear(4, 64), nn::Linear(64, 4));
  nn::to(model, DType::f64);
  const Tensor xs = cast(normal({50, 16, 4}), DType::f64);
  const auto compiled = compile(slopes);
  const auto compiled_second = compile(second);
  const auto seeded = [&](auto f, bool checkpointed) {
    seed(5);
    return f(model, xs, checkpointed);
  };
  const auto plain = seeded(slopes, false);
  for (const bool whole : {false, true}) {
    CAPTURE(whole);
    const auto found = whole ? seeded(compiled, true) : seeded(slopes, true);
    CHECK(found.value.item() == doctest::Approx(plain.value.item()).epsilon(1e-12));
    CHECK(difference(found.gradients, plain.gradients) <= 1e-11);
    const auto twice = whole ? seeded(compiled_second, true) : seeded(second, true);
    CHECK(difference(twice, seeded(second, false)) <= 1e-11);
  }
  const auto kept = explain(compiled, model, xs, false), again = explain(compiled, model, xs, true);
  CAPTURE(kept.arena_bytes);
  CHECK(kept.arena_bytes > 50 * 16 * 64 * 8);
  CHECK(again.arena_bytes < 50 * 16 * 4 * 8 * 4);
}

TEST_CASE("state that a checkpointed function changes is changed once") {
  const Tensor x = normal({8, 4});
  const auto train = [&](bool checkpointed) {
    nn::BatchNorm1d norm(4);
    const auto result = value_and_grad(
        [&](nn::BatchNorm1d& m) {
          const auto f = [](nn::BatchNorm1d& m, const Tensor& x) { return m(x); };
          return sum(square(checkpointed ? checkpoint(f)(m, x) : f(m, x)) * x);
        },
        norm);
    return text_of(norm.running_mean) + text_of(norm.running_var) + text_of(result.gradients.weight);
  };
  CHECK(train(true) == train(false));
  // As it was, where the function throws.
  nn::BatchNorm1d norm(4);
  const std::string before = text_of(norm.running_mean);
  CHECK_THROWS_AS(checkpoint([](nn::BatchNorm1d& m, const Tensor& x) -> Tensor {
                    m(x);
                    throw std::runtime_error("stop");
                  })(norm, x),
                  std::runtime_error);
  CHECK(text_of(norm.running_mean) == before);
}

TEST_CASE("a loss that depends only through stop_gradient has no gradient: in a checkpoint, a loop and a choice too") {
  const Tensor x = normal({4});
  const auto f = [](const Tensor& x) { return sum(stop_gradient(x) * 2); };
  const auto refused = [&](auto f) {
    CHECK(contains(message_of([&] { grad(f, x); }), "[grad] the loss does not depend on what it is differentiated"));
  };
  refused(f);
  refused([&](const Tensor& x) { return checkpoint(f)(x); });
  refused([&](const Tensor& x) { return checkpoint([&](const Tensor& x) { return checkpoint(f)(x); })(x); });
  refused([&](const Tensor& x) { return cond(sum(stop_gradient(x)) > 0, f, f, x); });
  refused([&](const Tensor& x) {
    return sum(fori(
        0, 3, [&](const Index&, const Tensor& s) { return s + stop_gradient(x); }, zeros({4})));
  });
  // Where one of two operands has one, it alone does.
  const auto both = checkpoint([&](const Tensor& x, const Tensor& y) { return sum(y * stop_gradient(x)); });
  const auto [first, second] =
      grad([&](const std::pair<Tensor, Tensor>& p) { return both(p.first, p.second); }, std::pair{x, Tensor(x * 3)});
  CHECK(text_of(first) == text_of(zeros({4})));
  CHECK(text_of(second) == text_of(x));
}

TEST_CASE("what a checkpoint can't do is one sentence with the line") {
  const Tensor x = normal({4});
  const auto refused = [&](auto f, const char* words, int line) {
    const std::string message = message_of([&] { grad([&](const Tensor& x) { return sum(f(x)); }, x); });
    CAPTURE(message);
    CHECK(contains(message, words));
    CHECK(contains(message, concat_text("at checkpoint_test.cpp:", line)));
  };
  const auto calls = [](const Tensor& x) {
    return host_call({x.shape(), x.dtype()}, HostFunction([](const Tensor& x) { return x * 2; }), x) * x;
  };
  refused([&](const Tensor& x) { return checkpoint(calls)(x); }, "[checkpoint] the function calls code of the program",
          __LINE__ - 1);
  const auto reads = [](const Tensor& x) { return sum(x).item<float>() > 0 ? x : x * 2; };
  refused([&](const Tensor& x) { return checkpoint(reads)(x); }, "a checkpointed function is not known", __LINE__ - 1);
  const auto leaks = [](const Tensor& x) {
    Tensor kept;
    checkpoint([&](const Tensor& x) { return kept = x * 2; })(x);
    return kept + 1;
  };
  refused(leaks, "[checkpoint] the function leaves a tensor (", __LINE__ - 3);
  // A layer that is captured and keeps statistics: said where it is checkpointed, not where it is used next.
  const Tensor rows = normal({8, 4});
  const auto train = [&](nn::BatchNorm1d& norm) {
    return value_and_grad(
               [&](nn::BatchNorm1d& m) {
                 return sum(checkpoint([&](const Tensor& x) { return m(x); })(rows + sum(m.weight)));
               },
               norm)
        .value;
  };
  nn::BatchNorm1d norm(4), in_call(4);
  const char* const words =
      "in something that it captures, as a layer keeps its statistics: make what it changes an argument";
  CHECK(contains(message_of([&] { train(norm); }), words));
  const auto step = compile(
      [](nn::BatchNorm1d& m, const Tensor& x) { return sum(checkpoint([&](const Tensor& x) { return m(x); })(x)); });
  CHECK(contains(message_of([&] { step(in_call, rows); }), words));
  CHECK(text_of(in_call.running_mean) == text_of(nn::BatchNorm1d(4).running_mean));
  nn::eval(in_call);  // and then keeps none
  CHECK(text_of(step(in_call, rows)) == text_of(step(in_call, rows)));
  std::vector<Block> blocks(2);
  CHECK(contains(message_of([&] { checkpoint_sequential(blocks, 0, x); }), "segments must be positive, it is 0"));
}
