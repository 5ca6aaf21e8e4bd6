// print and host_call: effects that happen once a call, in order, though the code does not run again.
#include <doctest/doctest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <weft/backends.hpp>
#include <weft/effects.hpp>
#include <weft/graph.hpp>
#include <weft/weft.hpp>

#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "pipeline.hpp"
#include "trace/support.hpp"

using namespace weft;
using namespace trace_test;

namespace {

// Element i of a tensor of f32.
float at(const Tensor& x, std::size_t i) { return numbers_of(x)[i]; }

// What is written to std::cout while it lives.
class Captured {
 public:
  Captured() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~Captured() { std::cout.rdbuf(before_); }
  Captured(const Captured&) = delete;
  std::string take() {
    std::string text = text_.str();
    text_.str({});
    return text;
  }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

std::vector<double> seen;  // by functions that graphs call
int runs = 0;              // of the traced functions' code

void see(const Tensor& x) { seen.push_back(sum(x).item()); }
Tensor doubled(const Tensor& x) {
  see(x);
  return x * 2;
}

std::vector<double> taken() { return std::exchange(seen, {}); }
using Values = std::vector<double>;

Tensor square_of(const Tensor& x) {
  return host_call(like(x),
                   HostFunction([](const Tensor& x) {
                     see(x);
                     return x * x;
                   }).with_derivative([](const Tensor& x, const Tensor&, const Tensor& g) { return g * 2 * x; }),
                   x);
}
Tensor gradient_of_cube(const Tensor& x) {
  return grad([](const Tensor& x) { return sum(square_of(x) * x); }, x);
}

}  // namespace

TEST_CASE("print writes its operands, in every call of a compiled function as outside of one") {
  Captured out;
  print("x is {}, {{}} and {}", from_list({1.f, 2.5f}), 3);
  CHECK(out.take() == "x is [1, 2.5], {} and 3\n");
  for (const Backend backend : backends) {
    auto f = compile(
        [](const Tensor& x) {
          ++runs;
          const Tensor y = x * 2;
          print("sum {}", sum(y));
          print("all {}", y);
          return y + 1;
        },
        {.check = Check::never, .backend = backend});
    runs = 0;
    for (int i = 1; i < 4; ++i) {
      const Tensor y = f(full({2}, i));
      CHECK(out.take() == concat_text("sum ", 4 * i, "\nall [", 2 * i, ", ", 2 * i, "]\n"));
      CHECK(y.data<float>()[1] == 2 * i + 1);
    }
    CHECK(runs == 1);
  }
}

TEST_CASE("what print is given must fit its text") {
  CHECK(message_of([] { print("{}"); }).find("[print] \"{}\" has 1 {}, there are 0 operands, at effects_test.cpp:") ==
        0);
  CHECK(message_of([] { print("a { b", 1); }).find("a { is left alone") != std::string::npos);
  CHECK(message_of([] { print("a", 1); }).find("has 0 {}, there is 1 operand,") != std::string::npos);
}

TEST_CASE("host_call is called once a call, with the values of that call, in program order") {
  for (const Backend backend : backends) {
    auto f = compile(
        [](const Tensor& x) {
          ++runs;
          host_call(see, x);
          const Tensor y = host_call(like(x), doubled, x + 1);
          host_call([](const Tensor& a, const Tensor& b) { seen.push_back(a.item() * 100 + b.item()); }, sum(y), 7);
          host_call([] { seen.push_back(-1); });
          return y * 3;
        },
        {.check = Check::never, .backend = backend});
    runs = 0;
    for (int i = 0; i < 3; ++i) {
      CHECK(at(f(full({2, 2}, i)), 0) == 6 * (i + 1));
      CHECK(taken() == Values{4. * i, 4. * (i + 1), 800. * (i + 1) + 7, -1});
    }
    CHECK(runs == 1);
  }
  const Tensor plain = host_call(ResultType{{2}, DType::f32}, doubled, full({2}, 4));
  const Dim none = 0;
  for (const ResultType& empty : {ResultType{{0, 3}, DType::f32}, ResultType{{none, 3}, DType::f32}})
    CHECK(host_call(empty, [] { return zeros({0, 3}); }).size(1) == 3);
  CHECK(taken() == Values{8});
  CHECK(plain.data<float>()[0] == 8);
}

TEST_CASE("equal calls are not merged, and one whose result nobody reads is made") {
  auto f = compile([](const Tensor& x) {
    const Tensor a = host_call(like(x), doubled, x), b = host_call(like(x), doubled, x);
    host_call(like(x), doubled, x + 5);
    return a + b;
  });
  for (int i = 0; i < 2; ++i) {
    CHECK(f(full({1}, 1)).item() == 4);
    CHECK(taken() == Values{1, 1, 6});
  }
}

TEST_CASE("results may be several, of any dtype, and of symbolic sizes") {
  auto f = compile(
      [](const Tensor& x) {
        const std::vector<Tensor> parts = host_call(
            std::vector<ResultType>{{x.shape(), DType::i64}, {{}, DType::boolean}, {x.shape(), DType::bf16}},
            [](const Tensor& x) {
              return std::vector<Tensor>{cast(x * 2, DType::i64), any(x > 2), cast(x, DType::bf16)};
            },
            x);
        return std::tuple{parts[0] + 1, ~parts[1], parts[2]};
      },
      {.dynamic = true});
  for (int n = 2; n < 6; ++n) {
    const auto [a, b, c] = f(arange(n, {DType::f32}));
    CHECK(a.data<std::int64_t>()[n - 1] == 2 * (n - 1) + 1);
    CHECK(b.item<bool>() == (n <= 3));
    CHECK(c.dtype() == DType::bf16);
    CHECK(at(cast(c, DType::f32), 1) == 1);
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("what a function gives is checked, with the line of the call") {
  const auto gives = [](auto fn) { return message_of([&] { host_call(ResultType{Shape::of(2)}, fn, full({2}, 1)); }); };
  CHECK(gives([](const Tensor& x) {
          return cast(x, DType::f64);
        }).find("[host_call] the function gave f64[2] as result 0, which was declared f32[2], at effects_test.cpp:") ==
        0);
  CHECK(gives([](const Tensor&) { return full({3}, 1.f); }).find("gave f32[3]") != std::string::npos);
  CHECK(gives([](const Tensor&) { return Tensor(); }).find("gave an undefined tensor") != std::string::npos);
  CHECK(gives([](const Tensor&) {}).find("gave 0 tensors, declared are 1") != std::string::npos);
  CHECK(message_of([] { host_call([](const Tensor&) {}, 1, 2); }).find("takes 1 tensor, and is given 2") !=
        std::string::npos);
  auto f = compile([](const Tensor& x) {
    return host_call(
        ResultType{Shape::of(2)},
        [](const Tensor& x) {
          return concat({x, x});
        },
        x);
  });
  CHECK(message_of([&] { f(full({2}, 1)); }).find("gave f32[4]") != std::string::npos);
}

TEST_CASE("an exception ends the call, and state is as before") {
  struct State {
    Tensor sum = zeros({4096});
  };
  for (const Backend backend : backends) {
    auto f = compile(
        [](State& state, const Tensor& x) {
          state.sum = state.sum + x;
          host_call(
              [](const Tensor& x) {
                if (x.item() > 2) throw std::runtime_error("too much");
              },
              max(state.sum));
          host_call(see, x);
        },
        {.backend = backend});
    State state;
    f(state, full({4096}, 1));
    f(state, full({4096}, 1));
    CHECK(taken().size() == 2);
    CHECK_THROWS_WITH_AS(f(state, full({4096}, 1)), "too much", std::runtime_error);
    CHECK(taken().empty());
    CHECK(max(state.sum).item() == 2);
    f(state, full({4096}, 0));
    CHECK(taken().size() == 1);
    CHECK(min(state.sum).item() == 2);
  }
}

TEST_CASE("a check that fails before stops what follows, not what came first") {
  auto f = compile([](const Tensor& x, const Tensor& index) {
    host_call(see, x);
    const Tensor y = gather(x, index);
    host_call(see, y);
    return y;
  });
  f(full({3}, 1), full({1}, 2, {.dtype = DType::i64}));
  CHECK(taken() == Values{3, 1});
  CHECK_THROWS_AS(f(full({3}, 1), full({1}, 3, {.dtype = DType::i64})).eval(), Error);
  CHECK(taken() == Values{3});
}

TEST_CASE("a derivative that is given is used, and is differentiable again; without one it is an error with the line") {
  const Tensor plain = gradient_of_cube(full({2}, 3));
  CHECK(taken() == Values{6});
  CHECK(plain.data<float>()[0] == doctest::Approx(27));
  for (const Backend backend : backends) {
    auto f = compile(gradient_of_cube, {.backend = backend});
    for (int i = 0; i < 2; ++i) {
      CHECK(at(f(full({2}, 3)), 1) == doctest::Approx(27));
      CHECK(taken() == Values{6});
    }
  }
  auto second =
      compile([](const Tensor& x) { return grad([](const Tensor& x) { return sum(gradient_of_cube(x)); }, x); });
  CHECK(at(second(full({2}, 3)), 0) == doctest::Approx(18));
  CHECK(taken() == Values{6});

  auto none = compile(
      [](const Tensor& x) { return grad([](const Tensor& x) { return sum(host_call(like(x), doubled, x)); }, x); });
  CHECK(
      message_of([&] { none(full({2}, 1)); })
          .find("[host_call] the function has no derivative: give it one with HostFunction(fn).with_derivative(d), or "
                "apply stop_gradient to its operands or results, at effects_test.cpp:") == 0);
  auto stopped = compile([](const Tensor& x) {
    return grad([](const Tensor& x) { return sum(x * host_call(like(x), doubled, stop_gradient(x))); }, x);
  });
  CHECK(at(stopped(full({2}, 1)), 0) == 2);
  taken();
}

TEST_CASE("a derivative may call the host too, and must fit the operands") {
  auto f = compile([](const Tensor& x, const Tensor& n) {
    return grad(
        [&](const Tensor& x) {
          return sum(host_call(like(x),
                               HostFunction([](const Tensor& x, const Tensor& n) {
                                 return x * cast(n, DType::f32);
                               }).with_derivative([](const Tensor& x, const Tensor& n, const Tensor&, const Tensor& g) {
                                 return std::vector<Tensor>{host_call(
                                                                like(x),
                                                                [](const Tensor& g, const Tensor& n) {
                                                                  seen.push_back(5);
                                                                  return g * cast(n, DType::f32);
                                                                },
                                                                g, n),
                                                            Tensor()};
                               }),
                               x, n));
        },
        x);
  });
  for (int i = 0; i < 2; ++i) {
    CHECK(at(f(full({2}, 1), full({}, 4, {.dtype = DType::i64})), 0) == 4);
    CHECK(taken() == Values{5});
  }
  const auto wrong = [](auto derivative) {
    return message_of([&] {
      grad(
          [&](const Tensor& x) {
            return sum(host_call(like(x), HostFunction(doubled).with_derivative(derivative), x));
          },
          full({2}, 1));
    });
  };
  CHECK(wrong([](const Tensor&, const Tensor&, const Tensor& g) { return sum(g); }).find("gives f32[] for operand 0") !=
        std::string::npos);
  CHECK(wrong([](const Tensor&) { return Tensor(); }).find("[host_call's derivative] the function takes 1 tensor") !=
        std::string::npos);
  taken();
}

TEST_CASE("in a gradient: values in the middle are printed once") {
  Captured out;
  const auto program = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          const Tensor y = exp(x);
          print("y {}", y);
          return sum(y * y);
        },
        x);
  };
  program(zeros({1}));
  CHECK(out.take() == "y [1]\n");
  auto f = compile(program);
  for (int i = 0; i < 3; ++i) {
    CHECK(f(zeros({1})).item() == 2);
    CHECK(out.take() == "y [1]\n");
  }
}

