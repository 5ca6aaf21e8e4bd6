// Windows of signals: functions of the place among n points.
#include <cmath>

#include "base/number_checks.hpp"
#include "record/record.hpp"
#include "weft/signal.hpp"

namespace weft::signal::windows {

namespace {

constexpr double pi = 3.141592653589793;

// f(k, steps) of places k = 0, 1, ..., in f64, where `steps` is how many lie between the first point and the one that
// repeats it, or mirrors it.
template <class F>
Tensor window(const char* name, Dim n, bool sym, const Options& options, Loc loc, F f) {
  LooseComposite call(name, loc);
  check_extent(name, "the count of points", n, call.loc());
  if (n < Dim(0)) fail(name, call.loc(), "the count of points is negative: ", dims::to_string(n));
  if (!is_floating(options.dtype)) fail(name, call.loc(), "needs a floating dtype, not ", options.dtype);
  if (n <= Dim(1)) return expand(full({}, 1, options), Shape::of(n));
  const Tensor places = cast(positions(0, Shape::of(n), options.device, call.loc()), DType::f64);
  const Tensor steps = cast(dim_value(sym ? n - Dim(1) : n, call.loc()), DType::f64);
  return cast(f(places, steps), options.dtype);
}

}  // namespace

Tensor general_cosine(Dim n, const std::vector<double>& a, bool sym, Options options, Loc loc) {
  if (a.empty()) fail("general_cosine", loc, "needs one number at least");
  return window("general_cosine", n, sym, options, loc, [&](const Tensor& k, const Tensor& steps) {
    const Tensor angle = k / steps * (2 * pi);
    Tensor sum = angle * 0 + a[0];
    for (std::size_t i = 1; i < a.size(); ++i)
      sum = sum + cos(angle * static_cast<double>(i)) * (i % 2 == 0 ? a[i] : -a[i]);
    return sum;
  });
}
Tensor general_hamming(Dim n, double alpha, bool sym, Options options, Loc loc) {
  Operation call("general_hamming", loc);
  return general_cosine(n, {alpha, 1 - alpha}, sym, options, loc);
}
Tensor hann(Dim n, bool sym, Options options, Loc loc) {
  Operation call("hann", loc);
  return general_cosine(n, {0.5, 0.5}, sym, options, loc);
}
Tensor hamming(Dim n, bool sym, Options options, Loc loc) {
  Operation call("hamming", loc);
  return general_cosine(n, {0.54, 0.46}, sym, options, loc);
}
Tensor blackman(Dim n, bool sym, Options options, Loc loc) {
  Operation call("blackman", loc);
  return general_cosine(n, {0.42, 0.5, 0.08}, sym, options, loc);
}
Tensor nuttall(Dim n, bool sym, Options options, Loc loc) {
  Operation call("nuttall", loc);
  return general_cosine(n, {0.3635819, 0.4891775, 0.1365995, 0.0106411}, sym, options, loc);
}

Tensor bartlett(Dim n, bool sym, Options options, Loc loc) {
  return window("bartlett", n, sym, options, loc,
                [](const Tensor& k, const Tensor& steps) { return 1 - abs(k * 2 / steps - 1); });
}
Tensor cosine(Dim n, bool sym, Options options, Loc loc) {
  return window("cosine", n, sym, options, loc,
                [](const Tensor& k, const Tensor& steps) { return sin((k + 0.5) / (steps + 1) * pi); });
}
Tensor gaussian(Dim n, double deviation, bool sym, Options options, Loc loc) {
  check_numbers("gaussian", Bounds::positive, {{"deviation", deviation}}, loc);
  return window("gaussian", n, sym, options, loc,
                [&](const Tensor& k, const Tensor& steps) { return exp(square((k - steps / 2) / deviation) * -0.5); });
}
Tensor exponential(Dim n, double tau, bool sym, Options options, Loc loc) {
  check_numbers("exponential", Bounds::positive, {{"tau", tau}}, loc);
  return window("exponential", n, sym, options, loc,
                [&](const Tensor& k, const Tensor& steps) { return exp(abs(k - steps / 2) / -tau); });
}

Tensor kaiser(Dim n, double beta, bool sym, Options options, Loc loc) {
  if (!(beta >= 0 && beta <= 10000)) fail("kaiser", loc, "beta is between 0 and 10000, it is ", beta);
  // I0(x) is the mean of exp(x cos(angle)) over a circle. By m points in equal distances its relative error is about
  // exp(-m^2 / 2 x): 3e-18 here. Half of the circle mirrors the other.
  const std::int64_t half = static_cast<std::int64_t>(std::ceil(4.5 * std::sqrt(beta))) + 10;
  return window("kaiser", n, sym, options, loc, [&](const Tensor& k, const Tensor& steps) {
    const Tensor point = cast(arange(half + 1, {DType::i64, options.device}), DType::f64);
    const Tensor along = cos(point * (pi / static_cast<double>(half)));
    const Tensor weight =
        where((point == 0) | (point == static_cast<double>(half)), 0.5, cast(point * 0 + 1, DType::f64));
    const auto bessel = [&](const Tensor& x) { return sum(exp(unsqueeze(x, -1) * along - beta) * weight, -1); };
    const Tensor t = k * 2 / steps - 1;
    return bessel(sqrt(maximum(1 - square(t), 0)) * beta) / bessel(full({}, beta, {DType::f64, options.device}));
  });
}

}  // namespace weft::signal::windows
