#include "pipeline/places.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/fail.hpp"
#include "ir/builder.hpp"

namespace weft {
namespace {

bool on_host(const Device& device) { return device.type == Device::Type::cpu; }

void add_device(std::vector<Device>& devices, const Device& device) {
  if (!on_host(device) && std::ranges::find(devices, device) == devices.end()) devices.push_back(device);
}
// Those of its results and of what its bodies compute.
void add_devices_of(const Node& node, std::vector<Device>& devices) {
  add_device(devices, node.type.device);
  for (const Type& type : node.more_types()) add_device(devices, type.device);
  for (const auto& body : node.bodies())
    for (const Tensor& value : body->nodes) add_devices_of(*value.node(), devices);
}

class Cutter {
 public:
  Cutter(const Graph& graph, std::span<const Update> updates)
      : graph_(graph), primary_(devices_of(graph).front()), updates_(updates) {}

  CutGraph cut() {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
      numbers_[graph_.inputs[i].word()] = add_value({CutValue::Kind::input, static_cast<int>(i), graph_.inputs[i]});
    find_places();
    // What is sent, and what is done in the order of the program, with what it needs; what only needs a value that has
    // come; then the rest.
    for (const Tensor& value : graph_.nodes)
      if (is_sent(*value.node()) || is_ordered(*value.node())) {
        place_with_operands(*value.node());
        follow_arrivals();
      }
    for (follow_arrivals(); !returned_.empty(); follow_arrivals())
      arrived_.push_back(returned_.front()), returned_.pop_front();
    for (const Tensor& output : graph_.outputs) place_with_operands(*output.node());
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) give_output(i);
    while (!open_.empty()) close(open_.begin()->first);
    for (Draft& draft : drafts_) finish(draft);
    return std::move(result_);
  }

 private:
  // A part while it is put together.
  struct Draft {
    Device device;
    std::size_t begun;                                 // how many parts there were
    std::size_t part = 0;                              // its place among them, once it is closed
    std::vector<const Node*> nodes = {};               // also those that are computed wherever they are read
    std::set<const Node*> has = {};                    // the same
    std::vector<int> inputs = {};                      // values
    std::vector<std::pair<Tensor, int>> outputs = {};  // and the value that each is
    bool has_effect = false;
  };
  // Where a value is computed, or has been copied to.
  struct Origin {
    std::size_t draft = 0;  // none: a copy
    bool is_copy = false;
    Device device;
  };

  int add_value(CutValue value) {
    result_.values.push_back(std::move(value));
    return static_cast<int>(result_.values.size()) - 1;
  }

  // Computed wherever it is read: inputs, numbers, data, and what is made of such on the host.
  bool is_free(const Node& node) {
    if (node.inputs().empty()) return !is_effect(node) && !is_collective(node);
    if (const auto found = free_.find(&node); found != free_.end()) return found->second;
    const bool free = on_host(node.type.device) && !is_effect(node) && !is_collective(node) &&
                      std::ranges::all_of(node.inputs(), [this](const Tensor& operand) {
                        return on_host(type_of(operand).device) && is_free(*operand.node());
                      });
    return free_[&node] = free;
  }

  // Where each node is computed, and of which devices' work its value is made. What gives the host a value is done
  // where the value is.
  void find_places() {
    places_.resize(graph_.nodes.size(), primary_);
    made_by_.resize(graph_.nodes.size(), 0);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = *graph_.nodes[i].node();
      if (is_free(node)) continue;
      std::vector<Device> devices;
      add_devices_of(node, devices);
      if (devices.size() > 1)
        fail("compile", node.loc, "one operation has values on ", to_string(devices[0]), " and ", to_string(devices[1]),
             ": a loop, a branch and a call run on one device");
      for (const Tensor& operand : node.inputs()) {
        const std::uint32_t number = graph_.number(operand);
        made_by_[i] |= made_by_[number];
        if (!devices.empty()) continue;
        if (!on_host(type_of(operand).device))
          places_[i] = type_of(operand).device;
        else if (!is_free(*operand.node()))
          places_[i] = places_[number];
      }
      if (!devices.empty()) places_[i] = devices.front();
      if (!is_sent(node)) made_by_[i] |= bit(places_[i]);
    }
  }
  static std::uint64_t bit(Device device) { return std::uint64_t{1} << device.index % 64; }
  Device place_of(const Node& node) const { return places_[graph_.number(node)]; }

