#include "tests/codegen/cpp_support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "base/fail.hpp"
#include "base/options.hpp"
#include "codegen/cpp.hpp"
#include "interpret/reference_math.hpp"
#include "interpret/reference_number.hpp"
#include "runtime/host/jit.hpp"
#include "tests/codegen/cuda_support.hpp"
#include "tests/cuda/device.hpp"

namespace weft::test {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;
using loop::Level;

// ---- building -------------------------------------------------------------------------------------------------------

Dim KernelBuilder::axis(Dim extent, bool inner) {
  kernel_.axes.push_back({extent, inner});
  return dims::axis(static_cast<int>(kernel_.axes.size()) - 1, extent);
}
int KernelBuilder::buffer(DType dtype, Dim elements, bool written) {
  kernel_.buffers.push_back({dtype, written, -1, elements});
  return static_cast<int>(kernel_.buffers.size()) - 1;
}
int KernelBuilder::add(Instruction it) {
  const auto read = [&](const Instruction& operand) {
    it.level = std::max(it.level, operand.level);
    it.phase = std::max(it.phase, operand.phase);
  };
  for (const std::int32_t arg : it.args)
    if (arg >= 0) read(at(arg));
  dims::any_atom(it.index, [&](const DimNode& node) {
    if (node.kind == DimKind::value) read(at(node.number));
    if (node.kind == DimKind::axis) {
      const bool inner = kernel_.axes[static_cast<std::size_t>(node.number)].inner;
      it.level = std::max(it.level, inner ? Level::inner : Level::outer);
    }
    return false;
  });
  if (it.kind == Kind::reduce) {
    it.level = Level::outer;
    ++it.phase;
  }
  kernel_.body.push_back(it);
  return static_cast<int>(kernel_.body.size()) - 1;
}
int KernelBuilder::constant(DType dtype, double value) {
  const std::uint64_t bits =
      is_floating(dtype) ? std::bit_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(static_cast<Int>(value));
  return add({.kind = Kind::constant, .dtype = dtype, .bits = bits});
}
int KernelBuilder::load(int buffer, Dim index) {
  return add({.kind = Kind::load,
              .dtype = kernel_.buffers[static_cast<std::size_t>(buffer)].dtype,
              .buffer = buffer,
              .index = index});
}
int KernelBuilder::apply(Op op, int a, int b, int c) {
  const DTypeClass dtypes = info(op).dtypes;
  DType dtype = at(dtypes == DTypeClass::select ? b : a).dtype;
  if (dtypes == DTypeClass::comparison || dtypes == DTypeClass::predicate) dtype = DType::boolean;
  return add({.kind = Kind::apply, .op = op, .dtype = dtype, .args = {a, b, c}});
}
int KernelBuilder::reduce(Op op, int a, Dim position) {
  DType dtype = at(a).dtype;
  if (op == Op::argmax || ((op == Op::sum || op == Op::prod) && !is_floating(dtype))) dtype = DType::i64;
  return add({.kind = Kind::reduce, .op = op, .dtype = dtype, .args = {a, -1, -1}, .index = position});
}
void KernelBuilder::store(int buffer, Dim index, int a) {
  add({.kind = Kind::store, .dtype = at(a).dtype, .args = {a, -1, -1}, .buffer = buffer, .index = index});
}
Kernel KernelBuilder::kernel() const {
  loop::verify(kernel_);
  return kernel_;
}

// ---- plain loops ----------------------------------------------------------------------------------------------------

namespace {

struct Number {
  double real = 0;
  Int integer = 0;
  double error = 0;  // that rounding in the kernel's dtype can have made so far
};

double unit_of(DType dtype) { return dtype == DType::f64 ? 0x1p-53 : 0x1p-24; }

template <DTypeClass Class, class F>
Number apply_table(F f, DType dtype, const Number* x) {
  Number result;
  if constexpr (Class == DTypeClass::select) {
    return x[0].integer ? x[1] : x[2];
  } else if constexpr (Class == DTypeClass::floating || Class == DTypeClass::predicate) {
    const auto value = f(x[0].real, x[1].real, x[2].real);
    result.real = static_cast<double>(value);
    result.integer = value != 0;
  } else if constexpr (Class == DTypeClass::bits || Class == DTypeClass::integers) {
    result.integer = static_cast<Int>(f(__int128{x[0].integer}, __int128{x[1].integer}, __int128{x[2].integer}));
  } else if (is_floating(dtype)) {
    const auto value = f(x[0].real, x[1].real, x[2].real);
    result.real = static_cast<double>(value);
    result.integer = value != 0;
  } else {
    result.integer = static_cast<Int>(f(__int128{x[0].integer}, __int128{x[1].integer}, __int128{x[2].integer}));
  }
  return result;
}
Number apply_exactly(Op op, DType dtype, const Number* x) {
  switch (op) {
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, reference, ...)      \
  case Op::name:                                                                        \
    return apply_table<DTypeClass::dtypes>(                                             \
        []([[maybe_unused]] auto a, [[maybe_unused]] auto b, [[maybe_unused]] auto c) { \
          using namespace weft;                                                         \
          return reference;                                                             \
        },                                                                              \
        dtype, x);
#include "weft/ops.def"
    default: throw_internal({}, "not pointwise");
  }
}

// How far errors of the operands move the result, found by moving them; and four units in its last place for the
// function itself.
Number apply(Op op, DType operand, DType result, const Number* x, int count) {
  Number y = apply_exactly(op, operand, x);
  if (result == DType::boolean) y.integer = y.integer & 1;
  if (is_integer(result)) y.integer = reference::wrap(result, y.integer);
  if (!is_floating(result) || op == Op::where) return y;
  for (int i = 0; i < count; ++i)
    for (const double side : {-1.0, 1.0}) {
      Number moved[3] = {x[0], x[1], x[2]};
      moved[i].real += side * x[i].error;
      const double distance = std::fabs(apply_exactly(op, operand, moved).real - y.real);
      if (std::isfinite(distance)) y.error = std::max(y.error, count * distance);
    }
  const bool sums = op == Op::lgamma || op == Op::digamma || op == Op::polygamma;  // of terms that may cancel
  y.error += unit_of(result) * (sums ? 16 + 64 * std::fabs(y.real) : 8 * std::fabs(y.real));
  return y;
}

class Interpreter {
 public:
  Interpreter(Trial& trial, std::vector<std::vector<Number>>& outputs)
      : trial_(trial), kernel_(trial.kernel), outputs_(outputs) {}

