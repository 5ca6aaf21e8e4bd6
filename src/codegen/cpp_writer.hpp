// The writing of one kernel's function: indented lines, scopes, names, and the statement of an instruction. In: a
// kernel and its loops. Out: text. Who derives from it (cpp.cpp) writes the loops.
//
// Names: i<axis>, s<size slot>, x<buffer> (read) and y<buffer> (written), v<instruction> for its 16 lanes,
// k<instruction> for a uniform integer that indices read, b<instruction> for a uniform predicate of loads,
// kept<instruction> for a row buffer.
#pragma once
#include <string>
#include <vector>

#include "codegen/cpp_expression.hpp"
#include "loop/nest.hpp"

namespace weft::codegen {

class Writer {
 public:
  Writer(const loop::Kernel& kernel, loop::Nest nest);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

 protected:
  // ---- text: a scope forgets, when it closes, the pointers and axes that became known inside ----
  void line(const std::string& text);
  void open(const std::string& text, const char* end = "}");
  void close();
  std::size_t depth() const { return scopes_.size(); }
  // Comments, the signature, the addresses of buffers, the size slots, the row buffers. `long_rows`, where it is not
  // empty, is the function that serves the rows that the row buffers do not hold.
  void open_function(const std::string& head, const std::string& long_rows);
  std::string function_name() const;
  // Closes what is open.
  std::string finish();

  // ---- names and sizes ----
  const loop::Instruction& at(int i) const { return kernel_.body[static_cast<std::size_t>(i)]; }
  const Facts& facts(int i) const { return analysis_.facts[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(kernel_.body.size()); }
  Dim extent(int axis) const { return kernel_.axes[static_cast<std::size_t>(axis)].extent; }
  std::string extent_text(int axis) const { return expressions_.scalar(extent(axis)); }
  static std::string axis_name(int axis) { return "i" + std::to_string(axis); }
  static std::string value_name(int i) { return "v" + std::to_string(i); }
  std::string divisor(Dim dim) const;
  void know(int axis) { known_axes_ |= 1u << axis; }
  void know(const std::vector<int>& axes);
  // Declares the axes of a flat count, the last one fastest.
  void name_axes(const std::vector<int>& axes, const std::string& flat);

  // ---- statements ----
  void declare(int i, const std::string& right);
  void statement(int i);
  std::string load(Dim index, int buffer, int predicate = -1) const;
  // Pointers for the accesses in `loop`, as soon as all of their index but the lanes' part is known.
  void prepare_pointers(const loop::Statement& loop);

  const loop::Kernel& kernel_;
  const loop::Nest nest_;
  const Analysis& analysis_;
  const Expressions expressions_;
  std::string buffer_name(int buffer) const;

 private:
  std::string place(int buffer, Dim rest) const;
  std::string place(int buffer, const Access& access) const;
  bool is_known(Dim index) const;
  void row_buffers();

  struct Pointer {
    int buffer;
    Dim rest;
    std::string name;
  };
  struct Scope {
    const char* end;
    std::size_t pointers, values;
    std::uint32_t axes;
  };
  std::string text_;
  std::vector<Scope> scopes_;
  std::vector<Pointer> pointers_;
  int pointer_count_ = 0;
  std::uint32_t known_axes_ = 0;
  std::vector<int> known_values_;    // those that are declared here
  std::vector<bool> scalar_values_;  // uniform values that indices read
  std::vector<bool> scalar_tests_;   // uniform predicates of loads
};

}  // namespace weft::codegen
