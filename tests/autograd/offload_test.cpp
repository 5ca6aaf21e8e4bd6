// offload(): values and gradients are those of the plain function, bit for bit, in every use. What waits in the host's
// memory on a device does so here on the host itself, where a copy is one step: that the steps are in a right order,
// and that no memory is given to others too early, shows in the bits.
#include "weft/offload.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ir/offload_mark.hpp"
#include "schedule/offload.hpp"
#include "tests/trace/support.hpp"
#include "weft/checkpoint.hpp"
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

// Values wait in the host's memory though everything is on the host.
class OnHost {
 public:
  explicit OnHost(std::int64_t least_bytes = 64) { offload_choices = {true, least_bytes}; }
  ~OnHost() { offload_choices = before_; }
  OnHost(const OnHost&) = delete;

 private:
  const OffloadChoices before_ = offload_choices;
};

struct Block {
  nn::Linear in{16, 64}, out{64, 16};
  nn::LayerNorm norm{16};
  Tensor operator()(const Tensor& x) const { return x + out(gelu(in(norm(x)))); }
};
struct Stack {
  std::vector<Block> blocks = std::vector<Block>(8);
};

Tensor loss_of(const Stack& m, Tensor x, bool offloads) {
  for (const Block& block : m.blocks) x = offloads ? offload(block)(x) : block(x);
  return mean(square(x));
}
auto train(const Stack& m, const Tensor& x, bool offloads) {
  return value_and_grad([&](const Stack& m) { return loss_of(m, x, offloads); }, m);
}

// Shapes and bits of all tensors.
template <class M>
std::string bits_of(const M& given) {
  M values = detail::clone<M>(given);
  detail::LeafList leaves;
  detail::flatten(values, leaves);
  std::string text;
  for (const detail::Leaf& leaf : leaves.leaves)
    if (detail::holds_tensor(leaf.kind) && leaf.tensor().defined()) text += text_of(leaf.tensor()) + "\n";
  return text;
}

std::ptrdiff_t count(const Explanation& e, const std::string& name) { return std::ranges::count(e.memory.steps, name); }

}  // namespace

TEST_CASE("a compiled step whose values wait elsewhere gives the same bits in less memory") {
  const OnHost here;
  seed(3);
  const Stack model;
  const Tensor x = normal({64, 16});
  const auto plain = compile(train), offloads = compile(train);
  for (int call = 0; call < 3; ++call)
    CHECK((bits_of(offloads(model, x * call, true).gradients) == bits_of(plain(model, x * call, false).gradients)));
  const Explanation kept = explain(plain, model, x, false), gone = explain(offloads, model, x, true);
  CHECK(count(kept, "offload") == 0);
  const std::ptrdiff_t copies = count(gone, "offload");
  CHECK(copies >= 2 * 7);  // a value of each block but the last, begun and awaited
  CHECK(count(gone, "bring_back") == copies);
  CHECK(contains(gone.optimized, " offloaded"));
  CAPTURE(gone.arena_bytes);
  CAPTURE(kept.arena_bytes);
  CHECK(gone.arena_bytes * 10 < kept.arena_bytes * 7);
  CHECK(kept.memory.offloaded == 0);
  CHECK(gone.memory.offloaded >= 7 * 64 * 64 * 4);
  CHECK(contains(to_string(gone), " wait in the host's memory"));
  CHECK(*std::ranges::max_element(gone.memory.live) <= gone.arena_bytes + gone.memory.results);
}

TEST_CASE("on the CPU nothing is offloaded") {
  const Stack model;
  const Tensor x = normal({512, 16});
  const Explanation kept = explain(compile(train), model, x, false), same = explain(compile(train), model, x, true);
  CHECK(count(same, "offload") == 0);
  CHECK(same.arena_bytes == kept.arena_bytes);
  CHECK(same.memory.steps == kept.memory.steps);
}

TEST_CASE("eagerly, in a split step and without a derivative an offloaded function is the function") {
  const OnHost here;
  const Stack model;
  const Tensor x = normal({64, 16});
  CHECK((bits_of(train(model, x, true).gradients) == bits_of(train(model, x, false).gradients)));
  const auto forward = compile(loss_of);
  const auto split = [&](bool offloads) {
    return bits_of(grad([&](const Stack& m) { return forward(m, x, offloads); }, model));
  };
  CHECK((split(true) == split(false)));
  CHECK((text_of(forward(model, x, true)) == text_of(forward(model, x, false))));
  CHECK(count(explain(forward, model, x, true), "offload") == 0);
}

TEST_CASE("sizes that change move what waits elsewhere") {
  const OnHost here;
  const Stack model;
  const auto plain = compile(train), offloads = compile(train);
  for (const int rows : {24, 40, 64, 8, 96})
    CHECK((bits_of(offloads(model, ones({rows, 16}), true).gradients) ==
           bits_of(plain(model, ones({rows, 16}), false).gradients)));
  const Explanation e = explain(offloads, model, ones({64, 16}), true);
  CHECK(contains(e.optimized, "s0"));
  CHECK(count(e, "offload") > 0);
  CHECK(e.arena_bytes * 10 < explain(plain, model, ones({64, 16}), false).arena_bytes * 8);
}

