// A CUDA device through the public functions: moving tensors, eager operations, compiled steps, errors. Skipped
// without a GPU; what is then is absence_test.cpp's.
#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "base/options.hpp"
#include "eager/device.hpp"
#include "ir/node.hpp"
#include "runtime/cuda/blas.hpp"
#include "runtime/cuda/device.hpp"
#include "tests/cuda/support.hpp"
#include "tests/runtime/support.hpp"
#include "weft/cuda.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

template <class T = float>
std::vector<T> values(const Tensor& tensor) {
  View<const T> data = tensor.data<T>();
  return {data.begin(), data.end()};
}

// The largest difference, relative to the largest value.
double distance(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = values(a), y = values(b);
  REQUIRE(x.size() == y.size());
  double worst = 0, scale = 1e-30;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) return INFINITY;
    if (std::isnan(x[i])) continue;
    worst = std::max(worst, std::fabs(double{x[i]} - double{y[i]}));
    scale = std::max(scale, std::fabs(double{y[i]}));
  }
  return worst / scale;
}

struct Net {
  Param in, out;
  Tensor operator()(const Tensor& x) const { return matmul(gelu(matmul(x, in)), out); }
  WEFT_MEMBERS(in, out)
};

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("one object that arrives by move in two places is not written while it is read") {
  auto f = compile([](auto a, auto b) { return a * 1.0f + flip(b, 0) * 10; });
  auto read = compile([](auto a, const auto& b) { return a * 1.0f + flip(b, 0) * 10; });
  const Tensor ramp = arange(100000, {DType::f32});
  const std::vector<float> expected = values(ramp + flip(ramp, 0) * 10);
  for (int round = 0; round < 3; ++round) {
    Tensor t = to(ramp + 0, Device::cuda()).eval();
    CHECK(values(f(std::move(t), std::move(t))) == expected);
    t = to(ramp + 0, Device::cuda()).eval();
    CHECK(values(read(std::move(t), std::as_const(t))) == expected);
  }
}

TEST_CASE("tensors move to the device and back unchanged") {
  Tensor x = sample({37, 5}, 1);
  Tensor there = to(x, Device::cuda());
  CHECK(there.device() == Device::cuda());
  CHECK(values(there) == values(x));
  CHECK(values(to(there, Device::cpu())) == values(x));
  CHECK(values(to(permute(x, {1, 0}), Device::cuda())) == values(permute(x, {1, 0})));
  CHECK(values(zeros({3}, {DType::f32, Device::cuda()}) + 2) == std::vector<float>{2, 2, 2});
  CHECK(to(ones({}), Device::cuda()).item() == 1);
  CHECK_THROWS_AS(to(x, Device::cuda(63)), Error);
}

TEST_CASE("eager operations on the device agree with the host's") {
  Tensor x = sample({33, 65}, 2), y = sample({33, 65}, 3);
  Tensor dx = to(x, Device::cuda()), dy = to(y, Device::cuda());
  const auto agree = [](const char* name, const Tensor& device, const Tensor& host) {
    INFO(name);
    CHECK(device.device() == Device::cuda());
    CHECK(distance(device, host) < 2e-6);
  };
  agree("chain", tanh(dx * dy + 1) - exp(-dx), tanh(x * y + 1) - exp(-x));
  agree("softmax", softmax(dx, -1), softmax(x, -1));
  agree("softmax of columns", softmax(dx, 0), softmax(x, 0));
  agree("sum", sum(dx, 0), sum(x, 0));
  agree("all", sum(dx), sum(x));
  agree("gelu", gelu(dx), gelu(x));
  agree("transposed", permute(dx, {1, 0}) * 2, permute(x, {1, 0}) * 2);
  agree("product", matmul(dx, permute(dy, {1, 0})), matmul(x, permute(y, {1, 0})));
  agree("slice", slice(dx, 1, 3, 20), slice(x, 1, 3, 20));
  CHECK(values<std::int64_t>(argmax(dx, 1)) == values<std::int64_t>(argmax(x, 1)));
  CHECK_THROWS_AS((dx + y).eval(), Error);  // operands on two devices
  agree("with a scalar of the host", dx * Scalar(0.5), x * 0.5);
}

