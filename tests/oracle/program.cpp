#include "oracle/program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

namespace oracle {

using weft::At;
using weft::Dim;

// ---- inputs ---------------------------------------------------------------------------------------------------------

namespace {
double random_real(DType dtype, Numbers kind, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, 1.5);
  const double x = normal(random);
  const bool special = random() % 6 == 0;
  if (kind == Numbers::positive) return round_to(dtype, static_cast<Wide>(std::fabs(x) + 0.1));
  if (kind == Numbers::special && special) {
    const double tiny = spacing(dtype, 0), most = largest(dtype);
    const double values[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, tiny, -tiny, 3 * tiny, most, -most, 1, -1, 0.5, 2.5};
    return values[random() % std::size(values)];
  }
  if (kind == Numbers::extreme && special) {
    const int range = dtype == DType::f16 ? 14 : dtype == DType::f64 ? 1000 : 120;
    return round_to(dtype, std::ldexp(static_cast<Wide>(x),
                                      static_cast<int>(random() % (2 * static_cast<unsigned>(range))) - range));
  }
  return special ? (random() % 2 ? 0.0 : -0.0) : round_to(dtype, static_cast<Wide>(x));
}
std::int64_t random_integer(DType dtype, Numbers kind, std::mt19937_64& random) {
  if (dtype == DType::boolean) return static_cast<std::int64_t>(random() % 2);
  const bool special = random() % 4 == 0;
  if (kind == Numbers::positive || !is_signed(dtype)) {
    if (kind != Numbers::special || !special) return static_cast<std::int64_t>(random() % 11);
    const std::int64_t most = is_signed(dtype) ? 127 : wrap(dtype, -1);
    return most - static_cast<std::int64_t>(random() % 3);
  }
  if ((kind == Numbers::special || kind == Numbers::extreme) && special) {
    const auto near = static_cast<std::int64_t>(random() % 3);
    const std::int64_t most = INT64_MAX >> (64 - weft::info(dtype).bits), least = -most - 1;
    return random() % 2 ? least + near : most - near;
  }
  return static_cast<std::int64_t>(random() % 11) - 5;
}
}  // namespace

std::vector<Array> make_inputs(const Program& program) {
  std::vector<Array> arrays;
  std::mt19937_64 random(program.seed * 0x9e3779b97f4a7c15ull + 5);
  for (const Input& input : program.inputs) {
    if (input.given != Given::tensor) {
      const auto draw = static_cast<std::int64_t>(random() % 8);
      arrays.push_back(input.given == Given::index ? integer(DType::i64, draw, true)
                                                   : number(DType::f64, 0.4 * static_cast<double>(draw - 3), true));
      continue;
    }
    if (input.alias >= 0) {
      arrays.push_back(arrays[static_cast<std::size_t>(input.alias)]);
      continue;
    }
    Shape shape = input.shape;
    if (input.memory == Memory::expanded && !shape.empty()) shape[shape.size() / 2] = 1;
    Array array = make(input.dtype, shape);
    for (double& value : array.data->reals) value = random_real(input.dtype, input.numbers, random);
    for (std::int64_t& value : array.data->integers) value = random_integer(input.dtype, input.numbers, random);
    arrays.push_back(stop_gradient(expand(array, input.shape)));
  }
  return arrays;
}

Program grown(Program program, std::int64_t more) {
  for (Input& input : program.inputs)
    for (std::int64_t& size : input.shape)
      if (size > 1) size += more;
  return program;
}

