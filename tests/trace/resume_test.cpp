// Resumable functions: values that flow into host code inside of a compiled function.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>
#include <weft/weft.hpp>

#include "trace/support.hpp"

using namespace weft;
using namespace trace_test;

namespace {

int runs = 0;
std::vector<double> log_of_values;

Tensor two_halves(const Tensor& x) {
  ++runs;
  const Tensor y = exp(x * 0.5) + 1;
  log_of_values.push_back(sum(y).item());
  return y * y - x;
}

}  // namespace

TEST_CASE("a value is read in the middle: each call runs the code once, and what is compiled runs") {
  auto f = compile(two_halves);
  runs = 0;
  log_of_values.clear();
  for (int i = 0; i < 6; ++i) {
    const Tensor x = full({3, 4}, 0.25 * i);
    const Tensor y = f(x);
    CHECK(runs == i + 1);
    CHECK(log_of_values.size() == static_cast<std::size_t>(i + 1));
    CHECK(log_of_values.back() == doctest::Approx(12 * (std::exp(0.125 * i) + 1)));
    CHECK(max(abs(y - two_halves(x))).item() < 1e-5);
    --runs;
    log_of_values.pop_back();
  }
  CHECK(specialization_count(f) == 1);
  const Explanation e = explain(f, full({3, 4}, 1));
  CHECK(e.decisions.size() == 2);
  CHECK(e.decisions[0].find("each call runs the function's code") == 0);
  CHECK(e.fallback.empty());
  CHECK(e.kernels.size() == 1);  // of the first half
}

TEST_CASE("a value that was read is used as a number: two compilations, then none") {
  auto f = compile([](const Tensor& x) {
    const double s = sum(x).item();
    return x * s + std::sqrt(s);
  });
  for (int i = 1; i < 8; ++i) {
    const Tensor y = f(full({4}, i));
    CHECK(y.data<float>()[3] == doctest::Approx(i * 4.0 * i + std::sqrt(4.0 * i)));
  }
  const Explanation e = explain(f, full({4}, 1));
  CHECK(e.decisions.size() == 3);  // with numbers, and with any
}

TEST_CASE("an argument itself is read") {
  auto f =
      compile([](const Tensor& x, const Tensor& scale) { return x * scale.item<float>() + scale.data<float>()[0]; });
  for (int i = 1; i < 6; ++i) CHECK(numbers_of(f(full({2}, 3), full({}, i))) == Numbers{4.f * i, 4.f * i});
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("memory of the host becomes a tensor again") {
  auto f = compile([](const Tensor& x) {
    const Tensor y = x + 1;
    std::vector<float> values(y.data<float>().begin(), y.data<float>().end());
    for (float& value : values) value = std::floor(value / 2);
    return from_span(values, y.shape()) * 10 + y;
  });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = from_list({1.f * i, 2.f * i, 3.f});
    CHECK(numbers_of(f(x)) ==
          Numbers{std::floor((i + 1) / 2.f) * 10 + i + 1, std::floor((2 * i + 1) / 2.f) * 10 + 2 * i + 1, 24});
  }
}

