#include "ir/node.hpp"

#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <ostream>
#include <unordered_map>

#include "base/cache_lines.hpp"
#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/per_thread.hpp"
#include "base/storage.hpp"
#include "ir/dtype.hpp"
#include "ir/size_marks.hpp"

namespace weft {
namespace {

// Nodes come and go by the million: each thread keeps the memory of those it freed last.
struct Pool {
  static constexpr int limit = 8192;
  void* free_list = nullptr;
  int count = 0;
  Node* dead = nullptr;  // nodes to destroy, linked through `sequence`
  bool draining = false;
  std::uint64_t next_sequence = 0, last_sequence = 0;  // what is left of the thread's numbers
  ~Pool() {
    while (free_list) {
      void* next = *static_cast<void**>(free_list);
      ::operator delete(free_list);
      free_list = next;
    }
  }
};
Pool& pool() { return per_thread<Pool>(); }

void* take_memory() {
  Pool& p = pool();
  if (!p.free_list) return ::operator new(sizeof(Node));
  void* memory = p.free_list;
  p.free_list = *static_cast<void**>(memory);
  --p.count;
  return memory;
}
void give_memory(void* memory) {
  Pool& p = pool();
  if (p.count >= Pool::limit) return ::operator delete(memory);
  *static_cast<void**>(memory) = p.free_list;
  p.free_list = memory;
  ++p.count;
}

void destroy_one(Node* node) noexcept {
  forget_size_marks(*node);
  drop_operands(node);
  if (node->storage) release(node->storage);
  if (node->more)
    for (Storage* storage : node->more->storages)
      if (storage) release(storage);
  delete node->layout;
  node->~Node();
  give_memory(node);
}

// A thread takes numbers in lots of 1024: counted one by one, all threads would wait for one cache line. A node's
// number is greater than those of its operands, also where another thread has recorded these, and a variable's is
// greater than all that were given before it: what depends on it is found by that.
std::uint64_t next_sequence(Op op, std::span<const Tensor> operands) {
  alignas(cache_lines) static constinit std::atomic<std::uint64_t> taken = 1;
  constexpr std::uint64_t lot = 1024;
  Pool& own = pool();
  bool used_up = own.next_sequence == own.last_sequence || op == Op::variable;
  for (const Tensor& operand : operands) used_up = used_up || operand.node()->sequence >= own.next_sequence;
  if (used_up) {
    own.next_sequence = taken.fetch_add(lot, std::memory_order_relaxed);
    own.last_sequence = own.next_sequence + lot;
  }
  return own.next_sequence++;
}

}  // namespace

namespace detail {

// Iterative: a chain of a million nodes unwinds through the list, not through the stack.
void destroy(Node* node) noexcept {
  Pool& p = pool();
  node->sequence = reinterpret_cast<std::uint64_t>(p.dead);
  p.dead = node;
  if (p.draining) return;
  p.draining = true;
  while (p.dead) {
    Node* next = p.dead;
    p.dead = reinterpret_cast<Node*>(next->sequence);
    destroy_one(next);
  }
  p.draining = false;
}

void release(Storage* storage) noexcept { weft::release(storage); }

}  // namespace detail

std::vector<Tensor> results_of(const Tensor& value) {
  std::vector<Tensor> results;
  for (unsigned i = 0; i < value.node()->output_count; ++i) results.emplace_back(value.node(), i);
  return results;
}

Tensor make_node(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& type, Loc loc) {
  Node* node = new (take_memory()) Node;
  Tensor result(node);
  node->op = op;
  node->owner = static_cast<std::uint8_t>(this_thread());
  node->sequence = next_sequence(op, operands);
  node->loc = loc;
  node->type = type;
  node->attributes_ = attributes;
  node->operands = operands.size() <= 3 ? node->few : new Tensor[operands.size()];
  node->operand_count = static_cast<std::uint32_t>(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) node->operands[i] = operands[i];
  return result;
}

Tensor make_computed(const Type& type, Loc loc) {
  Node* node = new (take_memory()) Node;
  Tensor result(node);
  node->op = Op::data;
  node->loc = loc;
  node->type = type;
  node->attributes_ = Contents{};
  node->operands = node->few;
  return result;
}

void drop_operands(Node* node) {
  if (node->operands && node->operands != node->few) {
    delete[] node->operands;
  } else {
    for (Tensor& operand : node->few) operand = Tensor();
  }
  node->operands = node->few;
  node->operand_count = 0;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i ? "," : "") + dims::to_string(shape[i]);
  return text + "]";
}
std::string to_string(Device device) {
  return device.type == Device::Type::cuda ? "cuda:" + std::to_string(device.index) : "cpu";
}
std::string made_at(const Node& node) {
  return to_string(node.type) + (node.loc.file ? ", made at " + to_string(node.loc) : "");
}

std::string to_string(const Type& type) {
  std::string text = info(type.dtype).name + to_string(type.shape);
  if (type.weak) text += "'";
  if (type.device.type != Device::Type::cpu) text += "@" + to_string(type.device);
  return text;
}

std::ostream& operator<<(std::ostream& out, Dim dim) { return out << dims::to_string(dim); }
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << info(dtype).name; }
std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

namespace {
struct Texts {
  ProcessMutex& mutex = process_mutex(LockOrder::texts);
  std::deque<std::string> texts{""};
  std::unordered_map<std::string_view, std::uint32_t> ids{{"", 0}};
};
Texts& texts() {
  static constinit Lazy<Texts> instance;
  return instance.get();
}
}  // namespace

std::uint32_t intern_text(std::string_view text) {
  Texts& t = texts();
  std::lock_guard lock(t.mutex);
  if (auto found = t.ids.find(text); found != t.ids.end()) return found->second;
  t.texts.emplace_back(text);
  auto id = static_cast<std::uint32_t>(t.texts.size() - 1);
  t.ids.emplace(t.texts.back(), id);
  return id;
}
const std::string& interned_text(std::uint32_t id) {
  Texts& t = texts();
  std::lock_guard lock(t.mutex);
  return t.texts[id];
}

}  // namespace weft
