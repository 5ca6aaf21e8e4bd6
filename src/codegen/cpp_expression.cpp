#include "codegen/cpp_expression.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/fail.hpp"

namespace weft::codegen {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;

namespace {

struct TypeText {
  const char* memory;
  const char* element;
};
TypeText type_text(DType dtype) {
  switch (dtype) {
    case DType::boolean: return {"bool", "uint8"};
    case DType::u8: return {"uint8", "uint8"};
    case DType::i8: return {"narrow_i8", "int"};
    case DType::i16: return {"narrow_i16", "int"};
    case DType::u16: return {"narrow_u16", "int"};
    case DType::u32: return {"narrow_u32", "long"};
    case DType::i32: return {"int", "int"};
    case DType::i64: return {"long", "long"};
    case DType::f16: return {"float16", "float"};
    case DType::bf16: return {"bfloat16", "float"};
    case DType::f32: return {"float", "float"};
    case DType::f64: return {"double", "double"};
    case DType::f8e4m3: return {"float8_e4m3fn", "float"};
    case DType::f8e5m2: return {"float8_e5m2", "float"};
  }
  return {};
}

// Lies in memory as another type than it has on lanes: the 16-bit floats, the integers that are computed wider.
bool is_narrow(DType dtype) { return computed_in(dtype) != dtype; }

std::string v(std::int32_t i) { return "v" + std::to_string(i); }

bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

template <class T>
std::string hexadecimal(T value, const char* suffix) {
  if (std::isnan(value)) return std::string("__builtin_nan") + suffix + "(\"\")";
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + "__builtin_inf" + suffix + "()";
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, std::fabs(value), std::chars_format::hex).ptr;
  return (std::signbit(value) ? "-0x" : "0x") + std::string(digits, end) + suffix;
}

}  // namespace

std::string spell(std::string_view lanes, const std::int32_t* args) {
  std::string text;
  for (std::size_t i = 0; i < lanes.size();) {
    std::size_t end = i;
    while (end < lanes.size() && is_word(lanes[end])) ++end;
    if (end == i + 1 && lanes[i] >= 'a' && lanes[i] <= 'c')
      text += v(args[lanes[i] - 'a']);
    else
      text += lanes.substr(i, end == i ? 1 : end - i);
    i = end == i ? i + 1 : end;
  }
  return text;
}

const char* memory_type(DType dtype) { return type_text(dtype).memory; }
const char* element_type(DType dtype) { return type_text(dtype).element; }
std::string lanes_type(DType dtype) {
  return dtype == DType::boolean ? "Mask" : std::string("lanes<") + element_type(dtype) + ">";
}

std::string literal(DType dtype, std::uint64_t bits) {
  if (dtype == DType::f64) return hexadecimal(std::bit_cast<double>(bits), "");
  if (is_floating(dtype)) return hexadecimal(static_cast<float>(std::bit_cast<double>(bits)), "f");
  const auto integer = static_cast<std::int64_t>(bits);
  switch (dtype) {
    case DType::boolean: return integer ? "true" : "false";
    case DType::u8: return "uint8(" + std::to_string(integer & 255) + ")";
    case DType::i8:
    case DType::i16:
    case DType::u16: return std::to_string(integer);
    case DType::i32: {
      const auto narrow = static_cast<std::int32_t>(integer);
      return narrow == INT32_MIN ? "(-2147483647 - 1)" : std::to_string(narrow);
    }
    default: return integer == INT64_MIN ? "(-9223372036854775807L - 1)" : std::to_string(integer) + "L";
  }
}

std::string sanitize(std::string_view text) {
  std::string clean;
  for (const char c : text)
    clean += is_word(c) || std::string_view(" .,:;()[]<>=+-*%").find(c) != std::string_view::npos ? c : '_';
  return clean;
}

std::string Expressions::scalar(Dim index) const {
  return dims::to_text(index, [](const DimNode* atom) {
    const char* name = atom->kind == DimKind::symbol ? "s" : atom->kind == DimKind::axis ? "i" : "k";
    return name + std::to_string(atom->number);
  });
}

