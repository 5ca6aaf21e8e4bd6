#include "pipeline/ahead.hpp"

#include <algorithm>
#include <set>
#include <system_error>

#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "providers/provider.hpp"
#include "runtime/cuda/blas.hpp"
#include "runtime/device_target.hpp"

namespace weft {
namespace {

template <class Work>
std::jthread started(Work work) {
  const auto quiet = [work = std::move(work)] {
    try {
      work();
    } catch (const std::exception&) {  // who needs it tries again
    }
  };
  try {
    return std::jthread(quiet);
  } catch (const std::system_error&) {  // no more threads can be had
    return {};
  }
}

// Of a device that is there. The host where there is none.
Device device_of_products(const Graph& graph, std::set<const Callee*>& seen) {
  for (const Tensor& value : graph.nodes) {
    const Node& node = *value.node();
    if (node.op == Op::matmul && node.type.device.type != Device::Type::cpu) return node.type.device;
    if (const Callee* const called = node.callee(); called && seen.insert(called).second)
      if (const Device found = device_of_products(called->body, seen); found.type != Device::Type::cpu) return found;
  }
  return {};
}

void add_steps(const Schedule& schedule, std::vector<const Payload*>& steps) {
  for (const Step& step : schedule.steps) {
    steps.push_back(step.payload.get());
    for (const Payload::Inner& inner : step.payload->inner()) add_steps(*inner.schedule, steps);
  }
}

}  // namespace

std::jthread open_libraries(std::span<const Graph> graphs) try {
  if (runtime::current_device_target()) return {};  // for a device that need not be there
  std::set<const Callee*> seen;
  for (const Graph& graph : graphs)
    if (const Device device = device_of_products(graph, seen);
        device.type != Device::Type::cpu && !runtime::cuda::products_are_open(device))
      return started([device] { runtime::cuda::open_products(device); });
  return {};
} catch (const Error&) {  // there is no such device
  return {};
}

std::jthread make_ahead(const std::vector<Compilation>& graphs) {
  std::vector<const Payload*> steps;
  for (const Compilation& compilation : graphs) add_steps(compilation.schedule, steps);
  std::erase_if(steps, [](const Payload* step) { return !step->makes_ahead(); });
  if (steps.empty()) return {};
  return started([steps] {
    for (const Payload* const step : steps) step->make_ahead();
  });
}

}  // namespace weft
