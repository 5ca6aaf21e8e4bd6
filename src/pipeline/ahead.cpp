#include "pipeline/ahead.hpp"

#include <algorithm>
#include <atomic>
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

// Of graphs and the bodies that they call: the device that multiplies, the host where none does; and what libraries
// will be asked.
struct Wanted {
  Device products;
  Providers::Questions questions;
  std::set<const Callee*> seen;

  void add(const Graph& graph) {
    for (const Tensor& value : graph.nodes) {
      const Node& node = *value.node();
      const Device device = node.type.device;
      if (device.type == Device::Type::cpu) continue;
      if (node.op == Op::matmul) products = device;
      providers::all().add_questions(node, device, questions);
      if (const Callee* const called = node.callee(); called && seen.insert(called).second) add(called->body);
    }
  }
};

void add_steps(const Schedule& schedule, std::vector<const Payload*>& steps) {
  for (const Step& step : schedule.steps) {
    steps.push_back(step.payload.get());
    for (const Payload::Inner& inner : step.payload->inner()) add_steps(*inner.schedule, steps);
  }
}

}  // namespace

std::vector<std::jthread> ask_libraries(std::span<const Graph> graphs) try {
  constexpr std::size_t most_threads = 8;
  if (runtime::current_device_target()) return {};  // for a device that need not be there
  Wanted wanted;
  for (const Graph& graph : graphs) wanted.add(graph);
  std::vector<std::jthread> threads;
  if (wanted.products.type != Device::Type::cpu && !runtime::cuda::products_are_open(wanted.products))
    threads.push_back(started([device = wanted.products] { runtime::cuda::open_products(device); }));
  struct Line {
    Providers::Questions questions;
    std::atomic<std::size_t> next = 0;
  };
  const auto line = std::make_shared<Line>(std::move(wanted.questions));
  for (std::size_t i = 0; i < std::min(line->questions.size(), most_threads); ++i)
    threads.push_back(started([line] {
      for (std::size_t at; (at = line->next++) < line->questions.size();) line->questions[at]();
    }));
  return threads;
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