  Draft& open_part(Device device) {
    const auto found = open_.find(key(device));
    if (found != open_.end()) return drafts_[found->second];
    open_[key(device)] = drafts_.size();
    drafts_.push_back({device, result_.parts.size()});
    return drafts_.back();
  }
  static int key(Device device) { return device.index; }
  bool is_open(std::size_t draft) const {
    return std::ranges::any_of(open_, [=](const auto& each) { return each.second == draft; });
  }
  void close(int device) {
    Draft& draft = drafts_[open_.at(device)];
    draft.part = result_.parts.size();
    result_.parts.push_back({draft.device, {}, {}, {}});
    open_.erase(device);
  }

  // In memory, for other parts to read.
  int number_of(const Tensor& value) {
    if (const auto found = numbers_.find(value.word()); found != numbers_.end()) return found->second;
    const int number = add_value({CutValue::Kind::between, 0, value});
    numbers_[value.word()] = number;
    const auto origin = origins_.find(value.node());
    WEFT_CHECK(origin != origins_.end() && !origin->second.is_copy, "a value between parts that no part computes");
    drafts_[origin->second.draft].outputs.emplace_back(value, number);
    return number;
  }

  // A value of an earlier part of the device is computed again from these by elementwise operations, where they take no
  // more bytes between parts than the value does. Nothing: the value itself is kept.
  std::optional<std::vector<Tensor>> leaves_if_made_again(const Tensor& value, Device device) const {
    constexpr std::size_t most_leaves = 6, most_nodes = 64;
    std::vector<Tensor> leaves, stack{value};
    std::set<const Node*> met;
    std::int64_t saved = 0;
    const auto own = open_.find(key(device));
    while (!stack.empty()) {
      const Tensor each = stack.back();
      const Node& node = *each.node();
      stack.pop_back();
      if (!met.insert(&node).second || (is_known_free(node) && node.op != Op::input)) continue;
      const auto origin = origins_.find(&node);
      const bool is_there = node.op == Op::input || numbers_.contains(each.word()) || origin->second.is_copy ||
                            (own != open_.end() && own->second == origin->second.draft);
      if (!is_there && is_elementwise(node) && origin->second.device == device) {
        stack.insert(stack.end(), node.inputs().begin(), node.inputs().end());
        if (met.size() > most_nodes) return {};
        continue;
      }
      if (each.same(value) || leaves.size() == most_leaves) return {};
      leaves.push_back(each);
      if (!is_there) saved += bytes_of(each);
    }
    return saved <= bytes_of(value) ? std::optional(leaves) : std::nullopt;
  }
  static bool is_elementwise(const Node& node) {
    const OpKind kind = info(node.op).kind;
    return node.output_count == 1 &&
           (kind == OpKind::pointwise || kind == OpKind::cast || kind == OpKind::view || kind == OpKind::random);
  }
  bool is_known_free(const Node& node) const {
    const auto found = free_.find(&node);
    return node.inputs().empty() || (found != free_.end() && found->second);
  }
  std::int64_t bytes_of(const Tensor& value) const {
    const Type& type = type_of(value);
    return storage_bytes(type.dtype, dims::at_hints(type.shape.element_count(), graph_.symbols));
  }

  // Brings an operand within reach of what is computed on the device: nothing is left to do in the part but to read it.
  void reach(const Tensor& operand, Device device) {
    const Node& node = *operand.node();
    if (is_free(node)) return;
    const Origin& origin = origins_.at(&node);
    const auto own = open_.find(key(device));
    if (!origin.is_copy && own != open_.end() && own->second == origin.draft) return;
    if (const auto leaves = leaves_if_made_again(operand, device)) {
      for (const Tensor& leaf : *leaves) reach(leaf, device);
      return;
    }
    if (!origin.is_copy && is_open(origin.draft)) close(key(drafts_[origin.draft].device));
    // A part waits for all that it reads before it begins: what is only coming is for the next one.
    const int number = number_of(operand);
    const bool comes = origin.is_copy && waited_for_.emplace(key(device), number).second;
    if (own == open_.end()) return;
    const Draft& part = drafts_[own->second];
    if ((comes || (!origin.is_copy && drafts_[origin.draft].part >= part.begun)) && !part.nodes.empty())
      close(key(device));
  }
  void add_input(Draft& draft, const Tensor& value) {
    const int number = number_of(value);
    if (std::ranges::find(draft.inputs, number) == draft.inputs.end()) draft.inputs.push_back(number);
  }
  // What the part reads of others, and what it computes of the host's values.
  void take(Draft& draft, const Tensor& value) {
    const Node& node = *value.node();
    if (node.op == Op::input) return add_input(draft, value);
    if (!is_free(node) && !draft.has.contains(&node) && !leaves_if_made_again(value, draft.device))
      return add_input(draft, value);
    if (!draft.has.insert(&node).second) return;
    for (const Tensor& operand : node.inputs()) take(draft, operand);
    draft.nodes.push_back(&node);
  }

