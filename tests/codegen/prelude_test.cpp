// The prelude: each function's slice compiles alone and gives what the whole text gives.
#include "codegen/prelude.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "runtime/host/compiler.hpp"
#include "runtime/host/jit.hpp"
#include "tests/sanitized.hpp"

using weft::codegen::prelude;

namespace {

struct Slice {
  const char* name;
  const char* body;
  double expected;
};
const Slice slices[] = {
    {"exp", "exp(lanes<float>(x))", std::exp(0.75)},
    {"expm1", "expm1(lanes<float>(x))", std::expm1(0.75)},
    {"log", "log(lanes<float>(x))", std::log(0.75)},
    {"log1p", "log1p(lanes<float>(x))", std::log1p(0.75)},
    {"tanh", "tanh(lanes<float>(x))", std::tanh(0.75)},
    {"sigmoid", "sigmoid(lanes<float>(x))", 1 / (1 + std::exp(-0.75))},
    {"erf", "erf(lanes<float>(x))", std::erf(0.75)},
    {"sin", "sin(lanes<float>(x))", std::sin(0.75)},
    {"cos", "cos(lanes<float>(x))", std::cos(0.75)},
    {"pow", "pow(lanes<float>(x), lanes<float>(3.0f))", 0.421875},
    {"floor_divide", "floor_divide(lanes<float>(x), lanes<float>(0.25f))", 3},
    {"remainder", "remainder(lanes<float>(x), lanes<float>(0.5f))", 0.25},
    {"random_bits", "convert<float>(random_bits(0, 0, 0L))", 0x6627e8d5},
    {"bfloat16", "load(reinterpret_cast<const bfloat16*>(from)) * 0.0f + x", 0.75},
    {"float16", "load(reinterpret_cast<const float16*>(from)) * 0.0f + x", 0.75},
    {"", "sqrt(lanes<float>(x))", std::sqrt(0.75)},
};
std::string kernel(const Slice& slice) {
  return std::string(
             "\nextern \"C\" __attribute__((visibility(\"default\"))) void probe(float* to, const float* from) {\n"
             "  const float x = from[16];\n  store(to, ") +
         slice.body + ");\n}\n";
}

// Of the machine code of a kernel that calls a function so many times, each time of other operands.
std::size_t code_bytes(const std::string& function, const std::string& element, int calls) {
  const std::string lanes = "lanes<" + element + ">";
  std::string text = prelude({function}) + "\nextern \"C\" __attribute__((visibility(\"default\"))) void probe(" +
                     element + "* to, const " + element + "* from) {\n  const " + lanes +
                     " x = load(from), y = load(from + 16);\n";
  for (int i = 0; i < calls; ++i)
    text += "  store(to + " + std::to_string(16 * i) + ", " + function + "(x + " + lanes + "(" + std::to_string(i) +
            "), y));\n";
  return weft::compile_units(weft::host_compiler(), {text + "}\n"}, weft::host_isa(), {}).size();
}

}  // namespace

TEST_CASE("a call of a long function is a call in the kernel's code") {
  if (weft::test::less_when_sanitized > 1) return;  // the code is the sanitizer's
  for (const char* const function : {"floor_divide", "remainder", "fmod"})
    for (const char* const element : {"float", "double"}) {
      CAPTURE(function);
      CAPTURE(element);
      // About 200 bytes on AVX-512 and 600 on SSE2; inlined it was 4000 and more.
      CHECK(code_bytes(function, element, 36) - code_bytes(function, element, 4) < 32 * 1500);
    }
}

TEST_CASE("each function's slice compiles alone") {
  for (const Slice& slice : slices) {
    INFO(std::string(slice.name));
    const auto library = weft::jit({.units = {prelude({slice.name}) + kernel(slice)}});
    float from[17] = {}, to[16];
    from[16] = 0.75f;
    library->function<void(float*, const float*)>("probe")(to, from);
    CHECK(to[0] == doctest::Approx(slice.expected).epsilon(1e-6));
  }
}

TEST_CASE("a slice holds what is asked for and no more, and is the same each time") {
  const std::string none = prelude({}), one = prelude({"exp"});
  CHECK(one == prelude({"exp", "a_name_without_a_section"}));
  CHECK(none.size() < one.size());
  CHECK(none.find("exp_split(") == std::string::npos);
  CHECK(one.find("exp_split(") != std::string::npos);
  CHECK(one.find("trig_split(") == std::string::npos);
  CHECK(one.find("#include") == std::string::npos);
  CHECK(prelude({"remainder"}).find(" floor_divide(") != std::string::npos);
}
