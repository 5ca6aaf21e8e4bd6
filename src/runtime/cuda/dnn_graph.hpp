// Graphs of cuDNN's operations, and plans that run them. In: values of four axes and the operations between them, as
// the library's graph API has them. Out: a plan for one device. Every value is either in memory, a number, or passes
// from one operation to the next and has no memory.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/convolution.hpp"
#include "runtime/cuda/libraries.hpp"

namespace weft::runtime::cuda {

// Numbers of cudnn_graph.h.
enum class DnnType : int { f32 = 0, f16 = 2, i32 = 4, bf16 = 9, boolean = 11 };
enum class DnnPointwise : int {
  add = 0,
  multiply = 1,
  divide = 6,
  subtract = 9,
  exp = 13,
  log = 15,
  identity = 21,
  relu = 100,
  gelu = 104,
  silu = 106,
  gelu_tanh = 107,
  greater_or_equal = 303,
  index = 501,
  select = 601
};
enum class DnnReduction : int { sum = 0, greatest = 3 };

class DnnDescription {
 public:
  explicit DnnDescription(int type);
  DnnDescription(DnnDescription&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  ~DnnDescription();
  DnnDescriptor* get() const { return descriptor_; }
  void set(int name, int type, const void* values, std::int64_t count = 1) const;
  void set(int name, const DnnDescription& other) const;
  std::vector<std::int64_t> numbers(int name, int type, std::int64_t most) const;
  void finish(const char* what) const;

 private:
  DnnDescriptor* descriptor_ = nullptr;
};

// What a plan is made for: the device of a handle; or one that is described, which is absent.
struct DnnTarget {
  DnnHandle* handle = nullptr;
  const DnnDescription* device = nullptr;
};

class DnnPlan;

class DnnGraph {
 public:
  using Four = std::array<std::int64_t, 4>;
  struct Value {
    DnnDescriptor* descriptor = nullptr;
    Four sizes = {};
    DnnType type = DnnType::f32;
  };

  // A value in memory; `id` is how a run of the plan names it.
  Value memory(std::int64_t id, DnnType type, Four sizes, Four strides);
  Value number(float number);
  // Between operations: row by row unless strides are given.
  Value between(DnnType type, Four sizes, Four strides = {});

  Value pointwise(DnnPointwise what, const Value& a, const Value* b = nullptr, const Value* c = nullptr,
                  DnnType type = DnnType::f32);
  void pointwise_to(const Value& result, DnnPointwise what, const Value& a, const Value* b = nullptr,
                    const Value* c = nullptr);
  // The position along an axis of each element of `like`.
  Value index(const Value& like, std::int64_t axis);
  void product(const Value& a, const Value& b, const Value& result);
  struct Windows {
    std::array<std::int64_t, 2> padding, strides, dilation;  // down, across
  };
  // Of images; `result` says which of the three is computed from the others.
  void convolution(Convolved result, const Value& input, const Value& weight, const Value& output, Windows windows);
  void reduce(DnnReduction what, const Value& value, const Value& result);
  void reshape(const Value& value, const Value& result);

  // Whether the library names a kernel, of those that give the same bits again if `deterministic`. Takes milliseconds.
  bool has_plan(const DnnTarget& target, bool deterministic) const;
  // The first that it names and can compile, which takes half a second; null where there is none.
  std::shared_ptr<const DnnPlan> plan(const DnnTarget& target, bool deterministic) const;
  // A plan from its text, which an equal graph gave on an equal device. Null where the text is of something else, or of
  // a version of the library that is not compatible.
  std::shared_ptr<const DnnPlan> plan_from(const DnnTarget& target, std::string_view text) const;
  // The first so many that want no more memory for a workspace.
  std::vector<std::shared_ptr<const DnnPlan>> plans(const DnnTarget& target, bool deterministic, std::size_t most,
                                                    std::size_t most_workspace) const;

 private:
  // Those that the library names, its first choice first.
  std::vector<DnnDescription> choices(const DnnTarget& target, bool deterministic) const;
  Value value(std::int64_t id, DnnType type, Four sizes, Four strides, bool is_virtual, bool is_number);
  DnnDescription& make(int type) { return *all_.emplace_back(std::make_unique<DnnDescription>(type)); }
  void add_pointwise(const DnnDescription& what, const Value& result, const Value& a, const Value* b, const Value* c);
  const DnnDescription& pointwise_of(DnnPointwise what, DnnType computed, std::int64_t axis = -1);

  std::vector<std::unique_ptr<DnnDescription>> all_;
  std::vector<DnnDescriptor*> operations_;
  std::vector<std::pair<std::int64_t, float>> numbers_;
  std::int64_t next_ = 1000;  // ids of values that a run does not name
};

class DnnPlan {
 public:
  std::size_t workspace() const { return workspace_; }
  // All of it, with the kernels that were compiled for it. Empty where it has no text.
  std::string text() const;
  // Pointers in the order of the ids. The handle is the caller's for so long, and queues on the stream that it was
  // given.
  void run(DnnHandle* handle, std::span<const std::int64_t> ids, std::span<void* const> pointers,
           void* workspace) const;

 private:
  friend DnnGraph;
  DnnPlan(DnnDescription plan, std::vector<std::pair<std::int64_t, float>> numbers);

  DnnDescription plan_;
  std::vector<std::pair<std::int64_t, float>> numbers_;
  std::size_t workspace_ = 0;
};

}  // namespace weft::runtime::cuda
