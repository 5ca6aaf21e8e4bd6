// Kernels that cannot be compiled, checks that fail while a plan runs, and memory that is used again.
#include <cmath>

#include "base/options.hpp"
#include "tests/trace/support.hpp"

using namespace weft;
using namespace trace_test;

namespace {
struct NoCompiler {
  std::string compiler = options().compiler;
  bool cache = options().cache;
  NoCompiler() {
    options().compiler = "/nowhere/c++";
    options().cache = false;
  }
  ~NoCompiler() {
    options().compiler = compiler;
    options().cache = cache;
  }
};
std::vector<float> table = {1, 2};
}  // namespace

TEST_CASE("no compiler: the specialization runs eagerly, or throws where that is asked for") {
  NoCompiler missing;
  auto f = compile([](Tensor& sum, const Tensor& x) {
    sum = sum + x * 3.25;
    return relu(sum) * 2;
  });
  Tensor sum = vector_of({-10, 1});
  CHECK(numbers_of(f(sum, vector_of({1, 2}))) == Numbers{0, 15});
  CHECK(numbers_of(f(sum, vector_of({1, 2}))) == Numbers{0, 28});
  CHECK(numbers_of(sum) == Numbers{-3.5, 14});
  Explanation e = explain(f, sum, vector_of({1, 2}));
  CHECK(contains(e.fallback, "/nowhere/c++"));
  CHECK(specialization_count(f) == 1);

  auto strict =
      compile([](Tensor& sum, const Tensor& x) { sum = sum - x * 7.25; }, {.on_compile_error = OnFailure::raise});
  CHECK_THROWS_AS(strict(sum, vector_of({1, 2})), CompileError);
  CHECK(numbers_of(sum) == Numbers{-3.5, 14});
  options().compiler.clear();
  strict(sum, vector_of({0, 2}));
  CHECK(numbers_of(sum) == Numbers{-3.5, -0.5});
}

TEST_CASE("an index out of range in a compiled function: the user's error; state is untouched; the next call works") {
  for (Backend backend : {Backend::compiled, Backend::eager, Backend::reference}) {
    auto f = compile(
        [](Tensor& state, const Tensor& rows, const Tensor& index) {
          state = state * 2;
          return gather(rows, index);
        },
        {.backend = backend});
    Tensor state = vector_of({1, 2}), rows = from_list<float>({1, 2, 3, 4}, {2, 2});
    CHECK(numbers_of(f(state, rows, from_list<std::int64_t>({1}))) == Numbers{3, 4});
    CHECK_THROWS_AS(f(state, rows, from_list<std::int64_t>({2})), Error);
    CHECK(numbers_of(state) == Numbers{2, 4});
    CHECK_THROWS_AS(f(state, rows, from_list<std::int64_t>({-1})), Error);
    CHECK(numbers_of(f(state, rows, from_list<std::int64_t>({0}))) == Numbers{1, 2});
    CHECK(numbers_of(state) == Numbers{4, 8});
  }
}

TEST_CASE("a state's memory is used again when nobody else can see it, and never otherwise") {
  auto f = compile([](Tensor& state, const Tensor& x) { state = state * 0.5 + x; });
  Tensor state = ones({1000}), x = ones({1000});
  state.eval();
  f(state, x);
  const float* place = state.data<float>().data();
  for (int i = 0; i < 5; ++i) f(state, x);
  CHECK(state.data<float>().data() == place);
  auto view = state.data<float>();
  float before = view[0];
  f(state, x);
  CHECK(view[0] == before);
  CHECK(state.data<float>().data() != view.data());
  Tensor kept = state;
  before = kept.data<float>()[0];
  f(state, x);
  CHECK(kept.data<float>()[0] == before);
  Tensor reversed = flip(state, 0);
  reversed.eval();
  before = reversed.data<float>()[0];
  f(state, x);
  CHECK(reversed.data<float>()[0] == before);
}

TEST_CASE("a = flip(a), rotated state, and a result that is the old state") {
  auto f = compile([](Tensor& a, Tensor& b) {
    Tensor old = a;
    a = flip(a, 0);
    std::swap(a, b);
    b = b + a;
    return old;
  });
  Tensor a = vector_of({1, 2, 3}), b = vector_of({10, 20, 30});
  CHECK(numbers_of(f(a, b)) == Numbers{1, 2, 3});
  CHECK(numbers_of(a) == Numbers{10, 20, 30});
  CHECK(numbers_of(b) == Numbers{13, 22, 31});
  CHECK(numbers_of(f(a, b)) == Numbers{10, 20, 30});
  CHECK(numbers_of(a) == Numbers{13, 22, 31});
  CHECK(numbers_of(b) == Numbers{43, 42, 41});
}

TEST_CASE("data from host memory is part of the graph, and Check sees when it changes") {
  auto f = compile([](const Tensor& x) { return x + constant(std::span(table), {2}); }, {.check = Check::every_call});
  table = {1, 2};
  CHECK(numbers_of(f(vector_of({1, 1}))) == Numbers{2, 3});
  CHECK(numbers_of(f(vector_of({1, 1}))) == Numbers{2, 3});
  table = {1, 5};
  CHECK(contains(message_of([&] { f(vector_of({1, 1})); }), "the function does something else"));
}

TEST_CASE("values that arrive by move may be used up; those that stay may not") {
  auto f = compile([](Tensor x) { return x * 2 + 1; });
  Tensor x = ones({1000});
  x.eval();
  const float* place = x.data<float>().data();
  Tensor y = f(x);
  CHECK(x.data<float>()[0] == 1);
  CHECK(y.data<float>().data() != place);
  Tensor z = f(std::move(x));
  CHECK(z.data<float>()[999] == 3);
}
