// A plan whose values are on several devices: plans of one device each, and copies of values between devices, in an
// order. In: a call's arguments and results, each on its device. Out: results written. Parts of different devices run
// side by side: a copy waits on the devices for what makes its value and for who used its place before, not on the
// host.
#pragma once
#include <map>
#include <mutex>
#include <optional>

#include "runtime/plan.hpp"

namespace weft::runtime {

// A value that a part or a copy reads or writes.
struct PartValue {
  enum class Kind : std::uint8_t { argument, result, temporary } kind;
  int index = 0;  // argument, result: which of the call
  DType dtype = DType::f32;
  Dim elements = 0;
  Device device;
  std::string what = {};  // the operation that makes it, with its type and the user's line
};

// Runs the plan, or copies a value where there is none.
struct Part {
  std::shared_ptr<const Plan> plan;          // prepared
  std::vector<int> arguments, results = {};  // places in the list of values; of a copy one each
};

class PlanParts {
 public:
  PlanParts(std::vector<PartValue> values, std::vector<Part> parts, std::size_t symbols);
  ~PlanParts();
  PlanParts(const PlanParts&) = delete;
  PlanParts& operator=(const PlanParts&) = delete;

  std::span<const PartValue> values() const { return values_; }
  std::span<const Part> parts() const { return parts_; }
  // The first and the last part that has the value.
  std::pair<std::size_t, std::size_t> life_of(std::size_t value) const { return lives_[value]; }
  // As weft::runtime::run does it. All memory is there before the first part runs; a check that fails is thrown before
  // the part after it runs. Thread-safe.
  void run(std::span<void* const> arguments, std::span<void* const> results, std::span<const std::int64_t> symbols,
           std::span<Storage* const> blocks) const;

 private:
  struct Frame;
  std::unique_ptr<Frame> take() const;
  void give_back(std::unique_ptr<Frame> frame) const;
  void compute(Frame& frame, std::span<const std::int64_t> symbols) const;
  std::optional<Device> copy_from(std::size_t part) const;
  void run_copy(Frame& frame, std::size_t part, std::span<Storage* const> blocks) const;

  std::vector<PartValue> values_;
  std::vector<Part> parts_;
  std::vector<std::pair<std::size_t, std::size_t>> lives_;
  std::map<std::size_t, std::size_t> copied_by_;  // by value that is a copy: which part
  std::vector<Device> devices_;                   // of values
  NumberTable numbers_;
  NumberTable::Range elements_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Frame>> spares_;
};

// Steps of a plan, also of one in parts: a copy is one.
std::size_t step_count(const Plan& plan);

}  // namespace weft::runtime