TEST_CASE("in the bodies of loops and choices") {
  for (const Backend backend : backends) {
    const auto program = [](const Tensor& x) {
      Tensor y = fori(
          0, 3,
          [&](const Index& i, Tensor y) {
            host_call(see, i.tensor());
            host_call(see, x);  // the same in all iterations
            return host_call(like(y), doubled, y);
          },
          x);
      y = while_loop([](const Tensor& y) { return y < 100; },
                     [](const Tensor& y) {
                       host_call(see, y);
                       return y * 4;
                     },
                     y);
      return cond(
          y > 300,
          [](const Tensor& y) {
            host_call(see, y);
            return y;
          },
          [](const Tensor& y) {
            host_call(see, -y);
            return y;
          },
          y);
    };
    const Values expected{0, 1, 1, 1, 1, 2, 2, 1, 4, 8, 32, -128};
    CHECK(program(full({}, 1.f)).item() == 128);
    CHECK(taken() == expected);
    auto f = compile(program, {.backend = backend});
    for (int i = 0; i < 3; ++i) {
      CHECK(f(full({}, 1.f)).item() == 128);
      CHECK(taken() == expected);
    }
  }
}

namespace {
// y^2, which is noted; twice: its derivative is the program's code as well.
Tensor noted_square(const Tensor& y) {
  const HostFunction square([](const Tensor& y) {
    seen.push_back(y.item());
    return y * y;
  });
  const auto derivative = [](const Tensor& y, const Tensor&, const Tensor& g) {
    const HostFunction twice([](const Tensor& y, const Tensor& g) {
      seen.push_back(-y.item());
      return 2 * y * g;
    });
    return host_call(like(y),
                     twice.with_derivative([](const Tensor& y, const Tensor& g, const Tensor&, const Tensor& gg) {
                       return std::vector<Tensor>{2 * g * gg, 2 * y * gg};
                     }),
                     y, g);
  };
  return host_call(like(y), square.with_derivative(derivative), y);
}
void check_everywhere(auto program, float x, double result, const Values& expected) {
  CHECK(program(full({}, x)).item() == result);
  CHECK(taken() == expected);
  for (const Backend backend : backends) {
    auto f = compile(program, {.backend = backend});
    for (int i = 0; i < 2; ++i) {
      CHECK(f(full({}, x)).item() == result);
      CHECK(taken() == expected);
    }
  }
}
}  // namespace