  void run() {
    std::vector<int> outer, inner;
    for (int a = 0; a < static_cast<int>(kernel_.axes.size()); ++a)
      (kernel_.axes[static_cast<std::size_t>(a)].inner ? inner : outer).push_back(a);
    point_.assign(kernel_.axes.size(), 0);
    const Int outer_count = dims::evaluate(kernel_.outer_count(), trial_.sizes);
    inner_count_ = dims::evaluate(kernel_.inner_count(), trial_.sizes);
    for (Int o = 0; o < outer_count; ++o) {
      move(outer, o);
      values_.assign(kernel_.body.size(), {});
      for (std::size_t i = 0; i < kernel_.body.size(); ++i) {
        const Instruction& it = kernel_.body[i];
        const bool is_inner = it.level == Level::inner;
        values_[i].resize(is_inner ? static_cast<std::size_t>(inner_count_) : 1);
        for (std::size_t p = 0; p < values_[i].size(); ++p) {
          move(inner, static_cast<Int>(p));
          values_[i][p] = it.kind == Kind::reduce ? reduce(it, inner, inner_count_)
                          : it.kind == Kind::scan ? reduce(it, inner, static_cast<Int>(p) + 1)
                                                  : value(it, p);
        }
      }
    }
  }

 private:
  void move(const std::vector<int>& axes, Int flat) {
    for (std::size_t i = axes.size(); i-- > 0;) {
      const Int extent = dims::evaluate(kernel_.axes[static_cast<std::size_t>(axes[i])].extent, trial_.sizes);
      if (extent == 0) continue;
      point_[static_cast<std::size_t>(axes[i])] = flat % extent;
      flat /= extent;
    }
  }
  const Number& read(int i, std::size_t p) const {
    const std::vector<Number>& values = values_[static_cast<std::size_t>(i)];
    return values[values.size() == 1 ? 0 : p];
  }
  Int index(Dim dim, std::size_t p) const {
    return dims::evaluate(dim, [&](const DimNode* atom) {
      if (atom->kind == DimKind::symbol) return trial_.sizes[static_cast<std::size_t>(atom->number)];
      return atom->kind == DimKind::axis ? point_[static_cast<std::size_t>(atom->number)]
                                         : read(atom->number, p).integer;
    });
  }
  Number element(const Instruction& it, Int at) const {
    const std::byte* data = trial_.buffers[static_cast<std::size_t>(it.buffer)].data();
    Number x;
    const auto get = [&]<class T>(T) {
      T value;
      std::memcpy(&value, data + at * static_cast<Int>(sizeof(T)), sizeof value);
      x.real = static_cast<double>(value);
      x.integer = is_floating(it.dtype) ? 0 : static_cast<Int>(value);
    };
    switch (it.dtype) {
      case DType::f32: get(float()); break;
      case DType::f64: get(double()); break;
      case DType::i64: get(Int()); break;
      case DType::i32: get(std::int32_t()); break;
      case DType::u32: get(std::uint32_t()); break;
      case DType::i16: get(std::int16_t()); break;
      case DType::u16: get(std::uint16_t()); break;
      case DType::i8: get(std::int8_t()); break;
      default: get(std::uint8_t()); break;
    }
    return x;
  }
  Number cast(DType to, DType from, Number x) const {
    if (!is_floating(from)) x.real = static_cast<double>(x.integer);
    if (to == DType::boolean)
      x.integer = is_floating(from) ? x.real != 0 : x.integer != 0;
    else if (is_floating(from) && !is_floating(to))
      x.integer = static_cast<Int>(x.real);
    if (is_integer(to)) x.integer = reference::wrap(to, x.integer);
    x.error = is_floating(to) ? x.error + unit_of(to) * std::fabs(x.real) : 0;
    return x;
  }
  Number value(const Instruction& it, std::size_t p) {
    switch (it.kind) {
      case Kind::constant: {
        Number x;
        x.real = std::bit_cast<double>(it.bits);
        x.integer = static_cast<Int>(it.bits);
        if (it.dtype == DType::f32) x.real = static_cast<float>(x.real);
        return x;
      }
      case Kind::index: return {0, index(it.index, p), 0};
      case Kind::test: return {0, index(it.index, p) >= 0, 0};
      case Kind::load:
        if (it.args[0] >= 0 && !read(it.args[0], p).integer) return {};
        return element(it, index(it.index, p));
      case Kind::apply: {
        Number x[3];
        const int count = info(it.op).arity;
        for (int a = 0; a < count; ++a) x[a] = read(it.args[a], p);
        return apply(it.op, kernel_.body[static_cast<std::size_t>(it.args[it.op == Op::where])].dtype, it.dtype, x,
                     count);
      }
      case Kind::cast:
        return cast(it.dtype, kernel_.body[static_cast<std::size_t>(it.args[0])].dtype, read(it.args[0], p));
      case Kind::store: {
        const Int at = index(it.index, p);
        std::vector<Number>& output = outputs_[static_cast<std::size_t>(it.buffer)];
        output.at(static_cast<std::size_t>(at)) = read(it.args[0], p);
        return {};
      }
      default: throw_internal({}, "not interpreted");
    }
  }
  Number product(const Instruction& it, std::size_t p) {
    Number both[3] = {read(it.args[0], p), read(it.args[1], p), {}};
    return apply(Op::mul, it.dtype, it.dtype, both, 2);
  }
  // Of an online sum.
  Number term(const Instruction& it, std::size_t p) {
    Number both[3] = {read(it.args[0], p), read(it.args[1], p), {}};
    both[0] = apply(Op::sub, it.dtype, it.dtype, both, 2);
    both[0] = apply(Op::exp, it.dtype, it.dtype, both, 1);
    if (it.args[2] < 0) return both[0];
    both[1] = read(it.args[2], p);
    return apply(Op::mul, it.dtype, it.dtype, both, 2);
  }
  // Over the first `count` points of the inner axes.
  Number reduce(const Instruction& it, const std::vector<int>& inner, Int count) {
    const DType dtype = kernel_.body[static_cast<std::size_t>(it.args[0])].dtype;
    Number total;
    double magnitude = 0;
    if (it.op == Op::prod) total.real = total.integer = 1;
    if (it.op == Op::amax || it.op == Op::amin) total = read(it.args[0], 0);
    // A product adds all of a row one after the other.
    const double in_order = it.is(loop::ReductionKind::product) ? 1 + static_cast<double>(count) / 80 : 1;
    // Partial sums of an online sum are scaled when a greater element comes, and when joined.
    const double scaled = in_order * (it.is(loop::ReductionKind::online) ? 4 : 1);
    Number best = inner_count_ ? read(it.args[0], 0) : Number();
    for (Int p = 0; p < count; ++p) {
      const auto point = static_cast<std::size_t>(p);
      const Number x = it.is(loop::ReductionKind::product)  ? product(it, point)
                       : it.is(loop::ReductionKind::online) ? term(it, point)
                                                            : read(it.args[0], point);
      move(inner, p);
      switch (it.op) {
        case Op::sum:
          total.real += x.real;
          total.integer =
              static_cast<Int>(static_cast<std::uint64_t>(total.integer) + static_cast<std::uint64_t>(x.integer));
          total.error += x.error;
          magnitude += std::fabs(x.real);
          break;
        case Op::prod:
          total.error = std::fabs(total.real) * x.error + std::fabs(x.real) * total.error +
                        unit_of(dtype) * std::fabs(total.real * x.real);
          total.real *= x.real;
          total.integer =
              static_cast<Int>(static_cast<std::uint64_t>(total.integer) * static_cast<std::uint64_t>(x.integer));
          break;
        case Op::argmax: {
          const bool greater = is_floating(dtype) ? x.real > best.real || (x.real != x.real && best.real == best.real)
                                                  : x.integer > best.integer;
          if (p == 0 || greater) {
            best = x;
            total.integer = index(it.index, static_cast<std::size_t>(p));
          }
          break;
        }
        case Op::logcumsumexp: {
          const double apart = total.real == x.real ? 0 : std::fabs(total.real - x.real), error = total.error;
          const bool first = p == 0;
          total.real = first ? x.real : std::max(total.real, x.real) + std::log1p(std::exp(-apart));
          total.error = first ? x.error : std::max(error, x.error) + 8 * unit_of(dtype) * (1 + std::fabs(total.real));
          break;
        }
        default: {
          const double error = std::max(total.error, x.error);
          const bool max = it.op == Op::amax;
          total.real = max ? reference::maximum(total.real, x.real) : reference::minimum(total.real, x.real);
          total.integer = max ? std::max(total.integer, x.integer) : std::min(total.integer, x.integer);
          total.error = error;
        }
      }
    }
    // Within a chunk of 4096, 16 additions on each lane, 2 and 4 to join them; of columns 64. Then in double.
    if (it.op == Op::sum) total.error += scaled * 80 * unit_of(it.dtype) * magnitude;
    return total;
  }

