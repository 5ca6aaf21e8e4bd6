#include "codegen/cpp_writer.hpp"

#include <algorithm>

#include "codegen/kernel_head.hpp"

namespace weft::codegen {

using loop::Instruction;
using loop::Kernel;
using loop::Kind;

Writer::Writer(const Kernel& kernel, loop::Nest nest)
    : kernel_(kernel),
      nest_(std::move(nest)),
      analysis_(nest_.analysis),
      expressions_(kernel_, analysis_),
      scalar_values_(kernel.body.size()),
      scalar_tests_(kernel.body.size()) {
  for (const Instruction& instruction : kernel_.body) {
    for (const int value : loop::values_in(instruction.index))
      scalar_values_[static_cast<std::size_t>(value)] = !facts(value).vector;
    if (instruction.kind == Kind::load && instruction.args[0] >= 0)
      scalar_tests_[static_cast<std::size_t>(instruction.args[0])] = !facts(instruction.args[0]).vector;
  }
}

// ---- text -----------------------------------------------------------------------------------------------------------

void Writer::line(const std::string& text) { text_.append(scopes_.size() * 2, ' ').append(text) += '\n'; }
void Writer::open(const std::string& text, const char* end) {
  line(text);
  scopes_.push_back({end, pointers_.size(), known_values_.size(), known_axes_});
}
void Writer::close() {
  const Scope scope = scopes_.back();
  scopes_.pop_back();
  line(scope.end);
  pointers_.resize(scope.pointers);
  known_values_.resize(scope.values);
  known_axes_ = scope.axes;
}
std::string Writer::finish() {
  while (!scopes_.empty()) close();
  return std::move(text_);
}

std::string Writer::function_name() const {
  std::string name;
  for (const char c : kernel_.name)
    name += c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ? c : '_';
  return name;
}

void Writer::open_function(const std::string& head, const std::string& long_rows) {
  constexpr HeadWords words{"on the lanes", "", "long"};
  for (const std::string& comment : head_comments(kernel_, expressions_, words)) line(comment);
  open(head + "(void* const* buffers, const long* sizes, long begin, long end) {");
  for (const std::string& address : head_addresses(kernel_, words)) line(address);
  if (!long_rows.empty())
    line("if (" + expressions_.scalar(kernel_.inner_count()) + " > " + std::to_string(loop::KeepLimits().elements) +
         ") return " + long_rows + "(buffers, sizes, begin, end);");
  row_buffers();
}

void Writer::row_buffers() {
  for (const loop::Local& local : nest_.locals) {
    const int i = local.instruction;
    const char* type = at(i).dtype == DType::boolean ? "bool" : element_type(at(i).dtype);
    Dim points = kernel_.inner_count();
    if (local.over.size() == 2 && local.over[0].piece > 1) points = local.over[0].piece * local.over[1].piece;
    if (!points.is_constant()) points = loop::KeepLimits().elements;
    line(std::string("alignas(64) ") + type + " kept" + std::to_string(i) + "[" + expressions_.scalar(points) + "];");
  }
}

// ---- names and sizes ------------------------------------------------------------------------------------------------

std::string Writer::buffer_name(int buffer) const { return codegen::buffer_name(kernel_, buffer); }
std::string Writer::divisor(Dim dim) const {
  return dim.is_constant() ? std::to_string(dim.constant()) : "(" + expressions_.scalar(dim) + ")";
}
void Writer::know(const std::vector<int>& axes) {
  for (const int axis : axes) know(axis);
}
void Writer::name_axes(const std::vector<int>& axes, const std::string& flat) {
  Dim below = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    std::string text = flat;
    if (!below.same(Dim(1))) text += " / " + divisor(below);
    if (i > 0) text += " % " + divisor(extent(axes[i]));
    line("const long " + axis_name(axes[i]) + " = " + text + ";");
    below = below * extent(axes[i]);
  }
}

// ---- statements -----------------------------------------------------------------------------------------------------

void Writer::declare(int i, const std::string& right) {
  line("const " + lanes_type(at(i).dtype) + " " + value_name(i) + " = " + right + ";");
  known_values_.push_back(i);
  if (scalar_values_[static_cast<std::size_t>(i)])
    line("const long k" + std::to_string(i) + " = first_lane(" + value_name(i) + ");");
  if (scalar_tests_[static_cast<std::size_t>(i)])
    line("const bool " + Expressions::test_name(i) + " = is_true(" + value_name(i) + ");");
}

// The address of buffer[rest]: a pointer that was prepared, or the sum.
std::string Writer::place(int buffer, Dim rest) const {
  for (const Pointer& pointer : pointers_)
    if (pointer.buffer == buffer && pointer.rest.same(rest)) return pointer.name;
  if (rest.same(Dim(0))) return buffer_name(buffer);
  const std::string sum = expressions_.scalar(rest);
  return buffer_name(buffer) + " + " + (sum.find(' ') == std::string::npos ? sum : "(" + sum + ")");
}
std::string Writer::place(int buffer, const Access& access) const {
  return access.kind == Access::Kind::general ? buffer_name(buffer) : place(buffer, access.rest);
}
std::string Writer::load(Dim index, int buffer, int predicate) const {
  const Access access = expressions_.access(index);
  return expressions_.load(access, place(buffer, access), predicate);
}

void Writer::statement(int i) {
  const Instruction& it = at(i);
  if (it.kind == Kind::load) return declare(i, load(it.index, it.buffer, it.args[0]));
  if (it.kind != Kind::store) return declare(i, expressions_.value(it));
  const Access access = expressions_.access(it.index);
  line(expressions_.store(access, place(it.buffer, access), value_name(it.args[0])));
}

bool Writer::is_known(Dim index) const {
  return !dims::any_atom(index, [&](const DimNode& node) {
    if (node.kind == DimKind::axis) return (known_axes_ >> node.number & 1) == 0;
    if (node.kind != DimKind::value) return false;
    return std::find(known_values_.begin(), known_values_.end(), node.number) == known_values_.end();
  });
}

void Writer::prepare_pointers(const loop::Statement& statement) {
  if (statement.kind == loop::Statement::Kind::loop) {
    for (const loop::Statement& inside : statement.body) prepare_pointers(inside);
    return;
  }
  const bool reloads = statement.kind == loop::Statement::Kind::reload;
  if (!reloads && statement.kind != loop::Statement::Kind::value && statement.kind != loop::Statement::Kind::store)
    return;
  const int i = reloads ? statement.from : statement.instruction;
  const Instruction& it = at(i);
  if ((it.kind != Kind::load && it.kind != Kind::store) || !facts(i).vector) return;
  const Access access = expressions_.access(it.index);
  if (access.kind == Access::Kind::general || access.kind == Access::Kind::uniform) return;
  const std::string address = place(it.buffer, access.rest);
  if (address.find(' ') == std::string::npos || !is_known(access.rest)) return;
  const loop::Buffer& buffer = kernel_.buffers[static_cast<std::size_t>(it.buffer)];
  const std::string name = buffer_name(it.buffer) + "_" + std::to_string(pointer_count_++);
  line(std::string(buffer.written ? "" : "const ") + memory_type(buffer.dtype) + "* const " + name + " = " + address +
       ";");
  pointers_.push_back({it.buffer, access.rest, name});
}

}  // namespace weft::codegen