TEST_CASE("an eager slice is compiled once for all its starts; other operations once they have had several sizes") {
  const Tensor x = sample({300, 17}, 2), dx = to(x, Device::cuda());
  const auto check = [&](auto of, std::int64_t i) {
    INFO("turn ", i);
    CHECK(values(of(dx, i)) == values(of(x, i)));
  };
  const auto compiled_by = [](auto turns) {
    const std::int64_t before = eager::compiled_operations();
    turns();
    return eager::compiled_operations() - before;
  };
  const auto rows = [](const Tensor& t, std::int64_t i) { return slice(t, 0, i, i + 32); };
  const auto columns = [](const Tensor& t, std::int64_t i) { return slice(t, 1, i % 12, i % 12 + 5); };
  const auto strided = [](const Tensor& t, std::int64_t i) { return slice(t, 0, i, i + 200, 7); };
  const auto turns = [&](auto of, std::int64_t step) {
    return [&check, of, step] {
      for (std::int64_t i = 0; i < 20; ++i) check(of, i * step);
    };
  };
  CHECK(compiled_by(turns(rows, 13)) == 1);
  CHECK(compiled_by(turns(columns, 1)) == 1);
  CHECK(compiled_by(turns(strided, 5)) == 1);
  const auto first = [](const Tensor& t, std::int64_t i) { return slice(t, 0, 0, 2 + i); };
  const auto more = [](const Tensor& t, std::int64_t i) { return concat({slice(t, 0, 0, 2 + i), slice(t, 0, 3, 40)}); };
  const auto sums = [](const Tensor& t, std::int64_t i) { return amax(slice(t, 0, i, 2 + i * 2), 1); };
  const auto parts = [](const Tensor& t, std::int64_t i) { return cumsum(slice(t, 0, 0, 3 + i), 0); };
  const auto sorted = [](const Tensor& t, std::int64_t i) { return sort(slice(t, 0, 0, 3 + i), 0).values; };
  const auto turned = [](const Tensor& t, std::int64_t i) { return transpose(slice(t, 0, 0, 2 + i)) * 1; };
  const auto taken = [](const Tensor& t, std::int64_t i) { return gather(t, arange(2 + i, {DType::i64, t.device()})); };
  CHECK(compiled_by(turns(first, 11)) <= 5);
  CHECK(compiled_by(turns(more, 11)) <= 12);
  turns(sums, 5)();
  turns(turned, 5)();
  CHECK(compiled_by([&] {
          for (std::int64_t i = 20; i < 24; ++i) check(sums, i * 5), check(turned, i * 5);
        }) == 0);
  turns(parts, 3)();
  turns(sorted, 3)();
  turns(taken, 3)();
}

TEST_CASE("operations whose kernels are compiled together, of dtypes that nothing else here has") {
  const Tensor x = sample({7, 129}, 5);
  const auto chain = [](const Tensor& of) {
    const Tensor a = cast(round(of * 50), DType::i16), b = cast(of * 9, DType::i16);
    return cast(where(a < b, a * b, b - a), DType::f64) + sum(cast(b, DType::f64), 1, true);
  };
  CHECK(values<double>(chain(to(x, Device::cuda()))) == values<double>(chain(x)));
}

