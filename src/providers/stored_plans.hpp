// Plans on disk: what passes, the schedule and the code generator have made of graphs, so that another process need not
// make it again. In: graphs, and what else their plans depend on. Out: their plans, ready to run, or nothing. An entry
// of the cache (runtime/cache.hpp) holds the plans of graphs that were compiled together, and names their kernels,
// which are an entry of their own. Whatever is wrong with an entry, it is a miss. A plan that was read is not believed
// (runtime::Plan::Given): an entry may come from a file of somebody else (weft/cache.hpp).
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "ir/graph.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/plan.hpp"

namespace weft::providers {

struct StoredPlan {
  runtime::Plan plan;
  std::int64_t arena_bytes = 0;  // at the traced sizes
};

class StoredPlans {
 public:
  using Fields = std::map<std::string, std::string>;  // by name, as people read them
  // `fields`: what the caller has besides. Graphs are named at once: they may go.
  StoredPlans(std::span<const Graph> graphs, Fields fields);

  // `constant_arguments`: of each plan, or none of any (runtime::Plan).
  std::optional<std::vector<StoredPlan>> load(std::span<const std::vector<int>> constant_arguments = {});
  void store(std::span<const StoredPlan> plans) const;
  // What load() found, for people: "found on disk", or why nothing was, and what differs from what is there.
  const std::string& found() const { return found_; }

 private:
  // What a call gives a graph's plan.
  struct Call {
    std::shared_ptr<const runtime::Plan::Given> given;
    std::vector<std::int64_t> hints;  // of the symbols
    explicit Call(const Graph& graph);
    bool is_of(const runtime::Plan& plan) const;
  };
  std::optional<std::vector<StoredPlan>> read(const std::string& payload,
                                              std::span<const std::vector<int>> constant_arguments);
  std::string nearest() const;
  const InstructionSet target_ = target_instruction_set();
  std::string refusal_;  // why these can't be kept; empty where they can
  Digest graphs_, key_;
  Fields fields_;
  std::vector<Call> calls_;  // by graph
  std::string found_;
};

}  // namespace weft::providers
