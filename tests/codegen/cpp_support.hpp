// Kernels of the loop IR built by hand, and run: compiled, and by plain loops in double that carry a bound on the error
// that rounding can have made. Many kernels are compiled as one batch.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loop/kernel.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/host/library.hpp"
#include "runtime/host/steps.hpp"

namespace weft::test {

using Int = std::int64_t;

class KernelBuilder {
 public:
  explicit KernelBuilder(std::string name) { kernel_.name = "weft_" + std::move(name); }

  // Axes in order; the one for the lanes is said with `lanes`. Returns its index as an expression.
  Dim outer(Dim extent) { return axis(extent, false); }
  Dim inner(Dim extent) { return axis(extent, true); }
  Dim lanes(Dim index_of_last_axis) {
    kernel_.vector_axis = static_cast<int>(kernel_.axes.size()) - 1;
    return index_of_last_axis;
  }
  Dim size(Int slot_count = 1) {  // a size slot
    kernel_.parameters.push_back(Dim(slot_count));
    return dims::symbol(static_cast<int>(kernel_.parameters.size()) - 1, 1);
  }
  int input(DType dtype, Dim elements) { return buffer(dtype, elements, false); }
  int output(DType dtype, Dim elements) { return buffer(dtype, elements, true); }

  int constant(DType dtype, double value);
  int index(Dim index) { return add({.kind = loop::Kind::index, .dtype = DType::i64, .index = index}); }
  int load(int buffer, Dim index);
  int apply(Op op, int a, int b = -1, int c = -1);
  int cast(DType dtype, int a) { return add({.kind = loop::Kind::cast, .dtype = dtype, .args = {a, -1, -1}}); }
  int bitcast(DType dtype, int a) { return add({.kind = loop::Kind::bitcast, .dtype = dtype, .args = {a, -1, -1}}); }
  int random_bits(int seed, int offset, Dim index) {
    return add({.kind = loop::Kind::random_bits, .dtype = DType::i64, .args = {seed, offset, -1}, .index = index});
  }
  int reduce(Op op, int a, Dim position = 0);
  void store(int buffer, Dim index, int a);
  Dim value(int instruction, Dim extent) { return dims::value(instruction, extent); }
  void comment(std::string text) { kernel_.comments.push_back(std::move(text)); }
  // Checked.
  loop::Kernel kernel() const;

 private:
  Dim axis(Dim extent, bool inner);
  int buffer(DType dtype, Dim elements, bool written);
  int add(loop::Instruction instruction);
  const loop::Instruction& at(int i) const { return kernel_.body[static_cast<std::size_t>(i)]; }

  loop::Kernel kernel_;
};

// A kernel with memory for its buffers and values for its slots.
struct Trial {
  loop::Kernel kernel;
  std::vector<Int> sizes;
  std::vector<std::vector<std::byte>> buffers;

  // Inputs are filled with numbers that fit the dtype, zeros of both signs among them; i64 inputs with [0, below).
  Trial(loop::Kernel kernel, std::vector<Int> sizes = {}, Int below = 7, unsigned seed = 1);
  template <class T>
  T* data(int buffer) {
    return reinterpret_cast<T*>(buffers[static_cast<std::size_t>(buffer)].data());
  }
  Int units() const;
  // Outputs are overwritten with a pattern first; units are shared out over `pieces` calls.
  void run(runtime::KernelFunction function, int pieces = 1);
  // What run() left against plain loops. Empty, or the first element that is further off than rounding explains.
  std::string compare();
};

// Compiles the kernels of all trials together, runs each and compares; fails the current test case.
void check_all(std::vector<Trial>& trials);
std::vector<runtime::KernelFunction> compile_all(const std::vector<Trial>& trials, Isa isa,
                                                 std::shared_ptr<Library>& library);

}  // namespace weft::test
