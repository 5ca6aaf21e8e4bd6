#include "providers/known_epilogue.hpp"

#include <bit>
#include <cmath>
#include <vector>

namespace weft::providers {

namespace {

using loop::Instruction, loop::Kind, runtime::cuda::Activation, runtime::cuda::Epilogue;

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
          case Op::erf: v[i] = std::erf(arg(0)); break;
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

// Whether the value is a sum of loads and nothing else; adds their buffers.
bool is_sum(const loop::Kernel& kernel, std::int32_t value, std::vector<int>& loads) {
  const Instruction& it = kernel.body[static_cast<std::size_t>(value)];
  if (!is_floating(it.dtype)) return false;
  if (it.kind == Kind::load) loads.push_back(it.buffer);
  if (it.kind == Kind::load) return true;
  if (it.kind == Kind::cast) return is_sum(kernel, it.args[0], loads);
  return it.kind == Kind::apply && it.op == Op::add && is_sum(kernel, it.args[0], loads) &&
         is_sum(kernel, it.args[1], loads);
}

// Whether the kernel's function is f of the sum of all that it loads, at some points.
template <class F>
bool is_function_of_sum(const loop::Kernel& kernel, const std::vector<int>& loads, const F& f) {
  constexpr double points[] = {-6.5, -3.1, -1.7, -0.75, -0.1, 0, 0.01, 0.4, 1.1, 2.3, 4.9};
  for (const double x : points)
    for (const double y : points) {
      std::vector<double> loaded(kernel.buffers.size(), 0);
      double sum = 0, next = x;
      for (const int buffer : loads) sum += next, loaded[static_cast<std::size_t>(buffer)] = next, next = y - next / 3;
      const std::optional<double> found = value_at(kernel, loaded);
      if (!found || !(std::abs(*found - f(sum)) <= 1e-6 * (1 + std::abs(f(sum))))) return false;
    }
  return true;
}

std::optional<Activation> activation_of_sum(const loop::Kernel& kernel, const std::vector<int>& loads) {
  const auto store = std::ranges::find(kernel.body, Kind::store, &Instruction::kind);
  std::int32_t value = store->args[0];
  const auto at = [&]() -> const Instruction& { return kernel.body[static_cast<std::size_t>(value)]; };
  while (at().kind == Kind::cast && is_floating(at().dtype)) value = at().args[0];
  const bool is_relu = at().kind == Kind::apply && at().op == Op::relu;
  std::vector<int> summed, wanted = loads;
  if (is_sum(kernel, is_relu ? at().args[0] : value, summed)) {
    std::ranges::sort(summed);
    std::ranges::sort(wanted);
    if (summed == wanted) return is_relu ? Activation::relu : Activation::none;
  }
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto exact_gelu = [](double x) { return 0.5 * x * (1 + std::erf(x * 0.7071067811865476)); };
  if (is_function_of_sum(kernel, loads, silu)) return Activation::silu;
  if (is_function_of_sum(kernel, loads, exact_gelu)) return Activation::gelu;
  if (is_function_of_sum(kernel, loads, gelu)) return Activation::gelu_tanh;
  return {};
}

}  // namespace

std::optional<KnownImageEpilogue> known_image_epilogue(const loop::Kernel& kernel, int image, Dim elements,
                                                       Dim channels) {
  const std::optional<Dim> in_order = index_in_order(kernel, elements);
  if (!in_order) return {};
  const loop::Axis& last = kernel.axes.back();
  const bool walks_channels = loop::over_symbols(last.extent, kernel).same(channels);
  const Dim channel = dims::axis(static_cast<int>(kernel.axes.size()) - 1, last.extent);
  const auto dtype_of = [&](int buffer) { return kernel.buffers[static_cast<std::size_t>(buffer)].dtype; };
  KnownImageEpilogue known{{}, {}, -1};
  std::vector<int> loads, vectors;
  int other = -1;  // the image that is added
  for (const Instruction& it : kernel.body) {
    if (it.kind != Kind::load && it.kind != Kind::store) continue;
    const bool is_of_image = it.index.same(*in_order) && dtype_of(it.buffer) == dtype_of(image);
    if (it.kind == Kind::store) {
      if (known.result >= 0 || !is_of_image) return {};
      known.result = it.buffer;
      continue;
    }
    if (it.args[0] >= 0 || std::ranges::find(loads, it.buffer) != loads.end()) return {};
    loads.push_back(it.buffer);
    if (it.buffer == image) {
      if (!is_of_image) return {};
    } else if (is_of_image && other < 0) {
      other = it.buffer;
    } else if (walks_channels && it.index.same(channel) && (it.dtype == DType::f32 || it.dtype == dtype_of(image))) {
      vectors.push_back(it.buffer);
      known.epilogue.channels.push_back(it.dtype);
    } else {
      return {};
    }
  }
  if (known.result < 0 || std::ranges::find(loads, image) == loads.end()) return {};
  const std::optional<Activation> activation = activation_of_sum(kernel, loads);
  if (!activation || vectors.size() > runtime::cuda::ConvolutionEpilogue::most_channels) return {};
  known.epilogue.activation = *activation;
  known.epilogue.has_image = other >= 0;
  if (other >= 0) known.added.push_back(other);
  known.added.insert(known.added.end(), vectors.begin(), vectors.end());
  if (!known.epilogue.any()) return {};
  return known;
}

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