TEST_CASE("a host_call that gives values in a loop that is differentiated is called once an iteration") {
  // y <- 2 y^2 + y, of which tanh(0 y^2) is saved; a value that was read before the gradient changes nothing.
  static constexpr auto loop = [](const Tensor& x) {
    return fori(
        0, 2,
        [](const Index&, Tensor y) {
          const Tensor square = noted_square(y);
          return square * 2 + y + tanh(square * 0);
        },
        x);
  };
  // 1, 3: 4 y + 1 each.
  check_everywhere([](const Tensor& x) { return grad(loop, x); }, 1.f, 13 * 5, {1, 3, -3, -1});
  const auto both = value_and_grad(
      [&](const Tensor& x) {
        const Tensor y = loop(x);
        CHECK(y.item() == 21);
        return y;
      },
      full({}, 1.f));
  CHECK(both.gradients.item() == 65);
  CHECK(taken() == Values{1, 3, -3, -1});
  const auto second = [](const Tensor& x) { return grad([](const Tensor& x) { return grad(loop, x); }, x); };
  CHECK(second(full({}, 1.f)).item() == 4 * 25 + 13 * 4);
  const Values called = taken();
  // As often as a C++ loop calls it.
  const auto unrolled = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 2; ++i) {
      const Tensor square = noted_square(y);
      y = square * 2 + y + tanh(square * 0);
    }
    return y;
  };
  grad([&](const Tensor& x) { return grad(unrolled, x); }, full({}, 1.f)).item();
  Values as_often = taken(), sorted = called;
  std::ranges::sort(as_often), std::ranges::sort(sorted);
  CHECK(sorted == as_often);
  check_everywhere(second, 1.f, 4 * 25 + 13 * 4, called);
}