namespace {
template <class T, class From>
Tensor from_numbers(const std::vector<From>& numbers, const Shape& shape) {
  std::vector<T> values;
  values.reserve(numbers.size());
  for (From number : numbers) values.push_back(static_cast<T>(number));
  return weft::from_span(std::span<const T>(values), shape);
}
std::uint16_t half_bits(DType dtype, double value) {
  Array x = make(dtype, {});
  x.data->reals[0] = value;
  if (dtype == DType::bf16)
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
  const unsigned sign = std::signbit(value) ? 0x8000u : 0;
  if (value != value) return static_cast<std::uint16_t>(sign | 0x7e00u);
  value = std::fabs(value);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (value < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<unsigned>(value * 0x1p24));
  const int e = std::ilogb(value);
  return static_cast<std::uint16_t>(
      sign | ((static_cast<unsigned>(e + 14) << 10) + static_cast<unsigned>(std::ldexp(value, 10 - e))));
}
double half_value(DType dtype, std::uint16_t bits) {
  if (dtype == DType::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  const int e = bits >> 10 & 31, m = bits & 1023;
  const double value = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024 + m, e - 25) : std::ldexp(m, -24);
  return bits >> 15 ? -value : value;
}
Tensor plain(const Array& array) {
  const Shape& shape = array->shape;
  switch (array->dtype) {
    case DType::f32: return from_numbers<float>(array->reals, shape);
    case DType::f64: return from_numbers<double>(array->reals, shape);
    case DType::i64: return from_numbers<std::int64_t>(array->integers, shape);
    case DType::i32: return from_numbers<std::int32_t>(array->integers, shape);
    case DType::u8: return from_numbers<std::uint8_t>(array->integers, shape);
    case DType::i8: return from_numbers<std::int8_t>(array->integers, shape);
    case DType::i16: return from_numbers<std::int16_t>(array->integers, shape);
    case DType::u16: return from_numbers<std::uint16_t>(array->integers, shape);
    case DType::u32: return from_numbers<std::uint32_t>(array->integers, shape);
    case DType::boolean: {
      auto values = std::make_unique<bool[]>(array->integers.size() + 1);
      for (std::size_t i = 0; i < array->integers.size(); ++i) values[i] = array->integers[i] != 0;
      return weft::from_span(std::span<const bool>(values.get(), array->integers.size()), shape);
    }
    default: break;
  }
  const auto convert = [&]<class Half>(Half) {
    std::vector<Half> values;
    for (double value : array->reals) values.push_back(Half::from_bits(half_bits(array->dtype, value)));
    return weft::from_span(std::span<const Half>(values), shape);
  };
  return array->dtype == DType::f16 ? convert(weft::float16{}) : convert(weft::bfloat16{});
}
}  // namespace

Tensor make_tensor(const Array& array, Memory memory) {
  const int rank = array.rank();
  Tensor tensor;
  if (rank == 0 || memory == Memory::plain)
    tensor = plain(array);
  else if (memory == Memory::transposed)
    tensor = weft::transpose(plain(transpose(array, 0, -1)), 0, -1);
  else if (memory == Memory::flipped)
    tensor = weft::flip(plain(flip(array, -1)), -1);
  else if (memory == Memory::offset)
    tensor = weft::slice(weft::slice(plain(pad(array, 0, 2, 3, 0)), 0, 1, weft::slice_end), 0, 1, -3);
  else if (memory == Memory::expanded && array.count() > 0)
    tensor = weft::expand(plain(slice(array, rank / 2, 0, 1, 1)), array->shape);
  else if (array.count() > 0)
    tensor = weft::slice(plain(pad(array, -1, 1, 1, 1)), -1, 1, -1, 2);
  else
    tensor = plain(array);
  return tensor;
}