std::string Expressions::on_lanes(Dim index) const {
  if (access(index).kind == Access::Kind::uniform) return "lanes<long>(" + scalar(index) + ")";
  const auto divides_by_lane = [&](const DimNode& atom) {
    return (atom.kind == DimKind::floor_divide || atom.kind == DimKind::modulo) &&
           dims::any_atom(Dim::from_node(&atom), [&](const DimNode& inside) { return differs(inside); });
  };
  const bool by_lane = dims::any_atom(index, divides_by_lane);
  const std::string text = dims::to_text(index, [&](const DimNode* atom) {
    if (atom->kind == DimKind::symbol) return "s" + std::to_string(atom->number);
    if (!differs(*atom)) return (atom->kind == DimKind::axis ? "i" : "k") + std::to_string(atom->number);
    if (atom->kind == DimKind::axis)
      return by_lane ? "(" + vector_axis() + " + lane)" : "iota<long>(" + vector_axis() + ")";
    return by_lane ? "lane_of(" + v(atom->number) + ", lane)" : v(atom->number);
  });
  return by_lane ? "index_lanes(n, [&](long lane) WEFT_BODY { return " + text + "; })" : text;
}

std::string Expressions::value(const Instruction& it) const {
  const std::string exact = unrounded(it);
  if (!is_narrow(it.dtype) || (it.kind == Kind::constant && is_integer(it.dtype))) return exact;
  const std::string type = memory_type(it.dtype);
  return "widen(" + type + "(), narrow(" + type + "(), " +
         (it.kind == Kind::constant ? "lanes<float>(" + exact + ")" : exact) + "))";
}

std::string Expressions::unrounded(const Instruction& it) const {
  const auto argument_dtype = [&] { return kernel_.body[static_cast<std::size_t>(it.args[0])].dtype; };
  switch (it.kind) {
    case Kind::constant:
      return it.dtype == DType::boolean ? "same_lanes(" + literal(it.dtype, it.bits) + ")" : literal(it.dtype, it.bits);
    case Kind::index: return on_lanes(it.index);
    case Kind::test: return test(it.index);
    case Kind::apply: return spell(info(it.op).lanes, it.args);
    case Kind::cast:
      if (argument_dtype() == it.dtype) return v(it.args[0]);
      if (const DType from = computed_in(argument_dtype());
          is_narrow(it.dtype) && is_floating(it.dtype) &&
          (from == DType::f64 || from == DType::i32 || from == DType::i64))
        return "convert_odd(" + v(it.args[0]) + ")";
      if (is_narrow(it.dtype) && is_integer(it.dtype) && is_floating(argument_dtype()))
        return std::string("held(") + memory_type(it.dtype) + "(), " + v(it.args[0]) + ")";
      return std::string("convert<") + (it.dtype == DType::boolean ? "bool" : element_type(it.dtype)) + ">(" +
             v(it.args[0]) + ")";
    case Kind::bitcast: {
      const DType from = argument_dtype();
      const std::string value = v(it.args[0]);
      if (it.dtype == from) return value;
      if (it.dtype == DType::boolean) return "convert<bool>(" + value + ")";  // any byte but 0 becomes true
      if (from == DType::boolean && is_narrow(it.dtype))
        return std::string("widen(") + memory_type(it.dtype) + "(), convert<uint8>(" + value + "))";
      if (from == DType::boolean) return std::string("convert<") + element_type(it.dtype) + ">(" + value + ")";
      if (is_narrow(from) || is_narrow(it.dtype)) {
        const std::string word = "uint" + std::to_string(info(from).bits), to = memory_type(it.dtype);
        const std::string bits = is_narrow(from) ? std::string("narrow(") + memory_type(from) + "(), " + value + ")"
                                                 : "cast_bits<" + word + ">(" + value + ")";
        return is_narrow(it.dtype) ? "widen(" + to + "(), " + bits + ")" : "cast_bits<" + to + ">(" + bits + ")";
      }
      return std::string("cast_bits<") + element_type(it.dtype) + ">(" + value + ")";
    }
    case Kind::random_bits: {
      const bool in_order = access(it.index).kind == Access::Kind::contiguous;
      return "random_bits(first_lane(" + v(it.args[0]) + "), first_lane(" + v(it.args[1]) + "), " +
             (in_order ? scalar(it.index) : on_lanes(it.index)) + ")";
    }
    default: WEFT_CHECK(false, kernel_.name, ": no value");
  }
}

Expressions::Spread Expressions::spread(Dim index, DimKind kind, int coefficient) const {
  const auto by_lane = [&](const DimNode& atom) { return differs(atom); };
  for (const DimTerm& term : dims::terms(index)) {
    if (term.coefficient != coefficient || term.factors.size() != 1 || term.factors[0]->kind != kind) continue;
    const DimNode& node = *term.factors[0];
    const Dim rest = index - Dim(coefficient) * Dim::from_node(&node);
    const Access along = access(node.left);
    if (along.kind != Access::Kind::contiguous || !node.right.is_constant() || dims::any_atom(rest, by_lane)) continue;
    return {node.left, rest, node.right.constant()};
  }
  return {};
}

