// A graph whose values are on several devices, cut into graphs of one device each. In: an optimized graph. Out: its
// parts and the copies between devices, in the order in which a plan runs them.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.hpp"

namespace weft {

// The devices, besides the host, that values of the graph are on, in the order in which they are met.
std::vector<Device> devices_of(const Graph& graph);

struct CutValue {
  enum class Kind : std::uint8_t { input, output, between } kind;
  int index = 0;  // input, output: which of the graph
  Tensor value;
};

// A graph of one device, or a copy of one value from a device to another.
struct CutPart {
  Device device;
  std::optional<Graph> graph;        // none: a copy
  std::vector<int> inputs, outputs;  // places in the list of values
  std::vector<Update> updates = {};  // of the part's inputs and outputs
};

struct CutGraph {
  std::vector<CutValue> values;
  std::vector<CutPart> parts;
};

// Of a graph on several devices. A part ends where a value of it goes to another device, and where it needs one that
// comes from there: so devices work side by side. A device does first what others wait for, then what answers let it do.
// What is computed of the host's values alone is computed in each part that reads it, and so is what elementwise
// operations make of no more bytes than they give: values between parts are in memory. Throws the user's Error where one
// operation is on two devices.
CutGraph cut_by_place(const Graph& graph, std::span<const Update> updates);

}  // namespace weft