TEST_CASE("random numbers have the host's bits") {
  Generator a(7), b(7);
  const Tensor host = uniform({1001}, 0, 1, a), there = uniform({1001}, 0, 1, b, {DType::f32, Device::cuda()});
  CHECK(values(there) == values(host));
  const Device device = Device::cuda();
  const Tensor dice = randint({1001}, -3, 250, a), dice_there = randint({1001}, -3, 250, b, {DType::i32, device});
  CHECK(dice_there.device() == device);
  CHECK(values<std::int32_t>(dice_there) == values<std::int32_t>(cast(dice, DType::i32)));
  CHECK(values(bernoulli({1001}, 0.3, b, {DType::f32, device})) == values(bernoulli({1001}, 0.3, a, {DType::f32})));
  CHECK(uniform({3}, {.device = device}).device() == device);
  CHECK(normal_like(there).device() == device);
  CHECK(cuda::is_available());
  CHECK(cuda::device_count() >= 1);
}

TEST_CASE("products of all layouts and batches go through the library or its stand-in") {
  for (const int m : {1, 3, 64})
    for (const int n : {1, 5, 128})
      for (const int k : {1, 7, 96}) {
        INFO(m, " ", n, " ", k);
        Tensor a = sample({m, k}, 1), b = sample({k, n}, 2), at = sample({k, m}, 3), bt = sample({n, k}, 4);
        const auto there = [](const Tensor& t) { return to(t, Device::cuda()); };
        auto product = compile([](const Tensor& a, const Tensor& b) { return matmul(a, b); });
        auto turned = compile([](const Tensor& a, const Tensor& b) {
          return matmul(permute(a, {1, 0}), permute(b, {1, 0}));
        });
        CHECK(distance(product(there(a), there(b)), matmul(a, b)) < 1e-5);
        CHECK(distance(turned(there(at), there(bt)), matmul(permute(at, {1, 0}), permute(bt, {1, 0}))) < 1e-5);
      }
  CHECK(values(matmul(zeros({0, 3, 2}, {DType::f32, Device::cuda()}), zeros({0, 2, 4}, {DType::f32, Device::cuda()})))
            .empty());
  CHECK(values(matmul(zeros({2, 0}, {DType::f32, Device::cuda()}), zeros({0, 1}, {DType::f32, Device::cuda()}))) ==
        std::vector<float>{0, 0});
  Tensor a = sample({2, 3, 8, 16}, 5), b = sample({2, 3, 16, 4}, 6);
  CHECK(distance(matmul(to(a, Device::cuda()), to(b, Device::cuda())), matmul(a, b)) < 1e-5);
}

TEST_CASE("products of 16-bit floats are the library's: added up in f32, whatever the layout") {
  const auto there = [](const Tensor& t) { return to(t, Device::cuda()); };
  const auto check = [&](DType dtype, auto function, const Tensor& a, const Tensor& b) {
    const Tensor wide = function(cast(a, DType::f32), cast(b, DType::f32));
    const Tensor found = to(cast(compile(function)(there(a), there(b)), DType::f32), Device::cpu());
    CHECK(found.shape().same(wide.shape()));
    const double unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    CHECK(amax(abs(found - wide) - abs(wide) * unit).item() < 1e-4);
    const Tensor eager = to(cast(function(there(a), there(b)), DType::f32), Device::cpu());
    CHECK(amax(abs(eager - wide) - abs(wide) * unit).item() < 1e-4);
  };
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const int m : {1, 7, 64})
      for (const int n : {1, 5, 128})
        for (const int k : {1, 3, 130}) {
          INFO(info(dtype).name, " ", m, " ", n, " ", k);
          const auto make = [&](Sizes sizes, std::uint64_t seed) { return cast(sample(sizes, seed), dtype); };
          check(
              dtype, [](const Tensor& a, const Tensor& b) { return matmul(a, b); }, make({m, k}, 1), make({k, n}, 2));
          check(
              dtype, [](const Tensor& a, const Tensor& b) { return matmul(transpose(a), transpose(b)); },
              make({k, m}, 3), make({n, k}, 4));
          // Every second column has no unit stride; from the third element on, memory is aligned to no more than that.
          check(
              dtype, [](const Tensor& a, const Tensor& b) { return matmul(slice(a, 1, 1, slice_end, 2), b); },
              make({m, 2 * k}, 5), make({k, n}, 6));
          check(
              dtype, [](const Tensor& a, const Tensor& b) { return matmul(slice(a, 1, 3), slice(b, 0, 1)); },
              make({m, k + 3}, 7), make({k + 1, n}, 8));
          check(
              dtype,
              [](const Tensor& a, const Tensor& b) {
                return matmul(permute(a, {1, 0, 2}), b);
              },
              make({m, 3, k}, 9), make({2, 1, k, n}, 10));
        }
}

