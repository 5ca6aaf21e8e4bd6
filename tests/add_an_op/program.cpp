// Uses the operations that docs/add_an_op.md adds, as any program would: eagerly, compiled, by the reference
// interpreter, and under grad in each of these ways. Exit status 0 when all agree with the formulas.
#include <cmath>
#include <cstdio>

#include <weft/weft.hpp>

using namespace weft;

Tensor values(const Tensor& x) { return log1pexp(x) + 3 * log_logistic(x); }
Tensor slopes(const Tensor& x) {
  return grad([](const Tensor& v) { return sum(values(v)); }, x);
}
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

struct Way {
  const char* name;
  Tensor result;
};
int wrong = 0;
// f at some numbers of type T, in each way, against its formula in double.
template <class T>
void check(const char* what, Tensor (*f)(const Tensor&), double (*formula)(double), double bound) {
  Tensor x = from_list<T>({-30, -2, -0.5, 0, 0.0009765625, 1, 20});
  View<const T> at = x.data<T>();
  const CompileOptions strict{.on_compile_error = OnFailure::raise}, reference{.backend = Backend::reference};
  const Way ways[] = {{"eager", f(x)}, {"compiled", compile(f, strict)(x)}, {"reference", compile(f, reference)(x)}};
  for (const Way& way : ways) {
    View<const T> found = way.result.data<T>();
    for (std::size_t i = 0; i < at.size(); ++i) {
      double expected = formula(at[i]);
      if (std::abs(found[i] - expected) <= bound * (1 + std::abs(expected))) continue;
      std::printf("%s, %s, of %g: %.17g, expected %.17g\n", what, way.name, double(at[i]), double(found[i]), expected);
      ++wrong;
    }
  }
}
double value_of(double x) { return std::log(1 + std::exp(x)) - 3 * std::log(1 + std::exp(-x)); }
double slope_of(double x) { return sigmoid_of(x) + 3 * sigmoid_of(-x); }

int main() {
  check<double>("values", values, value_of, 1e-12);
  check<double>("gradients", slopes, slope_of, 1e-12);
  check<float>("values", values, value_of, 1e-6);
  check<float>("gradients", slopes, slope_of, 1e-6);
  auto f = compile(values);
  Tensor x = ones({4, 4});
  f(x);
  std::size_t kernels = explain(f, x).kernels.size();
  if (kernels != 1) std::printf("%zu kernels, expected 1\n", kernels);
  return wrong == 0 && kernels == 1 ? 0 : 1;
}
