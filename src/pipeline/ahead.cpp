#include "pipeline/ahead.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <system_error>

#include "base/device_target.hpp"
#include "base/ending.hpp"
#include "ir/callee.hpp"
#include "providers/provider.hpp"
#include "runtime/cuda/blas.hpp"

namespace weft {
namespace {

template <class Work>
std::jthread started(Work work) {
  const auto quiet = [work = std::move(work)] {
    static constexpr std::atomic<bool> at_once = true;  // the thread that compiles waits for this one
    throw_at_end_when(&at_once);
    try {
      const NotEnding working;
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

// Of graphs and the bodies that they call: the devices that multiply, and what libraries will be asked.
struct Wanted {
  std::vector<Device> products;
  Providers::Questions questions;
  std::set<const Callee*> seen;

  void add(const Graph& graph) {
    for (const Tensor& value : graph.nodes) {
      const Node& node = *value.node();
      const Device device = node.type.device;
      if (device.type == Device::Type::cpu) continue;
      if (node.op == Op::matmul && std::ranges::find(products, device) == products.end()) products.push_back(device);
      providers::all().add_questions(node, device, questions);
      if (const Callee* const called = node.callee(); called && seen.insert(called).second) add(called->body);
    }
  }
};

// Adds threads that do all of the work between them.
void share_out(Providers::Questions work, std::vector<std::jthread>& threads) {
  constexpr std::size_t most_threads = 8;
  struct Line {
    Providers::Questions work;
    std::atomic<std::size_t> next = 0;
  };
  const auto line = std::make_shared<Line>(std::move(work));
  for (std::size_t i = 0; i < std::min(line->work.size(), most_threads); ++i)
    threads.push_back(started([line] {
      for (std::size_t at; (at = line->next++) < line->work.size();) line->work[at]();
    }));
}

void add_steps(const Schedule& schedule, Providers::Questions& work) {
  for (const Step& step : schedule.steps) {
    if (step.payload->makes_ahead()) work.emplace_back([payload = step.payload] { payload->make_ahead(); });
    for (const Payload::Inner& inner : step.payload->inner()) add_steps(*inner.schedule, work);
  }
}

}  // namespace

std::vector<std::jthread> ask_libraries(std::span<const Graph> graphs) {
  if (current_device_target()) return {};  // for a device that need not be there
  Wanted wanted;
  for (const Graph& graph : graphs) wanted.add(graph);
  std::vector<std::jthread> threads;
  for (const Device device : wanted.products) {
    if (!runtime::cuda::find_device(device)) return {};
    if (!runtime::cuda::products_are_open(device))
      threads.push_back(started([device] { runtime::cuda::open_products(device); }));
  }
  // The last first: of a training step that is the gradient of the first weights, which takes cuDNN the longest where
  // it is a convolution of an image's channels.
  std::ranges::reverse(wanted.questions);
  share_out(std::move(wanted.questions), threads);
  return threads;
}

std::vector<std::jthread> make_ahead(const Schedule& schedule) {
  Providers::Questions work;
  add_steps(schedule, work);
  std::vector<std::jthread> threads;
  share_out(std::move(work), threads);
  return threads;
}

}  // namespace weft