namespace {
struct Inside {
  bool offloads;
  Tensor operator()(const Tensor& x, const Tensor& w) const {
    const auto f = [](const Tensor& x, const Tensor& w) { return tanh(matmul(sin(matmul(x, w)), w)); };
    return offloads ? offload(f)(x, w) : f(x, w);
  }
};
Tensor deep(const auto& f, Tensor x, const Tensor& w) {
  for (int i = 0; i < 6; ++i) x = f(x, w);
  return sum(square(x));
}
// `Use` of both functions, compiled and eagerly. How many steps take values to the host.
template <class Use>
std::ptrdiff_t check_use(Use use) {
  const Tensor x = normal({6, 16}), w = normal({16, 16});
  const auto f = compile([](const Tensor& x, const Tensor& w, bool offloads) { return Use{}(Inside{offloads}, x, w); });
  CHECK((text_of(f(x, w, true)) == text_of(f(x, w, false))));
  CHECK((text_of(use(Inside{true}, x, w)) == text_of(use(Inside{false}, x, w))));
  CHECK(count(explain(f, x, w, false), "offload") == 0);
  return count(explain(f, x, w, true), "offload");
}
}  // namespace

TEST_CASE("offload inside and around of vmap, checkpoint, loops, jvp and second derivatives") {
  const OnHost here(1);
  CHECK(check_use([](const Inside& f, const Tensor& x, const Tensor& w) {
          return grad([&](const Tensor& w) { return deep(f, x, w); }, w);
        }) > 0);
  check_use([](const Inside& f, const Tensor& x, const Tensor& w) {
    return grad([&](const Tensor& w) { return deep(checkpoint(f), x, w); }, w);
  });
  CHECK(check_use([](const Inside& f, const Tensor& x, const Tensor& w) {
          const auto again = [&](const Tensor& x, const Tensor& w) {
            return f.offloads ? offload(checkpoint(f))(x, w) : checkpoint(f)(x, w);
          };
          return grad([&](const Tensor& w) { return deep(again, x, w); }, w);
        }) > 0);
  CHECK(check_use([](const Inside& f, const Tensor& x, const Tensor& w) {
          const auto slope = [&](const Tensor& row) {
            return grad([&](const Tensor& w) { return deep(f, unsqueeze(row, 0), w); }, w);
          };
          return vmap(slope)(x);
        }) > 0);
  CHECK(check_use([](const Inside& f, const Tensor& x, const Tensor& w) {
          const auto loss = [&](const Tensor& w) {
            return sum(vmap([&](const Tensor& row) { return deep(f, unsqueeze(row, 0), w); })(x));
          };
          return grad(loss, w);
        }) > 0);
  CHECK(check_use([](const Inside& f, const Tensor& x, const Tensor& w) {
          const auto loss = [&](const Tensor& w) {
            const auto loop = [&](const Tensor& x) {
              return scan([&](const Tensor& carry, const Tensor&) { return f(carry, w); }, x, ones({4}));
            };
            Tensor y = x;
            for (int i = 0; i < 5; ++i) y = f.offloads ? offload(loop)(y) : loop(y);
            return sum(y);
          };
          return grad(loss, w);
        }) > 0);
  CHECK(check_use([](const Inside& f, const Tensor& x, const Tensor& w) {
          return jvp([&](const Tensor& w) { return deep(f, x, w); }, w, ones({16, 16})).tangent;
        }) == 0);
  CHECK(check_use([](const Inside& f, const Tensor& x, const Tensor& w) {
          const auto slope = [&](const Tensor& w) { return grad([&](const Tensor& w) { return deep(f, x, w); }, w); };
          return grad([&](const Tensor& w) { return sum(square(slope(w))); }, w);
        }) > 0);
}

TEST_CASE("an offloaded function may return anything, change its arguments and read values") {
  const auto counts = [](int& calls, Tensor& state, const Tensor& x) {
    ++calls;
    state = state + x;
    return std::pair(x.item<float>(), 2 * x);
  };
  int calls = 0;
  Tensor state = zeros({});
  const auto [number, twice] = offload(counts)(calls, state, full({}, 3));
  CHECK(number == 3);
  CHECK(twice.item<float>() == 6);
  CHECK(state.item<float>() == 3);
  CHECK(calls == 1);
  offload([&] { calls = 7; })();
  CHECK(calls == 7);
  CHECK_THROWS_AS(offload([](const Tensor& x) { return reshape(x, {5}); })(ones({4})), Error);
  CHECK_FALSE(is_offloaded(*(state + 1).node()));
  CHECK(is_offloaded(*offload([](const Tensor& x) { return x + 1; })(state).node()));
}

TEST_CASE("a whole training step with an optimizer in which values wait elsewhere trains the same") {
  const OnHost here;
  const auto losses = [](bool offloads) {
    seed(5);
    Stack model;
    optim::AdamW optimizer(model);
    const auto step = compile([](Stack& m, optim::AdamW& o, const Tensor& x, bool offloads) {
      auto [loss, gradients] = train(m, x, offloads);
      o.update(m, gradients);
      return loss;
    });
    std::string text;
    for (int i = 0; i < 5; ++i) text += text_of(step(model, optimizer, normal({32, 16}), offloads)) + " ";
    return text + bits_of(model);
  };
  CHECK((losses(true) == losses(false)));
}
