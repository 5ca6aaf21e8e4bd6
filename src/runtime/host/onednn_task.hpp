// A primitive of oneDNN that is made and can be run: a tile of a product or of a convolution, or a reorder between two
// layouts. In: the library's description of it. Out: a task that several threads may run at once, each with its own
// scratch memory. It is made for one thread, so that what it computes does not depend on their number.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/host/onednn.hpp"

namespace weft::runtime::onednn {

// What the library makes on this thread, or does, is for one thread.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;

 private:
  const int before_;
};

// Numbers of the library's enumerations.
namespace argument {
inline constexpr int source = 1, result = 17, weights = 33, bias = 41, scratchpad = 80, source_gradient = 129,
                     result_gradient = 145, weights_gradient = 161;
}
constexpr int data_type(DType dtype) { return dtype == DType::bf16 ? 2 : 3; }

class Task {
 public:
  struct Operand {
    int argument;
    Layout layout;
  };
  // Null where the library refuses. The caller holds OneThread, and no fork happens meanwhile.
  static std::shared_ptr<const Task> make(const Library& library, const Operation& operation,
                                          std::vector<Operand> operands);
  static std::shared_ptr<const Task> make_reorder(const Library& library, const Layout& from, const Layout& to);
  // As make, of a description that the task takes over.
  static std::shared_ptr<const Task> make(const Library& library, Description* description,
                                          std::vector<Operand> operands);
  Task(const Task&) = delete;
  ~Task();

  std::size_t scratch() const { return scratch_; }  // bytes, a multiple of 64
  // `data`: of each operand, in order. Small objects of the library have memory set aside; throws OutOfMemory, in the
  // name of the operation, where that is not enough.
  void run(std::span<void* const> data, std::byte* scratch, const char* operation) const;

 private:
  explicit Task(const Library& library) : library_(library) {}
  int attempt(std::span<void* const> data, std::byte* scratch) const;  // the library's status
  const Library& library_;
  Primitive* primitive_ = nullptr;
  std::vector<Operand> operands_;  // the last is the scratch memory, where some is wanted
  std::size_t scratch_ = 0;
};

// The library's description of an operation; null where it refuses.
Description* describe(const Library& library, const Operation& operation);

}  // namespace weft::runtime::onednn
