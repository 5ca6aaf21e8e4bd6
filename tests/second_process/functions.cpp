// Compiled functions, whose results it prints. With an argument it does other work before, of the same operations on
// the same types, so that what it has interned, numbered and recorded by then is not what another process has.
#include <cstdio>
#include <vector>
#include <weft/weft.hpp>

using namespace weft;

namespace {

Tensor rows(std::int64_t count) { return cast(reshape(arange(count * 6), {count, 6}), DType::f32) * 0.0625 - 1; }
Tensor loss(const Tensor& x) {
  return mean(square(nn::layer_norm(x, ones({6}), zeros({6})))) + sum(logsumexp(gelu(x), -1));
}
Tensor running(const Tensor& x) {
  return scan([](const Tensor& h, const Tensor& row) { return softmax(h + row, -1); }, zeros({6}), x);
}

void other_work() {
  const Tensor x = rows(4);
  loss(x * 2).eval();
  grad([](const Tensor& x) { return sum(softmax(x, -1)) + loss(x); }, x).eval();
  running(x).eval();
  cumsum(mean(x, 0), 0).eval();
  host_call([](const Tensor&) {}, x);
  const auto any = compile(
      [](const Tensor& a, const Tensor& b) {
        return concat({reshape(a, {-1, 3}), b}, 0) + 1;
      },
      {.dynamic = true});
  any(x, reshape(rows(7), {14, 3}));
  any(rows(9), reshape(rows(3), {6, 3}));
  compile([](const Tensor& x) { return region("another part", [](const Tensor& x) { return softmax(x, 0) * 3; })(x); })(
      x);
}

void print(const char* name, const std::vector<Tensor>& results) {
  std::printf("%s:", name);
  for (const Tensor& each : results) {
    const Tensor flat = cast(each, DType::f64);
    for (const double x : flat.data<double>()) std::printf(" %a", x);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) other_work();
  using Several = std::vector<Tensor>;
  const Tensor x = rows(4);
  print("composites", compile([](const Tensor& x) { return Several{loss(x), mean(x, 0), softmax(x, -1)}; })(x));
  print("a gradient", compile([](const Tensor& x) { return Several{grad(loss, x)}; })(x));
  print("a loop", compile([](const Tensor& x) { return Several{running(x)}; })(x));
  print("memory", compile([](const Tensor& x) { return Several{x * constant({1.f, 2.f, 3.f, 4.f, 5.f, 6.f})}; })(x));
  print("regions", compile([](const Tensor& x) {
          const auto part = region("part", [](const Tensor& x) { return softmax(x, -1) * 2; });
          return Several{part(part(x))};
        })(x));
  const auto sizes = compile(
      [](const Tensor& a, const Tensor& b) {
        return Several{concat({a, b}, 0), sum(reshape(a, {-1, 2}), 0)};
      },
      {.dynamic = true});
  for (const std::int64_t count : {3, 5}) print("sizes", sizes(rows(count), rows(2 * count)));
  Generator generator(3);
  print("draws",
        compile([](Generator& g, const Tensor& x) { return Several{x * uniform({6}, 0, 1, g)}; })(generator, x));
}
