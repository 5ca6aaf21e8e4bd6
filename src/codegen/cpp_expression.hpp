// The text of single instructions and indices. In: a kernel and its facts. Out: C++ expressions over the lanes. The
// generator (cpp.cpp) decides where a statement is.
#pragma once
#include <string>

#include "loop/analysis.hpp"

namespace weft::codegen {

using loop::Access;
using loop::Analysis;
using loop::Facts;
using loop::Form;

// The element type in memory, and the type of a value of 16 lanes: float, lanes<float>; bool, Mask.
const char* memory_type(DType dtype);
std::string lanes_type(DType dtype);
// The type in which an element is computed: memory's own, float for the 16-bit floats, int or long for the integers
// that are computed wider, uint8 for bool.
const char* element_type(DType dtype);

// A number as the generated source writes it: hexadecimal floats, no locale, every bit.
std::string literal(DType dtype, std::uint64_t bits);

// The table's spelling with the operands a, b, c named v<args>.
std::string spell(std::string_view lanes, const std::int32_t* args);

// Nothing but letters, digits and plain punctuation.
std::string sanitize(std::string_view text);

class Expressions {
 public:
  Expressions(const loop::Kernel& kernel, const Analysis& analysis) : kernel_(kernel), analysis_(analysis) {}

  Access access(Dim index) const { return loop::access(kernel_, analysis_, index); }
  // An index on scalars: i0*784 + s0.
  std::string scalar(Dim index) const;
  // An index on lanes, of type lanes<long>, or a uniform one where `access` says so.
  std::string on_lanes(Dim index) const;
  // The right side of an instruction that reads no memory. What lies in memory as
  // a narrower type is rounded, or wraps, each time.
  std::string value(const loop::Instruction& instruction) const;
  // A loaded value; `from` is the pointer to which the lanes' part of the index is still to be added. A predicate is
  // tested where it is uniform, and masks the lanes where it is not.
  std::string load(const Access& access, const std::string& from, int predicate = -1) const;
  // The name of a uniform predicate as one bool: b<instruction>.
  static std::string test_name(int predicate) { return "b" + std::to_string(predicate); }
  std::string store(const Access& access, const std::string& to, const std::string& value) const;

 private:
  std::string test(Dim index) const;
  // An index that moves on by one each `step` lanes: rest + floor(dividend / step), where dividend is the lanes' axis
  // and something uniform.
  struct Spread {
    Dim dividend, rest;
    std::int64_t step = 0;  // 0: it is not one
  };
  Spread spread(Dim index, DimKind kind, int coefficient) const;
  // The load whose lanes read an element several times, or the same few elements again and again; empty: it is none.
  std::string repeated(Dim index, const std::string& from) const;
  bool implies(int predicate, Dim test) const;
  std::string unrounded(const loop::Instruction& instruction) const;
  bool differs(const DimNode& atom) const { return loop::differs(kernel_, analysis_, atom); }
  std::string steps(const std::string& stride) const;
  std::string vector_axis() const { return "i" + std::to_string(kernel_.vector_axis); }

  const loop::Kernel& kernel_;
  const Analysis& analysis_;
};

}  // namespace weft::codegen
