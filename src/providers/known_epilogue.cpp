#include "providers/known_epilogue.hpp"

#include <bit>
#include <cmath>
#include <vector>

namespace weft::providers {

namespace {

using loop::Instruction, loop::Kind, runtime::cuda::Epilogue;

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

// What the kernel stores where it loads these, by buffer. Nothing of a kernel of other operations.
std::optional<double> value_at(const loop::Kernel& kernel, const std::vector<double>& loaded) {
  std::vector<double> v(kernel.body.size());
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& it = kernel.body[i];
    const auto arg = [&](int j) { return v[static_cast<std::size_t>(it.args[j])]; };
    if (!is_floating(it.dtype)) return {};
    switch (it.kind) {
      case Kind::constant: v[i] = std::bit_cast<double>(it.bits); break;
      case Kind::load: v[i] = loaded[static_cast<std::size_t>(it.buffer)]; break;
      case Kind::cast: v[i] = arg(0); break;
      case Kind::store: return arg(0);
      case Kind::apply:
        switch (it.op) {
          case Op::add: v[i] = arg(0) + arg(1); break;
          case Op::sub: v[i] = arg(0) - arg(1); break;
          case Op::mul: v[i] = arg(0) * arg(1); break;
          case Op::div: v[i] = arg(0) / arg(1); break;
          case Op::neg: v[i] = -arg(0); break;
          case Op::exp: v[i] = std::exp(arg(0)); break;
          case Op::sigmoid: v[i] = 1 / (1 + std::exp(-arg(0))); break;
          case Op::tanh: v[i] = std::tanh(arg(0)); break;
          default: return {};
        }
        break;
      default: return {};
    }
  }
  return {};
}

template <class F>
bool is_function(const loop::Kernel& kernel, int product, int other, const F& f) {
  constexpr double points[] = {-6.5, -3.1, -1.7, -0.75, -0.1, 0, 0.01, 0.4, 1.1, 2.3, 4.9};
  for (const double x : points)
    for (const double y : points) {
      std::vector<double> loaded(kernel.buffers.size(), y);
      loaded[static_cast<std::size_t>(product)] = x;
      const std::optional<double> found = value_at(kernel, loaded);
      const double right = other >= 0 ? f(x, y) : f(x, 0);
      if (!found || !(std::abs(*found - right) <= 1e-6 * (1 + std::abs(right)))) return false;
    }
  return true;
}

// The index of elements one after the other, in the order of the kernel's axes; nothing where these are not so many, or
// something is reduced.
std::optional<Dim> index_in_order(const loop::Kernel& kernel, Dim elements) {
  if (kernel.axes.empty() || kernel.predicate >= 0) return {};
  Dim in_order = 0, count = 1;
  for (std::size_t a = kernel.axes.size(); a-- > 0;) {
    const loop::Axis& axis = kernel.axes[a];
    if (axis.inner) return {};
    in_order = in_order + dims::axis(static_cast<int>(a), axis.extent) * count;
    count = count * axis.extent;
  }
  if (!loop::over_symbols(count, kernel).same(elements)) return {};
  return in_order;
}

}  // namespace

std::optional<KnownGate> known_gate(const loop::Kernel& kernel, int first, int second, Dim elements) {
  const std::optional<Dim> in_order = index_in_order(kernel, elements);
  if (!in_order) return {};
  const auto dtype_of = [&](int buffer) { return kernel.buffers[static_cast<std::size_t>(buffer)].dtype; };
  int result = -1;
  for (const Instruction& it : kernel.body) {
    if (it.kind != Kind::load && it.kind != Kind::store) continue;
    if (!it.index.same(*in_order) || dtype_of(it.buffer) != dtype_of(first)) return {};
    if (it.kind == Kind::store) {
      if (result >= 0) return {};
      result = it.buffer;
    } else if (it.args[0] >= 0 || (it.buffer != first && it.buffer != second)) {
      return {};
    }
  }
  if (result < 0) return {};
  const auto gated = [](double x, double y) { return x / (1 + std::exp(-x)) * y; };
  if (is_function(kernel, first, second, gated)) return KnownGate{first, result};
  if (is_function(kernel, second, first, gated)) return KnownGate{second, result};
  return {};
}

std::optional<KnownEpilogue> known_epilogue(const loop::Kernel& kernel, int product, Dim elements, Dim columns,
                                            bool keeps) {
  KnownEpilogue known{Epilogue::none, -1, -1, -1};
  const std::optional<Dim> index = index_in_order(kernel, elements);
  if (!index) return {};
  const Dim in_order = *index;
  const loop::Axis& last = kernel.axes.back();
  const bool walks_rows = loop::over_symbols(last.extent, kernel).same(columns);
  const Dim column = dims::axis(static_cast<int>(kernel.axes.size()) - 1, last.extent);
  for (const Instruction& it : kernel.body) {
    int* place = nullptr;
    if (it.kind == Kind::store)
      place = &known.result;
    else if (it.kind == Kind::load && it.buffer == product) {
      if (!it.index.same(in_order) || it.args[0] >= 0) return {};
      continue;
    } else if (it.kind == Kind::load && it.args[0] < 0)
      place = it.index.same(in_order) ? &known.aux : walks_rows && it.index.same(column) ? &known.bias : nullptr;
    else if (it.kind == Kind::load)
      return {};
    else
      continue;
    const DType dtype = kernel.buffers[static_cast<std::size_t>(product)].dtype;
    if (!place || (*place >= 0 && *place != it.buffer) || it.dtype != dtype) return {};
    if (it.kind == Kind::store && (*place >= 0 || !it.index.same(in_order))) return {};
    *place = it.buffer;
  }
  if (known.result < 0 || (known.aux >= 0 && known.bias >= 0) || (known.bias >= 0 && keeps)) return {};
  if (known.aux >= 0 && !keeps) {
    known.function = Epilogue::gelu_gradient;
    if (is_function(kernel, product, known.aux, [](double x, double y) { return x * gelu_slope(y); })) return known;
  } else if (known.aux < 0) {
    known.function = keeps ? Epilogue::gelu_kept : Epilogue::gelu;
    if (is_function(kernel, product, known.bias, [](double x, double y) { return gelu(x + y); })) return known;
  }
  return {};
}

}  // namespace weft::providers