TEST_CASE("and where its result is not differentiated, in loops in loops, and with weights") {
  const auto beside = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          return fori(
              0, 3, [](const Index&, Tensor y) { return y * host_call(like(y), doubled, stop_gradient(y)); }, x);
        },
        x);
  };
  // 1, 2, 8: the products of what doubled() gives, 2, 4 and 16.
  CHECK(beside(full({}, 1.f)).item() == 128);
  CHECK(compile(beside)(full({}, 1.f)).item() == 128);
  taken();
  const auto nested = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          return fori(
              0, 2,
              [&](const Index&, Tensor y) {
                return fori(
                           0, 2, [&](const Index&, Tensor z) { return noted_square(z) + z * x; }, y) +
                       x;
              },
              x);
        },
        x);
  };
  const auto plain = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          Tensor y = x;
          for (int i = 0; i < 2; ++i) {
            for (int k = 0; k < 2; ++k) y = y * y + y * x;
            y = y + x;
          }
          return y;
        },
        x);
  };
  const double result = plain(full({}, 0.5f)).item();
  CHECK(nested(full({}, 0.5f)).item() == doctest::Approx(result));
  const Values called = taken();
  CHECK(called.size() == 8);
  auto f = compile(nested);
  for (int i = 0; i < 2; ++i) {
    CHECK(f(full({}, 0.5f)).item() == doctest::Approx(result));
    CHECK(taken() == called);
  }
}