Array read(const Tensor& tensor) {
  Shape shape;
  for (Dim size : tensor.shape()) shape.push_back(static_cast<std::int64_t>(size));
  Array array = make(tensor.dtype(), shape);
  const auto numbers = [&]<class T>(T, auto& to) {
    const weft::View<const T> view = tensor.data<T>();
    for (std::size_t i = 0; i < view.size(); ++i) {
      if constexpr (std::is_arithmetic_v<T>)
        to[i] = view[i];
      else
        to[i] = half_value(tensor.dtype(), view[i].bits);
    }
  };
  switch (tensor.dtype()) {
    case DType::f32: numbers(float{}, array.data->reals); break;
    case DType::f64: numbers(double{}, array.data->reals); break;
    case DType::f16: numbers(weft::float16{}, array.data->reals); break;
    case DType::bf16: numbers(weft::bfloat16{}, array.data->reals); break;
    case DType::i64: numbers(std::int64_t{}, array.data->integers); break;
    case DType::i32: numbers(std::int32_t{}, array.data->integers); break;
    case DType::u8: numbers(std::uint8_t{}, array.data->integers); break;
    case DType::i8: numbers(std::int8_t{}, array.data->integers); break;
    case DType::i16: numbers(std::int16_t{}, array.data->integers); break;
    case DType::u16: numbers(std::uint16_t{}, array.data->integers); break;
    case DType::u32: numbers(std::uint32_t{}, array.data->integers); break;
    case DType::boolean: numbers(bool{}, array.data->integers); break;
    case DType::f8e4m3:
    case DType::f8e5m2: throw Refused("read");  // programs have none: nothing is computed in them
  }
  return array;
}

// ---- replay ---------------------------------------------------------------------------------------------------------

namespace {
Tensor run_call(const Call& call, const std::vector<Tensor>& values) {
  std::vector<At> arguments;
  for (const Argument& argument : call.arguments) {
    switch (argument.kind) {
      case Argument::Kind::value: arguments.emplace_back(values[static_cast<std::size_t>(argument.value)]); break;
      case Argument::Kind::real: arguments.emplace_back(argument.real); break;
      case Argument::Kind::whole: arguments.emplace_back(argument.whole); break;
      case Argument::Kind::boolean: arguments.emplace_back(argument.whole != 0); break;
    }
  }
  std::vector<Dim> numbers;
  for (std::int64_t number : call.numbers) {
    const std::int64_t code = number - first_size;
    numbers.push_back(is_size(number) ? values[static_cast<std::size_t>(code / 8)].size(static_cast<int>(code % 8))
                                      : Dim(number));
  }
  return functions()[static_cast<std::size_t>(call.function)].on_tensors(arguments, numbers, call);
}
Array run_call(const Call& call, const std::vector<Array>& values) {
  std::vector<Array> arguments;
  for (const Argument& argument : call.arguments) {
    switch (argument.kind) {
      case Argument::Kind::value: arguments.push_back(values[static_cast<std::size_t>(argument.value)]); break;
      case Argument::Kind::real: arguments.push_back(number(DType::f64, argument.real, true)); break;
      case Argument::Kind::whole: arguments.push_back(integer(DType::i64, argument.whole, true)); break;
      case Argument::Kind::boolean: arguments.push_back(integer(DType::boolean, argument.whole, true)); break;
    }
  }
  Shape numbers;
  for (std::int64_t number : call.numbers) {
    const std::int64_t code = number - first_size;
    if (!is_size(number)) {
      numbers.push_back(number);
      continue;
    }
    const Shape& shape = values[static_cast<std::size_t>(code / 8)]->shape;
    const auto axis = static_cast<std::size_t>(code % 8);
    if (axis >= shape.size()) throw Refused("size");
    numbers.push_back(shape[axis]);
  }
  return functions()[static_cast<std::size_t>(call.function)].on_arrays(arguments, numbers, call);
}

// The operations that replaying itself needs, for tensors and for arrays.
struct OnTensors {
  static bool floating(const Tensor& x) { return weft::is_floating(x.dtype()); }
  static Tensor mean_of(const Tensor& x) { return weft::mean(weft::cast(x, DType::f32)); }
  static Tensor mean_square(const Tensor& x) { return weft::mean(weft::square(weft::cast(x, DType::f32))); }
  static Tensor sum(const Tensor& a, const Tensor& b) { return a + b; }
  static std::vector<Tensor> gradients(auto&& loss, const std::vector<Tensor>& places) {
    std::vector<Tensor> result = weft::grad(loss, places);
    for (std::size_t i = 0; i < result.size(); ++i)
      if (!result[i].defined()) result[i] = weft::zeros_like(places[i]);
    return result;
  }
};
struct OnArrays {
  static bool floating(const Array& x) { return x.floating(); }
  static Array mean_of(const Array& x) {
    Soft soft;
    return reduce("mean", cast(x, DType::f32), {}, false);
  }
  static Array mean_square(const Array& x) {
    Soft soft;
    return reduce("mean", unary("square", cast(x, DType::f32)), {}, false);
  }
  static Array sum(const Array& a, const Array& b) {
    Soft soft;
    return binary("add", a, b);
  }
  static std::vector<Array> gradients(auto&& loss, const std::vector<Array>& places) {
    std::vector<Array> fresh;
    for (const Array& place : places) fresh.push_back(variable(place));
    return oracle::gradients(loss(fresh), fresh);
  }
};
}  // namespace

