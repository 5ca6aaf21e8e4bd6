#include "codegen/cuda_writer.hpp"

#include <algorithm>
#include <bit>

#include "base/fail.hpp"
#include "codegen/kernel_head.hpp"
#include "loop/device_team.hpp"
#include "loop/roundings.hpp"

namespace weft::codegen {

using loop::Instruction;
using loop::Kind;

std::string DeviceWriter::value_type(DType dtype) {
  if (dtype == DType::boolean) return "Mask";
  return is_integer(dtype) ? std::string("Integer<") + memory_type(dtype) + ">" : element_type(dtype);
}

DeviceWriter::DeviceWriter(const loop::Kernel& kernel, std::size_t sets)
    : kernel_(kernel),
      sets_(sets),
      nest_(loop::device_nest(kernel)),
      analysis_(nest_.analysis),
      team_(nest_.team),
      expressions_(kernel_, analysis_) {
  find_index_values();
}

void DeviceWriter::open(const std::string& text) {
  line(text);
  ++depth_;
}

void DeviceWriter::close() {
  --depth_;
  line("}");
}

std::string DeviceWriter::buffer_name(int buffer) const { return codegen::buffer_name(kernel_, buffer); }

bool DeviceWriter::in_pack(int i) const {
  if (team_.width == 1) return false;
  if (pack_axis_ == kernel_.vector_axis)
    return loop::is_contiguous(kernel_, analysis_, i) || loop::is_reversed(kernel_, analysis_, i) || in_pack_where(i);
  const Instruction& it = at(i);
  if (it.kind != Kind::load && it.kind != Kind::store) return false;
  const dims::Linear along = dims::linear_in(it.index, dims::axis(pack_axis_, pack_extent()));
  return along.linear && along.coefficient.same(Dim(1));
}

bool DeviceWriter::in_pack_where(int i) const {
  const Instruction& it = at(i);
  return analysis_.form == Form::pointwise && team_.tile == 0 && it.kind == Kind::load && it.args[0] >= 0 &&
         facts(it.args[0]).vector && loop::is_same_in_packs(kernel_, analysis_, it.args[0], team_.width) &&
         access(kernel_, analysis_, it.index).kind == Access::Kind::contiguous;
}

void DeviceWriter::find_index_values() {
  index_values_.resize(kernel_.body.size());
  for (const Instruction& instruction : kernel_.body)
    for (const int value : loop::values_in(instruction.index)) index_values_[static_cast<std::size_t>(value)] = true;
}

static constexpr HeadWords words{"on neighbouring threads", "arguments.", "index"};
void DeviceWriter::comments() {
  for (const std::string& comment : head_comments(kernel_, expressions_, words)) line(comment);
}
void DeviceWriter::addresses() {
  for (const std::string& address : head_addresses(kernel_, words)) line(address);
}

std::string DeviceWriter::place(int buffer, Dim index) const {
  return buffer_name(buffer) + (index.same(Dim(0)) ? "" : " + (" + text_of(index) + ")");
}

std::string DeviceWriter::value(int i) const {
  const std::string text = unrounded(at(i));
  return rounds(i) ? std::string("convert<") + memory_type(at(i).dtype) + ">(" + text + ")" : text;
}

bool DeviceWriter::rounds(int i) const {
  const Instruction& it = at(i);
  const bool is_rounded = it.kind == Kind::apply && loop::is_half(it.dtype) && info(it.op).rounding != Rounding::exact;
  if (!is_rounded) return false;
  bool is_read = false, is_stored = false;  // by anything but a store of its dtype
  for (const Instruction& reader : kernel_.body)
    for (int arg = 0; arg < 3; ++arg) {
      if (reader.args[arg] != i) continue;
      const bool stores = reader.kind == Kind::store && arg == 0 &&
                          kernel_.buffers[static_cast<std::size_t>(reader.buffer)].dtype == it.dtype;
      (stores ? is_stored : is_read) = true;
    }
  return is_read || !is_stored;
}

std::string DeviceWriter::unrounded(const Instruction& it) const {
  switch (it.kind) {
    case Kind::constant:
      return literal(it.dtype, is_narrow_float(it.dtype)
                                   ? std::bit_cast<std::uint64_t>(round_to(it.dtype, std::bit_cast<double>(it.bits)))
                                   : it.bits);
    case Kind::index: return "long(" + text_of(it.index) + ")";
    case Kind::test: return "0 <= " + text_of(it.index);
    case Kind::load: {
      const std::string text = "(" + place(it.buffer, it.index) + ")";
      return it.args[0] < 0 ? "load" + text : v(it.args[0]) + ".value ? load" + text + " : no_value" + text;
    }
    case Kind::apply:
      if (divides_many(it) && divides_nearly_)
        return "d" + number(it.args[1]) + ".quotient(" + v(it.args[0]) + ", exact)";
      if (divides_many(it)) return v(it.args[0]) + " / d" + number(it.args[1]);
      return compares_position(it) ? position_compared(it) : spell(info(it.op).lanes, it.args);
    case Kind::cast:
      if (at(it.args[0]).dtype == it.dtype) return v(it.args[0]);
      return std::string("convert<") + memory_type(it.dtype) + ">(" + v(it.args[0]) + ")";
    case Kind::bitcast:
      return std::string("cast_bits<") + memory_type(it.dtype) + ", " + memory_type(at(it.args[0]).dtype) + ">(" +
             v(it.args[0]) + ")";
    case Kind::random_bits: {
      // A pack of whole counters.
      const bool is_shared =
          inside_ == Inside::element && team_.width % 4 == 0 && !lies_apart() && text_of(it.index) == pack_axis_name();
      return "random_bits(" + v(it.args[0]) + ", " + v(it.args[1]) + ", " +
             (is_shared ? "long(begin), j)" : "long(" + text_of(it.index) + "))");
    }
    default: WEFT_CHECK(false, kernel_.name, ": no value");
  }
}

bool DeviceWriter::divides_many(const Instruction& it) const {
  constexpr int least = 4;  // elements, of which fewer are not worth a reciprocal
  if (it.kind != Kind::apply || it.op != Op::div || it.dtype != DType::f32 || team_.width < least) return false;
  return facts(it.args[0]).vector && !facts(it.args[1]).vector;
}

int DeviceWriter::stored(int store) const {
  const Instruction& value = at(at(store).args[0]);
  const bool rounds = value.kind == Kind::cast && value.dtype == at(store).dtype && is_narrow_float(value.dtype);
  return rounds && at(value.args[0]).dtype == DType::f32 ? value.args[0] : at(store).args[0];
}

bool DeviceWriter::compares_position(const Instruction& it) const {
  return it.op == Op::equal && at(it.args[1]).kind == Kind::index && at(it.args[1]).dtype == DType::i64 &&
         loop::fits_32_bits(kernel_);
}

std::string DeviceWriter::pack_compared(const Instruction& it) const {
  const Access access = expressions_.access(at(it.args[1]).index);
  if (inside_ != Inside::element || team_.width == 1 || lies_apart() || access.kind != Access::Kind::contiguous)
    return "";
  const std::string rest = access.rest.same(Dim(0)) ? "" : text_of(access.rest) + " + ";
  return v(it.args[0]) + ", " + rest + "begin";
}

std::string DeviceWriter::position_compared(const Instruction& it) const {
  const std::string pack = pack_compared(it);
  if (pack.empty()) return "is_position(" + v(it.args[0]) + ", " + text_of(at(it.args[1]).index) + ", 0)";
  return among_none_ ? "false" : "is_position(" + pack + ", j)";
}

void DeviceWriter::declare(int i, const std::string& right) {
  line("const " + value_type(at(i).dtype) + " " + v(i) + " = " + right + ";");
  if (std::ranges::any_of(kernel_.body, [&](const Instruction& it) { return divides_many(it) && it.args[1] == i; }))
    line("const Divisor d" + number(i) + "(" + v(i) + ");");
  if (index_values_[static_cast<std::size_t>(i)]) line("const index k" + number(i) + " = index(" + v(i) + ".value);");
}

void DeviceWriter::name_axes(const std::vector<int>& axes, const std::string& flat) {
  Dim below = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    std::string text = below.same(Dim(1)) ? flat : flat + " / (" + text_of(below) + ")";
    if (i > 0) text += " % (" + text_of(extent(axes[i])) + ")";
    line("const index " + axis_name(axes[i]) + " = " + text + ";");
    below = below * extent(axes[i]);
  }
}

}  // namespace weft::codegen