  Trial& trial_;
  const Kernel& kernel_;
  std::vector<std::vector<Number>>& outputs_;
  std::vector<Int> point_;
  std::vector<std::vector<Number>> values_;
  Int inner_count_ = 0;
};

}  // namespace

// ---- trials ---------------------------------------------------------------------------------------------------------

Trial::Trial(Kernel the_kernel, std::vector<Int> the_sizes, Int below, unsigned seed)
    : kernel(std::move(the_kernel)), sizes(std::move(the_sizes)) {
  if (sizes.empty())
    for (const Dim parameter : kernel.parameters) sizes.push_back(parameter.constant());
  std::mt19937_64 generator(seed);
  for (const loop::Buffer& buffer : kernel.buffers) {
    const Int count = dims::evaluate(buffer.elements, sizes);
    std::vector<std::byte> bytes(storage_bytes(buffer.dtype, count) + 1);
    const auto put = [&](Int i, auto value) {
      std::memcpy(bytes.data() + i * static_cast<Int>(sizeof value), &value, sizeof value);
    };
    for (Int i = 0; i < count && !buffer.written; ++i) {
      double uniform = std::uniform_real_distribution<double>(-2, 2)(generator);
      if (generator() % 8 == 0) uniform = std::copysign(0.0, uniform);
      const auto whole = static_cast<Int>(generator() % static_cast<std::uint64_t>(below));
      switch (buffer.dtype) {
        case DType::f32: put(i, static_cast<float>(uniform)); break;
        case DType::f64: put(i, uniform); break;
        case DType::i64: put(i, whole); break;
        case DType::i32: put(i, static_cast<std::int32_t>(whole - 3)); break;
        case DType::u32: put(i, static_cast<std::uint32_t>(whole - 3)); break;
        case DType::i16: put(i, static_cast<std::int16_t>(whole - 3)); break;
        case DType::u16: put(i, static_cast<std::uint16_t>(whole - 3)); break;
        case DType::i8: put(i, static_cast<std::int8_t>(generator())); break;
        case DType::u8: put(i, static_cast<std::uint8_t>(generator())); break;
        default: put(i, static_cast<std::uint8_t>(whole & 1)); break;
      }
    }
    buffers.push_back(std::move(bytes));
  }
}