Array apply(const Program&, const Call& call, const std::vector<Array>& values) { return run_call(call, values); }

namespace {
std::vector<bool> read_values(const Program& program) {
  std::vector<bool> read(program.inputs.size() + program.calls.size(), false);
  for (const Call& call : program.calls)
    for (const Argument& argument : call.arguments)
      if (argument.kind == Argument::Kind::value) read[static_cast<std::size_t>(argument.value)] = true;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) read[i] = true;
  return read;
}

}  // namespace

int result_count(const Program& program) {
  const std::vector<bool> read = read_values(program);
  return static_cast<int>(std::count(read.begin(), read.end(), false));
}

namespace {
template <class On, class Value>
std::vector<Value> replay_on(const Program& program, std::vector<Value>& inputs) {
  const std::vector<bool> read = read_values(program);
  const auto body = [&](std::vector<Value> values) {
    for (const Call& call : program.calls) values.push_back(run_call(call, values));
    return values;
  };
  const std::vector<Value> values = body(inputs);
  std::vector<Value> results;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!read[i]) results.push_back(values[i]);
  bool differentiable = false;
  for (const Value& result : results) differentiable |= On::floating(result);
  if (program.derivative > 0 && differentiable) {
    std::vector<Value> places;
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (On::floating(inputs[i]) && program.inputs[i].given == Given::tensor) {
        places.push_back(inputs[i]);
        positions.push_back(i);
      }
    const auto loss = [&](const std::vector<Value>& at) {
      std::vector<Value> all = inputs;
      for (std::size_t i = 0; i < at.size(); ++i) all[positions[i]] = at[i];
      all = body(all);
      Value total;
      bool first = true;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (read[i] || !On::floating(all[i])) continue;
        const Value part = On::mean_of(all[i]);
        total = first ? part : On::sum(total, part);
        first = false;
      }
      return total;
    };
    std::vector<Value> gradients;
    if (program.derivative == 1) {
      gradients = On::gradients(loss, places);
    } else {
      const auto outer = [&](const std::vector<Value>& at) {
        std::vector<Value> inner = On::gradients(loss, at);
        Value total = On::mean_square(inner[0]);
        for (std::size_t i = 1; i < inner.size(); ++i) total = On::sum(total, On::mean_square(inner[i]));
        return total;
      };
      gradients = On::gradients(outer, places);
    }
    results.insert(results.end(), gradients.begin(), gradients.end());
  }
  if (program.swap) std::swap(inputs[0], inputs[1]);
  if (program.written >= 0) inputs[0] = values[static_cast<std::size_t>(program.written)];
  return results;
}
}  // namespace

std::vector<Tensor> replay(const Program& program, std::vector<Tensor>& inputs) {
  return replay_on<OnTensors>(program, inputs);
}
std::vector<Array> replay(const Program& program, std::vector<Array>& inputs) {
  return replay_on<OnArrays>(program, inputs);
}