TEST_CASE("a loop that is differentiated prints once, and a choice refuses what it would have to call again") {
  const auto program = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          return fori(
              0, 3,
              [](const Index& i, Tensor y) {
                host_call([](const Tensor& y, const Tensor& i) { seen.push_back(y.item() * 10 + i.item()); }, y, i);
                return y * y;
              },
              x);
        },
        x);
  };
  const Values expected{20, 41, 162};
  CHECK(program(full({}, 2.f)).item() == 8 * 128);
  CHECK(taken() == expected);
  for (const Backend backend : backends) {
    auto f = compile(program, {.backend = backend});
    for (int i = 0; i < 2; ++i) {
      CHECK(f(full({}, 2.f)).item() == 8 * 128);
      CHECK(taken() == expected);
    }
  }
  // A loop of which no gradient is asked, in a branch: it would run again with the branch.
  const auto nested = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          return cond(
              x > 0,
              [](const Tensor& y) {
                return y *
                       scan([](const Tensor& h, const Tensor& row) { return h + host_call(like(row), doubled, row); },
                            zeros({}), stop_gradient(expand(reshape(y, {1}), {3})));
              },
              [](const Tensor& y) { return y; }, x);
        },
        x);
  };
  CHECK(message_of([&] { nested(full({}, 1.f)); }).find("[host_call] gives a value, or is called in a loop or a choice, "
                                                        "in a branch of cond") == 0);
  const auto chosen = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          return cond(
              x > 0,
              [](const Tensor& y) {
                host_call(see, y);
                return y * y;
              },
              [](const Tensor& y) { return y; }, x);
        },
        x);
  };
  taken();
  CHECK(chosen(full({}, 3.f)).item() == 6);
  CHECK(taken() == Values{3});
  auto f = compile(chosen);
  for (int i = 0; i < 2; ++i) {
    CHECK(f(full({}, 3.f)).item() == 6);
    CHECK(taken() == Values{3});
  }
}

TEST_CASE("on the way through decisions: once, whatever way, also where the way is new") {
  for (const Backend backend : backends) {
    auto f = compile(
        [](const Tensor& x) {
          ++runs;
          host_call(see, x);
          Tensor y = host_call(like(x), doubled, x * 1);
          const Tensor z = y + 1;
          if (sum(y) > 10) {
            host_call(see, z);
            return y * 2 + z;
          }
          while (sum(y) < 5) {
            host_call(see, y);
            y = host_call(like(y), doubled, y);
          }
          return y;
        },
        {.backend = backend});
    runs = 0;
    for (int i = 0; i < 3; ++i) {
      CHECK(f(full({}, 6.f)).item() == 37);
      CHECK(taken() == Values{6, 6, 13});
      CHECK(f(full({}, 3.f)).item() == 6);
      CHECK(taken() == Values{3, 3});
      CHECK(f(full({}, 1.f)).item() == 8);
      CHECK(taken() == Values{1, 1, 2, 2, 4, 4});
      CHECK(f(full({}, 0.5f)).item() == 8);
      CHECK(taken() == Values{0.5, 0.5, 1, 1, 2, 2, 4, 4});
    }
    const int traced = runs;
    f(full({}, 1.f));
    CHECK(runs <= traced + 1);  // a check
    taken();
  }
}