  static bool is_ordered(const Node& node) { return is_effect(node) || is_collective(node); }
  static bool is_sent(const Node& node) {  // from one device to another
    if (node.op != Op::transfer || on_host(node.type.device)) return false;
    const Device from = type_of(node.input(0)).device;
    return !on_host(from) && from != node.type.device;
  }

  // Values that have come to a device. One that is made of the device's own work is an answer: until it comes the
  // device does what else there is to send, so of microbatches it has all forward passes before the first backward one.
  void follow_arrivals() {
    while (!arrived_.empty()) {
      const Node& sent = *arrived_.front();
      arrived_.pop_front();
      place_what_reads(sent);
    }
  }
  // What can be computed on the device now, and only now, and what of it is sent on.
  void place_what_reads(const Node& sent) {
    const Device device = place_of(sent);
    reach(Tensor(const_cast<Node*>(&sent)), device);  // what its readers need besides is computed when it has come
    std::vector<bool> reads(graph_.nodes.size(), false), waits(graph_.nodes.size(), false);
    reads[graph_.number(sent)] = true;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = *graph_.nodes[i].node();
      if (is_free(node)) continue;
      if (origins_.contains(&node)) {  // of other values that come it waits too
        waits[i] = is_sent(node) && places_[i] == device &&
                   !waited_for_.contains({key(device), numbers_.at(graph_.nodes[i].word())});
        continue;
      }
      bool is_reader = false, is_late = is_sent(node) ? type_of(node.input(0)).device != device : places_[i] != device;
      for (const Tensor& operand : node.inputs()) {
        is_reader = is_reader || reads[graph_.number(operand)];
        is_late = is_late || waits[graph_.number(operand)];
      }
      waits[i] = is_late || is_ordered(node) || (is_sent(node) && !is_reader);
      if (waits[i] || !is_reader) continue;
      place_with_operands(node);
      reads[i] = !is_sent(node);
      waits[i] = is_sent(node);
    }
  }

  // What the node needs, in the order of the graph, and it. Passes leave nodes that can be computed early in front, as
  // the first layer of each microbatch: a device that computes all of them first sends its first value late.
  void place_with_operands(const Node& last) {
    std::vector<std::uint32_t> found;
    std::vector<const Node*> stack;
    std::set<const Node*> met;
    const auto visit = [&](const Node& node) {
      if (is_free(node) || origins_.contains(&node) || !met.insert(&node).second) return;
      stack.push_back(&node);
    };
    visit(last);
    while (!stack.empty()) {
      const Node& node = *stack.back();
      stack.pop_back();
      found.push_back(graph_.number(node));
      for (const Tensor& operand : node.inputs()) visit(*operand.node());
    }
    std::ranges::sort(found);
    for (const std::uint32_t number : found) place(*graph_.nodes[number].node());
  }

  void place(const Node& node) {
    const Device device = place_of(node);
    if (is_sent(node)) return copy(node, device);
    for (const Tensor& operand : node.inputs()) reach(operand, device);
    const bool ordered = is_ordered(node);
    for (auto each = open_.begin(); ordered && each != open_.end();) {
      const auto [other, draft] = *each++;
      if (other != key(device) && drafts_[draft].has_effect) close(other);
    }
    Draft& draft = open_part(device);
    for (const Tensor& operand : node.inputs()) take(draft, operand);
    draft.nodes.push_back(&node);
    draft.has.insert(&node);
    draft.has_effect = draft.has_effect || ordered;
    origins_[&node] = {open_.at(key(device)), false, device};
  }

  void copy(const Node& node, Device device) {
    const Tensor& operand = node.input(0);
    const Device source = type_of(operand).device;
    if (is_free(*operand.node()) &&
        operand.node()->op != Op::input) {  // a number, which is made where it is copied from
      Draft& draft = open_part(source);
      take(draft, operand);
      const int number = add_value({CutValue::Kind::between, 0, operand});
      numbers_[operand.word()] = number;
      draft.outputs.emplace_back(operand, number);
      close(key(source));
    } else if (!is_free(*operand.node())) {
      const Origin& origin = origins_.at(operand.node());
      if (!origin.is_copy && is_open(origin.draft)) close(key(drafts_[origin.draft].device));
    }
    const Tensor made(const_cast<Node*>(&node));
    const int from = number_of(operand), to = add_value({CutValue::Kind::between, 0, made});
    numbers_[made.word()] = to;
    result_.parts.push_back({device, {}, {from}, {to}});
    origins_[&node] = {0, true, device};
    (made_by_[graph_.number(node)] & bit(device) ? returned_ : arrived_).push_back(&node);
  }

  // The first output that a value is lies in the output's memory; further ones are copies.
  void give_output(std::size_t index) {
    const Tensor& value = graph_.outputs[index];
    const auto origin = origins_.find(value.node());
    const bool computed = origin != origins_.end();
    const auto found = numbers_.find(value.word());
    const bool is_first =
        computed && (found == numbers_.end() ||
                     result_.values[static_cast<std::size_t>(found->second)].kind == CutValue::Kind::between);
    if (is_first) {
      CutValue& own = result_.values[static_cast<std::size_t>(number_of(value))];
      own.kind = CutValue::Kind::output;
      own.index = static_cast<int>(index);
      return;
    }
    const Device named = type_of(value).device;
    const Device device = !on_host(named) ? named : computed ? origin->second.device : primary_;
    if (computed) reach(value, device);
    Draft& draft = open_part(device);
    take(draft, value);
    draft.outputs.emplace_back(value, add_value({CutValue::Kind::output, static_cast<int>(index), value}));
  }

  void finish(Draft& draft) {
    CutPart& part = result_.parts[draft.part];
    std::map<std::uint64_t, Tensor> mapped;
    std::vector<Tensor> inputs, outputs, effects;
    std::ranges::sort(draft.inputs);
    for (const int number : draft.inputs) {
      const Tensor& value = result_.values[static_cast<std::size_t>(number)].value;
      inputs.push_back(Builder(*value.node()).input(inputs.size(), type_of(value)));
      mapped[value.word()] = inputs.back();
    }
    std::ranges::sort(draft.nodes, {}, [this](const Node* node) { return graph_.number(*node); });
    std::map<const Node*, Tensor> made;
    const auto map = [&](const Tensor& value) {
      if (const auto found = mapped.find(value.word()); found != mapped.end()) return found->second;
      return Tensor(made.at(value.node()).node(), value.output());
    };
    std::vector<Tensor> operands;
    for (const Node* const node : draft.nodes) {
      operands.clear();
      for (const Tensor& operand : node->inputs()) operands.push_back(map(operand));
      const Tensor copied = Builder::copy(*node, operands);
      made[node] = copied;
      if (is_effect(*node)) effects.push_back(copied);
    }
    for (const auto& [value, number] : draft.outputs) {
      outputs.push_back(map(value));
      part.outputs.push_back(number);
    }
    part.inputs = draft.inputs;
    part.graph = make_graph(std::move(inputs), std::move(outputs), std::move(effects));
    part.graph->symbols = graph_.symbols;
    part.graph->conditions = graph_.conditions;
    for (const Update& update : updates_) add_update(part, update);
  }
  void add_update(CutPart& part, const Update& update) const {
    const auto place_of = [this](const std::vector<int>& list, CutValue::Kind kind, int index) {
      const auto found = std::ranges::find_if(list, [&](int number) {
        const CutValue& value = result_.values[static_cast<std::size_t>(number)];
        return value.kind == kind && value.index == index;
      });
      return found == list.end() ? -1 : static_cast<int>(found - list.begin());
    };
    const Update own{place_of(part.inputs, CutValue::Kind::input, update.input),
                     place_of(part.outputs, CutValue::Kind::output, update.output)};
    if (own.input >= 0 && own.output >= 0) part.updates.push_back(own);
  }

  const Graph& graph_;
  const Device primary_;
  const std::span<const Update> updates_;
  CutGraph result_;
  std::map<std::uint64_t, int> numbers_;        // by handle: the place among the values
  std::vector<Device> places_;                  // by node
  std::vector<std::uint64_t> made_by_;          // by node: devices, a bit each
  std::deque<const Node*> arrived_, returned_;  // copies whose readers have not been looked for
  std::map<const Node*, Origin> origins_;
  std::map<const Node*, bool> free_;
  std::vector<Draft> drafts_;
  std::map<int, std::size_t> open_;           // by device: which draft
  std::set<std::pair<int, int>> waited_for_;  // copies, by device and value
};

}  // namespace

std::vector<Device> devices_of(const Graph& graph) {
  std::vector<Device> devices;
  for (const Tensor& value : graph.nodes) add_devices_of(*value.node(), devices);
  return devices;
}

CutGraph cut_by_place(const Graph& graph, std::span<const Update> updates) { return Cutter(graph, updates).cut(); }

}  // namespace weft