TEST_CASE("parts of a concatenation and a product's operand are written in place on the device too") {
  auto joined = compile([](const Tensor& x, const Tensor& w) {
    return concat({matmul(x, w), softmax(x), concat({x, gelu(x) * exp(-x * x)}, 1)}, 1);
  });
  auto ordered = compile([](const Tensor& x, const Tensor& w) {
    const Tensor cube = reshape(x, {x.size(0), x.size(1), 1}) * reshape(w, {1, x.size(1), w.size(1)});
    return matmul(permute(softmax(cube), {2, 0, 1}), expand(w, {w.size(1), w.size(0), w.size(1)}));
  });
  for (const int columns : {8, 19, 64}) {
    const Tensor x = sample({6, columns}, 1), w = sample({columns, 5}, 2);
    const Tensor x_there = to(x, Device::cuda()), w_there = to(w, Device::cuda());
    CHECK(distance(joined(x_there, w_there), joined(x, w)) < 1e-5);
    CHECK(distance(ordered(x_there, w_there), ordered(x, w)) < 1e-5);
  }
}

TEST_CASE("pads and concatenations are formulas on the device too: stencils, rolls, strided gradients") {
  const auto f = [](const Tensor& x) {
    const Tensor padded = pad(pad(x, 0, 1, 2), 1, 2, 1), half = slice(x, 1, 0, slice_end, 2);
    return std::vector{slice(padded, 0, 0, x.size(0)) + slice(padded, 0, 2, x.size(0) + Dim(2)),
                       pad(gelu(x), 0, 3, 3),
                       concat({slice(x, 1, 5, slice_end), slice(x, 1, 0, 5)}, 1),
                       relu(concat({x * 2, x + 1}, 0)),
                       softmax(concat({x, pad(x, 1, 1, 1)}, 1), 1),
                       grad(
                           [](const Tensor& v) {
                             const Tensor even = slice(v, 1, 0, slice_end, 2), odd = slice(v, 1, 1, slice_end, 2);
                             return sum(even * odd * odd);
                           },
                           x),
                       pad(half, 1, 0, 1, 1)};
  };
  const auto compiled = compile(f, {.on_compile_error = OnFailure::raise});
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [rows, columns] : {std::pair{6, 16}, {33, 130}, {300, 1000}}) {
      const Tensor x = cast(sample({rows, columns}, 5), dtype);
      const std::vector<Tensor> expected = f(x), found = compiled(to(x, Device::cuda()));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("result ", i, " of ", rows, " x ", columns);
        const Tensor difference = abs(cast(to(found[i], Device::cpu()), DType::f32) - cast(expected[i], DType::f32));
        CHECK(amax(difference).item() <= (dtype == DType::f32 ? 1e-5 : 0.05));
      }
    }
}

TEST_CASE("reductions in two stages, and rows and columns in one pass, on the device too") {
  const auto f = [](const Tensor& x) {
    const Tensor centered = x - mean(x, -1, true), normal = centered * rsqrt(mean(square(centered), -1, true) + 1e-5);
    const Tensor dy = tanh(x);
    const Tensor dx = dy - mean(dy, -1, true) - normal * mean(dy * normal, -1, true);
    return std::vector<Tensor>{dx, sum(dy * normal, 0), sum(dy, 0), amax(x, 0), sum(x, -1)};
  };
  const auto all = [](const Tensor& x) { return std::vector<Tensor>{mean(square(x)), amax(x), sum(abs(x))}; };
  auto rows_and_columns = compile(f);
  auto whole = compile(all);
  const auto check = [](auto& compiled, const Tensor& x) {
    const std::vector<Tensor> expected = compiled(x), got = compiled(to(x, Device::cuda()));
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO("result ", i);
      CHECK(distance(to(got[i], Device::cpu()), expected[i]) < 1e-5);
    }
  };
  for (const auto& [rows, columns] : {std::pair{256, 128}, {131, 77}, {1000, 4096}, {129, 16384}, {4099, 1000}})
    check(rows_and_columns, sample({rows, columns}, 1));
  for (const int count : {1 << 20, 100003}) check(whole, sample({count}, 2));
}