TEST_CASE("in a gradient that decides, what the host gave is read by the derivative and not asked for again") {
  auto f = compile([](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          Tensor y = x * host_call(like(x), doubled, stop_gradient(x));  // nobody holds what the host gave
          if (sum(y) > 4) y = y * 3;
          return sum(y);
        },
        x);
  });
  for (int i = 0; i < 3; ++i) {
    CHECK(f(full({}, 1.f)).item() == 2);
    CHECK(taken() == Values{1});
    CHECK(f(full({}, 2.f)).item() == 12);
    CHECK(taken() == Values{2});
  }
}

TEST_CASE("in a function that reads values on the host, in order with what its code writes") {
  Captured out;
  auto f = compile([](const Tensor& x) {
    print("first {}", x);
    const double s = sum(x * 2).item();
    std::cout << "read " << s << "\n";
    print("then {}", x + s);
    return x * s;
  });
  for (int i = 1; i < 5; ++i) {
    CHECK(f(full({}, 1.f * i)).item() == 2 * i * i);
    CHECK(out.take() == concat_text("first ", i, "\nread ", 2 * i, "\nthen ", 3 * i, "\n"));
  }
}

TEST_CASE("what is called may use Weft: operations, compiled functions, gradients") {
  static const auto inner =
      compile([](const Tensor& x) { return grad([](const Tensor& x) { return sum(x * x); }, x); });
  const auto program = [](const Tensor& x) {
    return host_call(
               like(x),
               [](const Tensor& x) {
                 return inner(x) + fori(
                                       0, 2,
                                       [](const Index&, Tensor y) {
                                         host_call(see, y);
                                         return y + 1;
                                       },
                                       zeros({}));
               },
               x) *
           2;
  };
  CHECK(at(program(full({2}, 3)), 0) == 16);
  auto f = compile(program);
  for (int i = 0; i < 2; ++i) CHECK(at(f(full({2}, 3)), 1) == 16);
  const auto in_a_loop = [](const Tensor& x) {  // eagerly the loop runs under the lock of evaluation
    return fori(
        0, 2,
        [](const Index&, Tensor y) {
          return host_call(
              like(y),
              [](const Tensor& y) {
                Tensor given;
                std::thread([&] { given = (inner(y) + 1).eval(); }).join();
                return given;
              },
              y);
        },
        x);
  };
  CHECK(in_a_loop(full({1}, 1)).item() == 7);
  taken();
}

TEST_CASE("what is called may draw from the default generator, but not where the function draws too") {
  static constexpr auto drawn = [](const Tensor& x) { return x + uniform({1}); };
  auto apart = compile([](const Tensor& x) { return host_call(like(x), drawn, x); });
  CHECK(apart(zeros({1})).size(0) == 1);
  static const auto inner = compile(drawn);
  const auto refused = [](auto f) {
    const std::string message = message_of([&] { f(zeros({1})); });
    CAPTURE(message);
    CHECK(contains(message, "the function that calls this code draws from the default generator itself"));
    CHECK(contains(message, "effects_test.cpp:"));
  };
  refused(compile([](const Tensor& x) { return host_call(like(x), drawn, x) + uniform({1}); }));
  refused(compile([](const Tensor& x) {
    return host_call(
               like(x), [](const Tensor& y) { return inner(y); }, x) +
           uniform({1});
  }));
}