// ---- text -----------------------------------------------------------------------------------------------------------

namespace {
std::string name_of(const Program& program, int value) {
  const int inputs = static_cast<int>(program.inputs.size());
  return value < inputs ? "x" + std::to_string(value) : "v" + std::to_string(value - inputs);
}
std::string text_of(const Program& program, std::int64_t number) {
  const std::int64_t code = number - first_size;
  if (is_size(number)) return name_of(program, static_cast<int>(code / 8)) + ".size(" + std::to_string(code % 8) + ")";
  return number == slice_end ? "slice_end" : std::to_string(number);
}
std::string text_of(const Program& program, const Argument& argument) {
  if (argument.kind == Argument::Kind::value) return name_of(program, argument.value);
  if (argument.kind == Argument::Kind::whole) return std::to_string(argument.whole);
  if (argument.kind == Argument::Kind::boolean) return argument.whole ? "true" : "false";
  if (argument.real != argument.real) return "NAN";
  if (std::isinf(argument.real)) return argument.real > 0 ? "INFINITY" : "-INFINITY";
  std::ostringstream text;
  text.precision(17);
  text << argument.real;
  return text.str() + (text.str().find_first_of(".en") == std::string::npos ? ".0" : "");
}
}  // namespace

std::string to_text(const Program& program) {
  static const char* memory[] = {"",          ", every second element", ", transposed",
                                 ", flipped", ", a slice of a slice",   ", expanded"};
  static const char* numbers[] = {"", ", positive", ", special values", ", extreme values"};
  std::ostringstream text;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    if (input.given != Given::tensor) {
      const Array value = make_inputs(program)[i];
      text << "// x" << i << ": " << (value.floating() ? "Scalar " : "Index ");
      (value.floating() ? text << value->reals[0] : text << value->integers[0]) << '\n';
      continue;
    }
    text << "// x" << i << ": " << to_string(Array{make(input.dtype, input.shape)});
    if (input.alias >= 0) text << ", the same tensor as x" << input.alias;
    text << memory[static_cast<int>(input.memory)] << numbers[static_cast<int>(input.numbers)]
         << (static_cast<int>(i) < program.states ? ", state" : "") << '\n';
  }
  for (std::size_t i = 0; i < program.calls.size(); ++i) {
    const Call& call = program.calls[i];
    text << "Tensor v" << i << " = ";
    const auto list = [&](std::size_t first) {
      for (std::size_t k = first; k < call.numbers.size(); ++k)
        text << (k > first ? ", " : "") << text_of(program, call.numbers[k]);
    };
    for (const char* at = functions()[static_cast<std::size_t>(call.function)].text; *at; ++at) {
      if (*at == '$' && at[1] == '*') {
        for (std::size_t k = 0; k < call.arguments.size(); ++k)
          text << (k ? ", " : "") << text_of(program, call.arguments[k]);
        ++at;
      } else if (*at == '$') {
        text << text_of(program, call.arguments[static_cast<std::size_t>(*++at - '0')]);
      } else if (*at == '#') {
        const auto first = static_cast<std::size_t>(*++at - '0');
        if (at[1] == '*')
          list(first), ++at;
        else
          text << text_of(program, call.numbers[first]);
      } else if (*at == '?') {
        text << (call.numbers[static_cast<std::size_t>(*++at - '0')] ? "true" : "false");
      } else if (*at == '@') {
        text << "DType::" << (call.dtype == DType::boolean ? "boolean" : weft::info(call.dtype).name);
      } else {
        text << *at;
      }
    }
    text << ";\n";
  }
  if (program.derivative)
    text << "// and derivatives of order " << program.derivative << " of the mean of every floating result\n";
  if (program.swap) text << "std::swap(x0, x1);\n";
  if (program.written >= 0) text << "x0 = " << name_of(program, program.written) << ";\n";
  return text.str();
}

}  // namespace oracle
