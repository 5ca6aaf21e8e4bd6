// What is made once of arguments that are the same in many calls, and read by every call: what kernels compute of them
// alone, and operands in the order of the step that reads them. It lies where the plan runs: on a device the calls that
// read it are queued after the kernels that make it. In: a plan's constant arguments, their keys in a call.
// Out: what was made of them, shared by the calls of all threads, and by plans that make the same of one value. It is
// made when a second call has the same values: a first answer waits for nothing, and who has other values in each call
// pays nothing. A call that can't have it (another thread is making it, there is no memory) runs without: results are
// the same bits.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>

#include "base/hash.hpp"
#include "runtime/plan.hpp"

namespace weft::runtime {

// A step that reads an operand faster in an order of its own, where the operand is a constant. The order is this
// machine's and this process's: no plan on disk says anything of it.
class PackingStep : public Runnable {
 public:
  // The bytes of a packed operand; 0: it is read as it lies. `buffer`: of the step. The same in every call.
  virtual std::size_t packed_bytes(std::size_t buffer) const = 0;
  // Of what is packed how: of equal memory equal ones are equal bytes.
  virtual Digest packed_as(std::size_t buffer) const = 0;
  // `to` is 64-byte aligned.
  virtual void pack(std::size_t buffer, const StepCall& call, std::byte* to) const = 0;
  // As run(), to the same bits. packed[i] is what pack() made of buffer i; null: nothing.
  virtual void run_packed(const StepCall& call, const std::byte* const* packed) const = 0;
};

class Sequence;

class Constants {
 public:
  Constants(const Plan& plan, const Sequence& sequence);

  // What was made of some values.
  struct Kept {
    std::vector<const void*> keys;
    std::vector<std::shared_ptr<const void>> memory;  // and the values that it was made of
    std::vector<const std::byte*> packed;             // of each place in the table of pointers; null: nothing
    std::vector<std::pair<std::size_t, void*>> made;  // where the results of steps that are done once lie, by place
    std::vector<Storage*> blocks;                     // of these results
  };
  // What is kept of the call's values; null: nothing is, so the call runs without. `own`: what the caller had of its
  // call before. `call`: its pointers, numbers and queue. `is_new`: it was made now, in the place of what others still
  // have.
  const Kept* find(std::shared_ptr<const Kept>& own, const ConstantKeys& constants, const StepCall& call,
                   bool& is_new) {
    is_new = false;
    if (constants.keys.size() != constants_) return nullptr;
    if (own && std::ranges::equal(own->keys, constants.keys)) return own.get();
    return find_other(own, constants, call, is_new);
  }
  // Whether a call that has what is kept leaves the step out.
  bool is_done_once(std::size_t step) const { return done_once_[step] != 0; }
  // Of what is kept now; 0 while a thread is at it.
  std::size_t bytes();
  // Whether there is anything to keep.
  bool any() const { return !operands_.empty() || !results_.empty(); }

 private:
  // What a step makes that is done once.
  struct Result {
    int buffer;
    std::size_t bytes;
  };
  // An operand to be packed.
  struct Operand {
    const PackingStep* step;
    std::size_t table, buffer;  // the place of the step's pointers, and which of them
    std::size_t constant;       // in Plan::constant_arguments; of a result none
    std::size_t bytes;
    Digest how;
  };
  const Kept* find_other(std::shared_ptr<const Kept>& own, const ConstantKeys& constants, const StepCall& call,
                         bool& is_new);
  static constexpr std::size_t none = SIZE_MAX;
  bool is_result(int buffer) const { return std::ranges::find(results_, buffer, &Result::buffer) != results_.end(); }
  void find_steps(const Plan& plan);
  void find_operands(const Plan& plan);
  std::shared_ptr<const Kept> make(const ConstantKeys& constants, const StepCall& call) const;

  const Sequence& sequence_;
  const Device device_;
  const std::size_t constants_;          // how many
  std::vector<std::uint8_t> done_once_;  // by step
  std::vector<Result> results_;
  std::vector<Operand> operands_;
  // What follows is the thread's that has taken it.
  std::atomic<bool> taken_ = false;
  bool gives_up_ = false;          // there was no memory
  std::vector<const void*> seen_;  // the keys of a call that ran without
  std::shared_ptr<const Kept> now_;
};

}  // namespace weft::runtime
