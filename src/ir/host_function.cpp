#include "ir/host_function.hpp"

#include <algorithm>
#include <deque>
#include <mutex>

#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "ir/any_node.hpp"

namespace weft {
namespace {

struct HostFunctions {
  std::deque<HostCalls> all;  // they stay where they are
};
HostFunctions& functions() {
  static constinit Lazy<HostFunctions> all;
  return all.get();
}

}  // namespace

std::int64_t host_function_number(const HostCalls& function) {
  const std::lock_guard lock(process_mutex(LockOrder::texts));
  std::deque<HostCalls>& all = functions().all;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] == function) return static_cast<std::int64_t>(i) + 1;
  all.push_back(function);
  return static_cast<std::int64_t>(all.size());
}
const HostCalls& host_function(std::int64_t number) {
  const std::lock_guard lock(process_mutex(LockOrder::texts));
  return functions().all.at(static_cast<std::size_t>(number - 1));
}

static bool is_host_call(const Node& node) { return node.op == Op::host_call; }
bool calls_host(const Graph& graph) { return any_node(graph, is_host_call); }

bool runs_once(const Node& node) {
  if (is_host_call(node)) return node.attributes<HostCalled>().gives;
  return any_inner_node(node, is_host_call);
}

}  // namespace weft