TEST_CASE("passes keep them, each once and in order, and what they make is a graph that verifies") {
  static std::string text;
  text.clear();
  register_backend("optimized_effects", [](const GraphView& graph, std::span<const Tensor>) {
    PipelineOptions options;
    options.verify = true;
    text = to_text(optimize(copy_graph(weft::detail::graph_of(graph)), options));
    return [graph](std::span<const Tensor> inputs) { return graph.run(inputs); };
  });
  auto f = compile(
      [](const Tensor& x) {
        print("first {}", x);
        return grad(
            [](const Tensor& x) {
              host_call(like(x), doubled, stop_gradient(x));
              return fori(
                  0, 3,
                  [](const Index&, Tensor y) {
                    print("in the loop {}", y);
                    return y * y;
                  },
                  x);
            },
            x);
      },
      {.backend = "optimized_effects"});
  Captured out;
  CHECK(f(full({}, 1.f)).item() == 8);
  CHECK(out.take() == "first 1\nin the loop 1\nin the loop 1\nin the loop 1\n");
  CHECK(taken() == Values{1});
  std::vector<std::size_t> calls;
  for (std::size_t at = text.find("host_call("); at != std::string::npos; at = text.find("host_call(", at + 1))
    calls.push_back(at);
  REQUIRE(calls.size() == 3);
  CHECK(text.find("first {}") < calls[1]);
  CHECK(text.find("gives true") > calls[0]);
  CHECK(text.find("in the loop {}") > calls[2]);
}

TEST_CASE("a call that is warmed up or explained calls nobody") {
  auto f = compile([](const Tensor& x) {
    host_call(see, x);
    return x + 1;
  });
  warm_up(f, full({2}, 1));
  const Explanation e = explain(f, full({2}, 1));
  CHECK(e.graph.find("host_call(") != std::string::npos);
  CHECK(taken().empty());
  f(full({2}, 1));
  CHECK(taken() == Values{2});
}

TEST_CASE("random programs: effects, numbers and results are those of the plain program") {
  for (int seed = 0; seed < 60; ++seed) {
    static int current;
    current = seed;
    const auto program = [](const Tensor& a, const Tensor& b) {
      std::mt19937 choose(static_cast<unsigned>(current));
      const auto number = [&](int below) { return static_cast<int>(choose() % static_cast<unsigned>(below)); };
      std::vector<Tensor> pool{a, b};
      const auto any_of = [&]() -> const Tensor& {
        return pool[static_cast<std::size_t>(number(static_cast<int>(pool.size())))];
      };
      const auto bounded = [](const Tensor& x) { return clamp(x, -9., 9.); };
      for (int i = 0; i < 10; ++i) switch (number(7)) {
          case 0: host_call(see, any_of()); break;
          case 1:
            pool.push_back(host_call(
                like(a),
                [](const Tensor& x, const Tensor& y) {
                  seen.push_back(sum(x).item());
                  return clamp(x - y, -9., 9.);
                },
                any_of(), any_of()));
            break;
          case 2: pool.push_back(bounded(any_of() * any_of())); break;
          case 3: pool.push_back(transpose(transpose(any_of()) + 1)); break;
          case 4:
            if (sum(any_of()).item<int>() % 3 == 0) host_call(see, any_of() + 100);
            break;
          case 5:
            pool.push_back(fori(
                0, 2,
                [](const Index&, Tensor y) {
                  host_call(see, y);
                  return clamp(y + 1, -9., 9.);
                },
                any_of()));
            break;
          case 6: host_call(see, gather(any_of(), full({2}, 1, {.dtype = DType::i64}))); break;
        }
      return std::tuple{pool.back(), any_of()};
    };
    auto f = compile(program, {.backend = backends[seed % 2], .recompile_limit = 64, .cache_size = 64});
    for (int call = 0; call < 4; ++call) {
      const Tensor a = full({3, 3}, call % 3 - 1.), b = full({3, 3}, call % 2 + 1.);
      const auto [x, y] = program(a, b);
      const Values plain = taken();
      const auto [u, v] = f(a, b);
      CAPTURE(seed);
      CHECK(taken() == plain);
      CHECK(all(x == u).item<bool>());
      CHECK(all(y == v).item<bool>());
    }
  }
}