namespace {

struct Many {
  std::vector<Param> values;
  WEFT_MEMBERS(values)
};

}  // namespace

TEST_CASE("kernels of one text are few launches, whatever their sizes") {
  auto step = compile([](Many& model, const Many& gradients, Scalar rate) {
    for (std::size_t i = 0; i < model.values.size(); ++i)
      model.values[i] = model.values[i].tensor() - tanh(gradients.values[i].tensor()) * rate;
  });
  Many host, there, gradients, gradients_there;
  for (int i = 0; i < 130; ++i) {
    host.values.emplace_back(sample({1 + i * 37, i % 3 + 1}, static_cast<std::uint64_t>(i)));
    gradients.values.emplace_back(sample({1 + i * 37, i % 3 + 1}, static_cast<std::uint64_t>(500 + i)));
    there.values.emplace_back(to(host.values.back(), Device::cuda()));
    gradients_there.values.emplace_back(to(gradients.values.back(), Device::cuda()));
  }
  for (int i = 0; i < 3; ++i) {
    step(host, gradients, Scalar(0.1));
    step(there, gradients_there, Scalar(0.1));
  }
  for (std::size_t i = 0; i < host.values.size(); ++i) {
    INFO("parameter ", i);
    CHECK(distance(to(there.values[i], Device::cpu()), host.values[i]) < 1e-6);
  }
  CHECK(explain(step, there, gradients_there, Scalar(0.1)).kernels.size() <= 3);
}

TEST_CASE("a compiled training step on the device gives the host's parameters") {
  const auto step = [](Net& net, const Tensor& x, const Tensor& y, Scalar rate) {
    auto [loss, gradients] = value_and_grad([&](const Net& n) { return mean(square(n(x) - y)); }, net);
    net.in = net.in.tensor() - gradients.in.tensor() * rate;
    net.out = net.out.tensor() - gradients.out.tensor() * rate;
    return loss;
  };
  auto compiled = compile(step);
  Net host{sample({12, 40}, 1), sample({40, 3}, 2)};
  Net there{to(host.in, Device::cuda()), to(host.out, Device::cuda())};
  double first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    const Tensor x = sample({16, 12}, 100 + static_cast<std::uint64_t>(i)), y = sample({16, 3}, 200);
    const double expected = compiled(host, x, y, Scalar(0.01)).item();
    const double got = compiled(there, to(x, Device::cuda()), to(y, Device::cuda()), Scalar(0.01)).item();
    CHECK(got == doctest::Approx(expected).epsilon(1e-4));
    if (i == 0) first = got;
    last = got;
  }
  CHECK(last < first);
  CHECK(distance(there.in, host.in) < 1e-4);
  CHECK(there.in.tensor().device() == Device::cuda());
}

TEST_CASE("no memory is a typed error, and the next call works") {
  CHECK_THROWS_AS(allocate(Device::cuda(), std::size_t{1} << 42), OutOfMemory);
  CHECK(values(to(ones({4}), Device::cuda()) + 1) == std::vector<float>{2, 2, 2, 2});
}