bool Expressions::implies(int predicate, Dim test) const {
  const loop::Instruction& it = kernel_.body[static_cast<std::size_t>(predicate)];
  if (it.kind == Kind::test) return it.index.same(test);
  return it.kind == Kind::apply && it.op == Op::bitwise_and && (implies(it.args[0], test) || implies(it.args[1], test));
}

// Whether 0 <= index: along the lanes' own axis from a lane on, or below one.
std::string Expressions::test(Dim index) const {
  const Access found = access(index);
  if (found.kind == Access::Kind::uniform) return "same_lanes(0 <= " + scalar(index) + ")";
  if (const Spread divides = spread(index, DimKind::modulo, -1); divides.step > 0 && divides.rest.same(Dim(0)))
    return "lanes_divisible<" + std::to_string(divides.step) + ">(" + scalar(divides.dividend) + ")";
  if (found.kind == Access::Kind::general || !found.stride.is_constant()) return on_lanes(index) + " >= 0L";
  const int vector = kernel_.vector_axis;
  const Dim axis = dims::axis(vector, kernel_.axes[static_cast<std::size_t>(vector)].extent), step = found.stride;
  return step.constant() > 0 ? "lanes_from(" + scalar(Dim(0) - found.rest / step - axis) + ")"
                             : "lanes_below(" + scalar(found.rest / (Dim(0) - step) + Dim(1) - axis) + ")";
}

// As far as lane 0 of a vector is from the vector axis's 0.
std::string Expressions::steps(const std::string& stride) const {
  return (stride.find(' ') == std::string::npos ? stride : "(" + stride + ")") + "*" + vector_axis();
}

std::string Expressions::repeated(Dim index, const std::string& from) const {
  for (const auto& [kind, name] :
       {std::pair{DimKind::floor_divide, "load_repeated"}, {DimKind::modulo, "load_periodic"}})
    if (const Spread each = spread(index, kind, 1); each.step > 1 && each.step <= loop::narrow_columns)
      return std::string(name) + "<" + std::to_string(each.step) + ">(" + from + " + (" + scalar(each.rest) + "), " +
             scalar(each.dividend) + ", n)";
  return {};
}

std::string Expressions::load(const Access& access, const std::string& from, int predicate) const {
  const bool masks = predicate >= 0 && analysis_.facts[static_cast<std::size_t>(predicate)].vector;
  const std::string where = masks ? "_where(" : "(", mask = masks ? ", " + v(predicate) : "";
  std::string text;
  switch (access.kind) {
    case Access::Kind::uniform: text = "load_one" + where + from + (masks ? mask + ", n)" : ")"); break;
    case Access::Kind::contiguous: text = "load" + where + from + " + " + vector_axis() + mask + ", n)"; break;
    case Access::Kind::strided: {
      const std::string stride = scalar(access.stride);
      text = "load_strided" + where + from + " + " + steps(stride) + ", " + stride + mask + ", n)";
      break;
    }
    default:
      if (const Spread each = spread(access.rest, DimKind::floor_divide, 1);
          masks && each.step > 1 && implies(predicate, Dim(0) - each.dividend % Dim(each.step))) {
        text = "load_spread_where<" + std::to_string(each.step) + ">(" + from + " + (" + scalar(each.rest) + "), " +
               scalar(each.dividend) + mask + ", n)";
        break;
      }
      if (text = masks ? "" : repeated(access.rest, from); !text.empty()) break;
      text = "gather" + where + from + ", " + on_lanes(access.rest) + mask + ", n)";
  }
  return predicate < 0 || masks ? text : test_name(predicate) + " ? " + text + " : no_lanes()";
}

std::string Expressions::store(const Access& access, const std::string& to, const std::string& value) const {
  switch (access.kind) {
    case Access::Kind::uniform: return "store_one(" + to + ", " + value + ");";
    case Access::Kind::contiguous: return "store(" + to + " + " + vector_axis() + ", " + value + ", n);";
    case Access::Kind::strided: {
      const std::string stride = scalar(access.stride);
      return "store_strided(" + to + " + " + steps(stride) + ", " + stride + ", " + value + ", n);";
    }
    default: return "scatter(" + to + ", " + on_lanes(access.rest) + ", " + value + ", n);";
  }
}

}  // namespace weft::codegen