Int Trial::units() const { return dims::evaluate(loop::unit_count(kernel), sizes); }

void Trial::run(runtime::KernelFunction function, int pieces) {
  std::vector<void*> pointers;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (kernel.buffers[b].written) std::fill(buffers[b].begin(), buffers[b].end(), std::byte{0xAB});
    pointers.push_back(buffers[b].data());
  }
  const Int all = units();
  for (int piece = 0; piece < pieces; ++piece) {
    const Int begin = all * piece / pieces, end = all * (piece + 1) / pieces;
    if (begin < end) function(pointers.data(), sizes.data(), begin, end);
  }
}

std::string Trial::compare() {
  std::vector<std::vector<Number>> outputs(buffers.size());
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const loop::Buffer& buffer = kernel.buffers[b];
    if (buffer.written)
      outputs[b].assign(static_cast<std::size_t>(dims::evaluate(buffer.elements, sizes)), {NAN, INT64_MIN, 0});
  }
  Interpreter(*this, outputs).run();
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const DType dtype = kernel.buffers[b].dtype;
    if (kernel.buffers[b].written && buffers[b].back() != std::byte{0xAB}) return kernel.name + ": wrote past the end";
    for (std::size_t i = 0; i < outputs[b].size(); ++i) {
      const Number& want = outputs[b][i];
      double real = 0;
      Int integer = 0;
      switch (dtype) {
        case DType::f32: real = data<float>(static_cast<int>(b))[i]; break;
        case DType::f64: real = data<double>(static_cast<int>(b))[i]; break;
        case DType::i64: integer = data<Int>(static_cast<int>(b))[i]; break;
        case DType::i32: integer = data<std::int32_t>(static_cast<int>(b))[i]; break;
        case DType::u32: integer = data<std::uint32_t>(static_cast<int>(b))[i]; break;
        case DType::i16: integer = data<std::int16_t>(static_cast<int>(b))[i]; break;
        case DType::u16: integer = data<std::uint16_t>(static_cast<int>(b))[i]; break;
        case DType::i8: integer = data<std::int8_t>(static_cast<int>(b))[i]; break;
        default: integer = data<std::uint8_t>(static_cast<int>(b))[i]; break;
      }
      const double tiny = dtype == DType::f64 ? 0x1p-1070 : 0x1p-145;
      const bool same = !is_floating(dtype)                              ? integer == want.integer
                        : real == 0 && want.real == 0 && want.error == 0 ? std::signbit(real) == std::signbit(want.real)
                        : std::isnan(want.real) || std::isnan(real)
                            ? std::isnan(want.real) == std::isnan(real)
                            : real == want.real || std::fabs(real - want.real) <=
                                                       want.error + unit_of(dtype) * std::fabs(want.real) + tiny;
      if (!same)
        return concat_text(kernel.name, ": element ", i, " of buffer ", b, " is ",
                           is_floating(dtype) ? real : static_cast<double>(integer), ", should be ",
                           is_floating(dtype) ? want.real : static_cast<double>(want.integer), " within ", want.error);
    }
  }
  return {};
}

std::vector<runtime::KernelFunction> compile_all(const std::vector<Trial>& trials, Isa isa,
                                                 std::shared_ptr<Library>& library) {
  std::vector<Kernel> kernels;
  for (const Trial& trial : trials) {
    const bool known = std::any_of(kernels.begin(), kernels.end(),
                                   [&](const Kernel& kernel) { return kernel.name == trial.kernel.name; });
    if (!known) kernels.push_back(trial.kernel);
  }
  library = jit({codegen::cpp_units(kernels, unit_count(kernels.size())), isa, {}});
  std::vector<runtime::KernelFunction> functions;
  for (const Trial& trial : trials)
    functions.push_back(library->function<void(void* const*, const Int*, Int, Int)>(trial.kernel.name.c_str()));
  return functions;
}

void check_all(std::vector<Trial>& trials) {
  std::shared_ptr<Library> library;
  const std::vector<runtime::KernelFunction> functions = compile_all(trials, host_isa(), library);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    trials[i].run(functions[i]);
    const std::string difference = trials[i].compare();
    CHECK_MESSAGE(difference.empty(), difference);
  }
  if (options().nvrtc_check) check_cuda_compiles(trials);
  if (on_device()) check_on_device(trials);
}

}  // namespace weft::test