namespace {

Tensor there(const Tensor& value) { return to(value, Device::cuda()).eval(); }

// What is thrown when somebody waits for the device.
std::string error_at_wait() {
  try {
    runtime::cuda::synchronize(Device::cuda());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("an index out of range is the user's error, thrown once, by who waits for the device") {
  const Tensor bad = there(from_list<std::int64_t>({0, 9})), good = there(from_list<std::int64_t>({3, 1}));
  const Tensor table = there(sample({4, 3}, 1));
  auto look_up = compile([](const Tensor& table, const Tensor& index) { return gather(table, index); });
  look_up(table, bad).eval();
  CHECK(error_at_wait().find("an index is out of range [0, 4)") != std::string::npos);
  CHECK(error_at_wait().empty());
  CHECK(values(look_up(table, good)).size() == 6);
  const Tensor wrong = look_up(table, bad);
  CHECK_THROWS_AS(values(wrong), Error);
  CHECK_THROWS_AS(gather(table, bad).eval(), Error);  // eager operations wait
  CHECK(values(look_up(table, good)).size() == 6);
}

TEST_CASE("a failed check is told to the thread whose call it is, and to who takes its result") {
  const Tensor bad = there(from_list<std::int64_t>({0, 9})), good = there(from_list<std::int64_t>({3, 1}));
  const Tensor table = there(sample({4, 3}, 1));
  auto look_up = compile([](const Tensor& table, const Tensor& index) { return gather(table, index); });
  const std::vector<float> expected = values(look_up(table, good));
  Tensor wrong;
  std::string told;
  for (int round = 0; round < 20; ++round) {  // calls that are replayed, too
    std::thread failing([&] {
      look_up(table, good).eval();
      wrong = look_up(table, bad).eval();
    });
    for (int i = 0; i < 10; ++i) CHECK(values(look_up(table, good)) == expected);
    failing.join();
    CHECK(values(look_up(table, good)) == expected);
    CHECK_THROWS_WITH_AS(values(wrong), doctest::Contains("an index is out of range [0, 4)"), Error);
    CHECK_THROWS_AS((wrong + 1).eval(), Error);
    CHECK(error_at_wait().empty());
  }
  std::thread([&] {
    look_up(table, bad).eval();
    told = error_at_wait();
  }).join();
  CHECK(told.find("an index is out of range [0, 4)") != std::string::npos);
}

TEST_CASE("a failed check leaves a compiled step's state as it was, in later steps too, until it is thrown") {
  for (const bool shared : {false, true}) {  // somebody else holds the state: it is not written in place
    CAPTURE(shared);
    auto step = compile([](Param& weight, const Tensor& x, const Tensor& labels) {
      auto [loss, gradient] =
          value_and_grad([&](const Param& w) { return nn::cross_entropy(matmul(x, w), labels); }, weight);
      weight = weight.tensor() - gradient.tensor() * 0.1;
      return loss;
    });
    Param weight = there(sample({8, 5}, 1));
    const Tensor x = there(sample({16, 8}, 2)), good = there(zeros({16}, {DType::i64})),
                 bad = there(full({16}, 5, {DType::i64}));
    for (int i = 0; i < 5; ++i) step(weight, x, good).eval();
    const std::vector<float> before = values(weight);
    Tensor held = shared ? weight.tensor() : Tensor();
    std::string error;
    try {
      step(weight, x, bad).eval();
      for (int i = 0; i < 4; ++i) step(weight, x, good).eval();
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    if (error.empty()) error = error_at_wait();
    CHECK(error.find("an index is out of range [0, 5)") != std::string::npos);
    CHECK(values(weight) == before);
    held = Tensor();
    step(weight, x, good).eval();
    CHECK(error_at_wait().empty());
    CHECK(values(weight) != before);
  }
}

TEST_CASE("steps that are replayed as one piece give what they give one by one, wherever their values move") {
  const auto train = [](Net& net, const Tensor& x) {
    auto [loss, gradients] = value_and_grad([&](const Net& n) { return mean(square(n(x))); }, net);
    net.in = net.in.tensor() - gradients.in.tensor() * 0.01;
    net.out = net.out.tensor() - gradients.out.tensor() * 0.01;
    return loss;
  };
  const auto run = [&](bool graphs) {
    weft::options().cuda_graphs = graphs;
    auto step = compile(train, {.dynamic = true});
    Net net{there(sample({12, 40}, 1)), there(sample({40, 3}, 2))};
    std::vector<Tensor> batches, losses;
    for (int i = 0; i < 3; ++i)
      batches.push_back(there(sample({16 + 8 * (i / 2), 12}, 3 + static_cast<std::uint64_t>(i))));
    std::vector<float> all;
    for (int i = 0; i < 40; ++i) {
      const Tensor loss = step(net, batches[static_cast<std::size_t>(i % 3)]);
      if (i % 5 == 0) losses.push_back(loss);  // the next result lies elsewhere
      if (i == 20) net.in = (net.in.tensor() + 0).eval();
      all.push_back(values(loss)[0]);
    }
    for (const Tensor& weight : {net.in.tensor(), net.out.tensor()})
      for (const float value : values(weight)) all.push_back(value);
    weft::options().cuda_graphs = true;
    return all;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("two threads call one function at once") {
  auto f = compile([](const Tensor& x) { return softmax(x * 2, -1); });
  const Tensor x = sample({64, 300}, 1), there = to(x, Device::cuda());
  const std::vector<float> expected = values(f(there));
  bool same[2] = {true, true};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) same[t] = same[t] && values(f(there)) == expected;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(same[0]);
  CHECK(same[1]);
}

TEST_CASE("products of several threads at once, which the library divides into kernels that add up parts") {
  const test::KeepOptions keep;
  auto f = compile([](const Tensor& a, const Tensor& b, const Tensor& c) { return matmul(a, b) - matmul(a, c); });
  const Tensor b = there(sample({16384, 96}, 1)), c = there(sample({16384, 96}, 2));
  for (const bool graphs : {false, true}) {
    options().cuda_graphs = graphs;
    constexpr std::size_t count = 4;
    std::vector<Tensor> operands, expected;
    std::vector<std::vector<Tensor>> made(count, std::vector<Tensor>(100));
    for (std::size_t t = 0; t < count; ++t) {
      operands.push_back(there(sample({64, 16384}, 3 + t)).eval());
      expected.push_back(f(operands[t], b, c).eval());
    }
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < count; ++t)
      threads.emplace_back([&, t] {
        for (Tensor& each : made[t]) each = f(operands[t], b, c).eval();
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t t = 0; t < count; ++t)
      for (const Tensor& each : made[t]) CHECK(values(each) == values(expected[t]));
  }
}

TEST_CASE("memory on a device knows the queue and the number of its last use") {
  Queue& queue = runtime::cuda::use(Device::cuda()).queue;
  const auto storage = [](const Tensor& value) { return value.node()->storage; };
  auto f = compile([](const Tensor& x) { return x * 2 + 1; });
  Tensor x = to(sample({64}, 1), Device::cuda());
  x.eval();
  Tensor y = f(x);
  const std::uint64_t first = queue.latest;
  CHECK(storage(y)->queue.load() == &queue);
  CHECK(storage(y)->last_use.load() == first);
  CHECK(storage(x)->last_use.load() == first);
  Tensor z = f(x);
  CHECK(storage(x)->last_use.load() == first + 1);
  CHECK(storage(y)->last_use.load() == first);
  CHECK(storage(z)->last_use.load() == first + 1);
  Tensor w = z + 1;  // outside of compile
  w.eval();
  CHECK(storage(w)->last_use.load() > first + 1);
  CHECK(storage(z)->last_use.load() == storage(w)->last_use.load());
  Queue elsewhere;  // of the CPU
  CHECK_THROWS_AS(device_interface(Device::Type::cuda)
                      .copy(storage(y)->data, Device::cuda(), storage(x)->data, Device::cuda(), 4, &elsewhere),
                  InternalError);
}

TEST_SUITE_END();
