// A graph, and the graphs of one device, on their way to launch plans: what the stages of pipeline.cpp hand on.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "pipeline.hpp"
#include "providers/sources.hpp"
#include "schedule/schedule.hpp"

namespace weft {

// What compiles, and where the result can be read.
struct CompiledSource {
  std::shared_ptr<const runtime::Functions> functions;
  std::string source_path;
  std::string origin;  // how this process came by them, for people
};

// A graph on its way to a launch plan.
struct Compilation {
  Graph graph;
  Schedule schedule;
  std::vector<runtime::EntryPoint> entries;  // of the steps
  std::shared_ptr<Executable> executable;
  std::span<const Update> updates;
  std::string title;
  ScheduleChoices choices = {};
  bool reduces_overhead = false;
  std::vector<int> constant_inputs = {};
};

// Graphs of one device: their kernels are generated and compiled together.
struct Target {
  explicit Target(Device device) : device(device), sources(device) {}
  bool on_host() const { return device.type == Device::Type::cpu; }

  Device device;
  std::vector<Compilation> graphs;
  providers::Sources sources;
  std::vector<std::string> units;
  std::vector<std::string> functions;  // of a device: function i is in unit i % units.size()
  Digest code;                         // of the kernels, however they are divided into units
  std::vector<std::string> images;     // of a device: of the units, where they are compiled beside those of others
  bool images_compiled = false;        // one of them at least, which was not in the cache
  int optimization = -1;
  CompiledSource compiled;
};

}  // namespace weft