TEST_CASE("a branch on a number with a fraction") {
  auto f = compile([](const Tensor& x) {
    if (mean(x).item() > 0.5) return x * 2;
    return x - 1;
  });
  for (int i = 0; i < 10; ++i) {
    const float v = i % 3 ? 1.f : 0.25f;
    CHECK(numbers_of(f(full({2}, v))) == (i % 3 ? Numbers{2, 2} : Numbers{-0.75f, -0.75f}));
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("state and plain results come from the call's own run") {
  struct Trainer {
    Buffer w;
    double best = 1e9;
  };
  auto f = compile([](Trainer& t, const Tensor& x) {
    const Tensor loss = sum(square(x - t.w));
    t.w = t.w + (x - t.w) * 0.5;
    return std::pair(loss, loss.item());
  });
  Trainer t{Buffer(zeros({2}))};
  float w = 0;
  for (int i = 0; i < 6; ++i) {
    const float x = 1.f + i;
    const auto [loss, number] = f(t, full({2}, x));
    CHECK(number == doctest::Approx(2 * (x - w) * (x - w)));
    CHECK(loss.item() == doctest::Approx(number));
    w += (x - w) * 0.5f;
    CHECK(numbers_of(t.w) == Numbers{w, w});
  }
}

TEST_CASE("a gradient whose loss is printed inside") {
  std::ostringstream out;
  static std::ostringstream* to;
  to = &out;
  auto f = compile([](const Tensor& w, const Tensor& x) {
    return grad(
        [&](const Tensor& w) {
          const Tensor loss = mean(square(matmul(x, w)));
          *to << loss.item() << "\n";
          return loss * 2;
        },
        w);
  });
  Generator generator(3);
  for (int i = 0; i < 4; ++i) {
    const Tensor w = uniform({5, 2}, -1, 1, generator), x = uniform({7, 5}, -1, 1, generator);
    const Tensor expected = grad([&](const Tensor& w) { return mean(square(matmul(x, w))) * 2; }, w);
    CHECK(max(abs(f(w, x) - expected)).item() < 1e-5);
  }
  const std::string text = out.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
}

TEST_CASE("printing a tensor") {
  static std::ostringstream out;
  auto f = compile([](const Tensor& x) {
    out << x + 1;
    return x * 2;
  });
  for (int i = 0; i < 3; ++i) f(full({2}, i));
  CHECK(out.str().find("3") != std::string::npos);
}

TEST_CASE("draws: none twice, and those after a read go on") {
  seed(11);
  std::vector<double> plain, compiled;
  static std::vector<double>* list;
  const auto step = [](const Tensor& x) {
    const Tensor noise = uniform({4}, 0, 1);
    list->push_back(sum(noise).item());
    return x + noise + uniform({4}, 0, 1);
  };
  list = &plain;
  Numbers a, b;
  for (int i = 0; i < 4; ++i)
    for (float v : numbers_of(step(zeros({4})))) a.push_back(v);
  seed(11);
  list = &compiled;
  auto f = compile(step);
  for (int i = 0; i < 4; ++i)
    for (float v : numbers_of(f(zeros({4})))) b.push_back(v);
  CHECK(a == b);
  CHECK(plain == compiled);
}

TEST_CASE("a loop until a number is small") {
  auto f = compile([](Tensor x) {
    int rounds = 0;
    while (amax(abs(x)).item() > 0.1) {
      x = x * 0.5;
      ++rounds;
    }
    return std::pair(x, rounds);
  });
  for (int i = 0; i < 8; ++i) {
    const double start = std::pow(2.0, i % 5);
    const auto [x, rounds] = f(full({3}, start));
    int expected = 0;
    for (double v = start; v > 0.1; v *= 0.5) ++expected;
    CHECK(rounds == expected);
    CHECK(numbers_of(x)[2] == doctest::Approx(start * std::pow(0.5, expected)));
  }
}

TEST_CASE("a function that was only decided on booleans becomes resumable on another way") {
  auto f = compile([](const Tensor& x) {
    if (sum(x) > 0) return x * 2;
    return x * mean(x).item();
  });
  CHECK(numbers_of(f(full({2}, 1))) == Numbers{2, 2});
  CHECK(numbers_of(f(full({2}, -3))) == Numbers{9, 9});
  for (int i = 1; i < 5; ++i) {
    CHECK(numbers_of(f(full({2}, i))) == Numbers{2.f * i, 2.f * i});
    CHECK(numbers_of(f(full({2}, -i))) == Numbers{1.f * i * i, 1.f * i * i});
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("sizes vary") {
  auto f = compile(
      [](const Tensor& x) {
        const double m = mean(x).item();
        return (x - m) * std::abs(m);
      },
      {.dynamic = true});
  for (int n = 2; n < 8; ++n) {
    const Tensor y = f(full({n, 3}, n));
    CHECK(y.shape().same(Shape::of(n, 3)));
    CHECK(sum(abs(y)).item() == 0);
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("what is thrown on a value passes, and state is as before") {
  struct Counter {
    Buffer w;
  } counter{Buffer(zeros({2}))};
  auto f = compile([](Counter& c, const Tensor& x) {
    c.w = c.w + x;
    if (!(sum(c.w).item() < 10)) throw std::runtime_error("diverged");
    return c.w * 2;
  });
  for (int i = 0; i < 4; ++i) CHECK(numbers_of(f(counter, full({2}, 1))) == Numbers{2.f * (i + 1), 2.f * (i + 1)});
  CHECK_THROWS_WITH(f(counter, full({2}, 5)), "diverged");
  CHECK(numbers_of(counter.w) == Numbers{4, 4});
  CHECK(numbers_of(f(counter, full({2}, 0.5))) == Numbers{9, 9});
}

TEST_CASE("fullgraph refuses, and the body of a loop too") {
  auto f = compile([](const Tensor& x) { return x * sum(x).item(); }, {.fullgraph = true});
  CHECK_THROWS_WITH_AS(f(ones({2})), doctest::Contains("not known in a function that is compiled with {.fullgraph"),
                       Error);
  auto host = compile([](const Tensor& x) { return x + from_list({1.f, 2.f}); });
  CHECK_THROWS_WITH_AS(host(ones({2})), doctest::Contains("data from host memory in a compiled function"), Error);
}

TEST_CASE("threads") {
  auto f = compile([](const Tensor& x) {
    const double s = sum(x).item();
    return x * s;
  });
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 1; i < 20; ++i) {
        const float v = t + i * 0.5f;
        if (std::abs(numbers_of(f(full({2}, v)))[0] - 2 * v * v) > 1e-3f * v * v) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("in the background, and by the other executors") {
  for (const CompileOptions& options : {CompileOptions{.async = true}, CompileOptions{.backend = Backend::eager},
                                        CompileOptions{.backend = Backend::reference}}) {
    auto f = compile(two_halves, options);
    for (int i = 0; i < 4; ++i) {
      const Tensor x = full({3}, 0.25 * i);
      CHECK(max(abs(f(x) - two_halves(x))).item() < 1e-5);
      if (i == 1) wait_compiled(f);
    }
  }
}

TEST_CASE("sizes that depend on values are symbols: nothing is compiled again for another count") {
  const auto positive = [](const Tensor& x) {
    const Tensor chosen = masked_select(x, x > 0);
    return std::pair(chosen * 2 + 1, sum(chosen));
  };
  auto f = compile(positive);
  Generator generator(5);
  for (int i = 0; i < 12; ++i) {
    const Tensor x = uniform({9}, i == 3 ? 0.1 : -1, i == 4 ? -0.1 : 1, generator);
    const auto [y, total] = f(x);
    const auto [expected, expected_total] = positive(x);
    CHECK(text_of(y) == text_of(expected));
    CHECK(total.item<float>() == doctest::Approx(expected_total.item<float>()));
  }
  CHECK(specialization_count(f) == 1);
  CHECK(explain(f, zeros({9})).decisions.size() <= 4);
}

TEST_CASE("a size that depends on values meets a number: of the code, of another size, of a shape") {
  static constexpr auto positive = [](const Tensor& x) { return masked_select(x, x > 0); };
  const auto check = [](auto plain) {
    auto f = compile(plain);
    const auto of = [&](auto& each, const Tensor& x) {
      std::string text;
      const std::string message = message_of([&] { text = text_of(each(x)); });
      return text + message.substr(0, message.find(':'));
    };
    for (const Tensor& x : {vector_of({1, -2, 3, 5}), vector_of({2, -1, 4, 6}), vector_of({-1, 2, -3, -5}),
                            vector_of({1, 2, 3, -4}), vector_of({-1, -1, -1, -1})})
      CHECK(of(f, x) == of(plain, x));
  };
  check([](const Tensor& x) { return positive(x) * static_cast<int>(positive(x).size(0)); });
  check([](const Tensor& x) { return positive(x).size(0) == 3 ? positive(x) + 1 : positive(x); });
  check([](const Tensor& x) { return positive(x) + ones({3}); });
  check([](const Tensor& x) { return reshape(positive(x), {3, 1}); });
}

TEST_CASE("at symbolic sizes a call finds what an earlier one has compiled, whatever it calls") {
  static constexpr auto scaled = [](const Tensor& x) {
    const Tensor y = softmax(x * 2, -1);
    const Tensor slope = grad([](const Tensor& x) { return sum(square(softmax(x, 0))); }, y);
    const Tensor z = fori(
        0, 3, [](const Index&, Tensor z) { return softmax(z, -1) + 1; }, y);
    return (y + slope + z) * (1 + std::fmod(sum(z).item<float>(), 1.f));
  };
  auto f = compile(scaled);
  for (int i = 0; i < 12; ++i) {
    const Tensor x = full({2 + i % 5, 3}, i) * arange(3);
    CHECK(max(abs(f(x) - scaled(x))).item() < 1e-4);
  }
  CHECK(specialization_count(f) == 2);
  CHECK(explain(f, ones({4, 3})).decisions.size() <= 2);
}

TEST_CASE("a tree stays small where what was read decides what is recorded") {
  auto f = compile(
      [](const Tensor& x) {
        const int start = static_cast<int>(sum(x).item()) % 97;
        return slice(arange(128), 0, start, start + 2) * x;
      },
      {.decision_limit = 3});
  for (int i = 0; i < 200; ++i) {
    const float start = static_cast<float>(2 * i % 97);
    CHECK(numbers_of(f(full({2}, i))) == Numbers{start * i, (start + 1) * i});
  }
  CHECK(specialization_count(f) == 1);
  CHECK(explain(f, full({2}, 1)).decisions.size() < 8);
}

TEST_CASE("repeat_interleave by a tensor") {
  auto f = compile([](const Tensor& x, const Tensor& n) { return repeat_interleave(x * 2, n + 1, 0); });
  for (int i = 0; i < 5; ++i)
    CHECK(numbers_of(f(from_list({1.f, 2.f}), from_list({i, 1}))).size() == static_cast<std::size_t>(i + 3));
  CHECK(explain(f, ones({2}), from_list({1, 1})).decisions.size() <= 3);
  CHECK(contains(message_of([] { repeat_interleave(ones({2}), from_list({1, -1}), 0); }), "a count is negative: -1"));
  CHECK(contains(message_of([] { repeat_interleave(ones({2}), from_list({1}), 0); }),
                 "the counts are i32[1] for axis 0"));
}

TEST_CASE("nonzero, unique, boolean indexing and their gradients") {
  Generator generator(6);
  auto places = compile([](const Tensor& x) { return nonzero(x > 0); });
  auto groups = compile([](const Tensor& x) {
    const auto [values, inverse, counts] = unique(x);
    return std::tuple(values * 10, inverse, counts);
  });
  static constexpr auto rows = [](const Tensor& x) { return sum(square(index(x, {sum(x, 1) > 0}))); };
  auto chosen = compile([](const Tensor& x) { return grad(rows, x); });
  for (int i = 0; i < 8; ++i) {
    const Tensor x = uniform({4 + i % 3, 3}, -1, 1, generator);
    CHECK(text_of(places(x)) == text_of(nonzero(x > 0)));
    CHECK(text_of(chosen(x)) == text_of(grad(rows, x)));
    const Tensor n = randint({7}, 0, 4, generator);
    const auto [values, inverse, counts] = groups(n);
    const auto [v, in, c] = unique(n);
    CHECK(text_of(values) == text_of(v * 10));
    CHECK(text_of(inverse) == text_of(in));
    CHECK(text_of(counts) == text_of(c));
  }
}
