#include "runtime/cuda/dnn_graph.hpp"

#include <algorithm>
#include <cstdint>

#include "base/fail.hpp"

namespace weft::runtime::cuda {

namespace {

// Numbers of cudnn_graph.h: kinds of descriptors, types of attributes, names of attributes.
constexpr int pointwise_kind = 0, convolution_kind = 1, engine_kind = 2, config_kind = 3, heuristic_kind = 4,
              plan_kind = 5, output_operation = 10, weight_operation = 11, input_operation = 12,
              pointwise_operation = 13, graph_kind = 15, pack_kind = 16, tensor_kind = 17, product_kind = 18,
              product_operation = 19, reduction_kind = 21, reduction_operation = 22, reshape_operation = 31;
constexpr int a_handle = 0, a_data_type = 1, a_bool = 2, an_i64 = 3, an_f32 = 4, a_char = 5, a_pointer = 6,
              a_convolution_mode = 7, a_heuristic_mode = 8, a_note = 11, a_pointwise_mode = 14, a_descriptor = 15,
              a_reduction = 18;
constexpr int pointwise_mode = 0, pointwise_computed = 1, pointwise_axis = 9;
constexpr int pointwise_what = 750, pointwise_x = 751, pointwise_b = 752, pointwise_y = 753, pointwise_t = 758;
constexpr int product_computed = 1500, product_a = 1520, product_b = 1521, product_c = 1522, product_what = 1523;
constexpr int reduction_mode = 1600, reduction_computed = 1601, reduction_x = 1610, reduction_y = 1611,
              reduction_what = 1612;
constexpr int reshape_x = 2200, reshape_y = 2201;
constexpr int convolution_computed = 100, convolution_mode = 101, convolution_dilation = 102, convolution_strides = 103,
              convolution_high = 104, convolution_low = 105, convolution_axes = 106, cross_correlation = 1;
constexpr int tensor_alignment = 900, tensor_type = 901, tensor_sizes = 902, tensor_strides = 903, tensor_id = 906,
              tensor_is_virtual = 907, tensor_is_number = 908;
constexpr int graph_handle = 800, graph_operations = 801;
constexpr int heuristic_mode = 200, heuristic_graph = 201, heuristic_results = 202, heuristic_device = 204;
constexpr int config_engine = 300, engine_notes = 1303, note_count = 10, note_nondeterministic = 4;
constexpr int plan_handle = 400, plan_config = 401, plan_workspace = 402, plan_text = 405, plan_device = 407;
constexpr int pack_ids = 1000, pack_pointers = 1001, pack_workspace = 1003;
constexpr int by_model = 3, fallback = 2;  // heuristics

constexpr std::int64_t alignment = 16;  // bytes, of every value in memory

DnnGraph::Four row_by_row(const DnnGraph::Four& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

}  // namespace

// ---- descriptions ---------------------------------------------------------------------------------------------------

DnnDescription::DnnDescription(int type) {
  check_dnn(dnn().cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}
DnnDescription::~DnnDescription() {
  if (descriptor_) dnn().cudnnBackendDestroyDescriptor(descriptor_);
}
void DnnDescription::set(int name, int type, const void* values, std::int64_t count) const {
  check_dnn(dnn().cudnnBackendSetAttribute(descriptor_, name, type, count, values), "cudnnBackendSetAttribute");
}
void DnnDescription::set(int name, const DnnDescription& other) const { set(name, a_descriptor, &other.descriptor_); }
std::vector<std::int64_t> DnnDescription::numbers(int name, int type, std::int64_t most) const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(most), 0);
  std::int64_t count = 0;
  if (type == an_i64) {
    check_dnn(dnn().cudnnBackendGetAttribute(descriptor_, name, type, most, &count, all.data()), "an attribute");
  } else {
    std::vector<int> narrow(static_cast<std::size_t>(most), 0);
    check_dnn(dnn().cudnnBackendGetAttribute(descriptor_, name, type, most, &count, narrow.data()), "an attribute");
    all.assign(narrow.begin(), narrow.end());
  }
  all.resize(static_cast<std::size_t>(count));
  return all;
}
void DnnDescription::finish(const char* what) const { check_dnn(dnn().cudnnBackendFinalize(descriptor_), what); }

// ---- values ---------------------------------------------------------------------------------------------------------

DnnGraph::Value DnnGraph::value(std::int64_t id, DnnType type, Four sizes, Four strides, bool is_virtual,
                                bool is_number) {
  const DnnDescription& made = make(tensor_kind);
  made.set(tensor_type, a_data_type, &type);
  made.set(tensor_sizes, an_i64, sizes.data(), 4);
  made.set(tensor_strides, an_i64, strides.data(), 4);
  made.set(tensor_id, an_i64, &id);
  made.set(tensor_alignment, an_i64, &alignment);
  made.set(tensor_is_virtual, a_bool, &is_virtual);
  made.set(tensor_is_number, a_bool, &is_number);
  made.finish("a tensor");
  return {made.get(), sizes, type};
}
DnnGraph::Value DnnGraph::memory(std::int64_t id, DnnType type, Four sizes, Four strides) {
  return value(id, type, sizes, strides, false, false);
}
DnnGraph::Value DnnGraph::number(float number) {
  numbers_.emplace_back(next_, number);
  return value(next_++, DnnType::f32, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}
DnnGraph::Value DnnGraph::between(DnnType type, Four sizes, Four strides) {
  return value(next_++, type, sizes, strides == Four{} ? row_by_row(sizes) : strides, true, false);
}

// ---- operations -----------------------------------------------------------------------------------------------------

const DnnDescription& DnnGraph::pointwise_of(DnnPointwise what, DnnType computed, std::int64_t axis) {
  const DnnDescription& made = make(pointwise_kind);
  made.set(pointwise_mode, a_pointwise_mode, &what);
  made.set(pointwise_computed, a_data_type, &computed);
  if (axis >= 0) made.set(pointwise_axis, an_i64, &axis);
  made.finish("a pointwise function");
  return made;
}
void DnnGraph::add_pointwise(const DnnDescription& what, const Value& result, const Value& a, const Value* b,
                             const Value* c) {
  const DnnDescription& made = make(pointwise_operation);
  made.set(pointwise_what, what);
  made.set(pointwise_x, a_descriptor, &a.descriptor);
  if (b) made.set(pointwise_b, a_descriptor, &b->descriptor);
  if (c) made.set(pointwise_t, a_descriptor, &c->descriptor);
  made.set(pointwise_y, a_descriptor, &result.descriptor);
  made.finish("a pointwise operation");
  operations_.push_back(made.get());
}
void DnnGraph::pointwise_to(const Value& result, DnnPointwise what, const Value& a, const Value* b, const Value* c) {
  const DnnType computed = result.type == DnnType::boolean ? DnnType::boolean : DnnType::f32;
  add_pointwise(pointwise_of(what, computed), result, a, b, c);
}
DnnGraph::Value DnnGraph::pointwise(DnnPointwise what, const Value& a, const Value* b, const Value* c, DnnType type) {
  const Value result = between(type, a.sizes);
  pointwise_to(result, what, a, b, c);
  return result;
}
DnnGraph::Value DnnGraph::index(const Value& like, std::int64_t axis) {
  const Value result = between(DnnType::i32, like.sizes);
  add_pointwise(pointwise_of(DnnPointwise::index, DnnType::f32, axis), result, like, nullptr, nullptr);
  return result;
}
void DnnGraph::product(const Value& a, const Value& b, const Value& result) {
  const DnnDescription& what = make(product_kind);
  constexpr DnnType computed = DnnType::f32;
  what.set(product_computed, a_data_type, &computed);
  what.finish("a product's type");
  const DnnDescription& made = make(product_operation);
  made.set(product_a, a_descriptor, &a.descriptor);
  made.set(product_b, a_descriptor, &b.descriptor);
  made.set(product_c, a_descriptor, &result.descriptor);
  made.set(product_what, what);
  made.finish("a product");
  operations_.push_back(made.get());
}
void DnnGraph::convolution(Convolved result, const Value& input, const Value& weight, const Value& output,
                           Windows windows) {
  const DnnDescription& what = make(convolution_kind);
  constexpr DnnType computed = DnnType::f32;
  constexpr std::int64_t axes = 2;
  what.set(convolution_computed, a_data_type, &computed);
  what.set(convolution_mode, a_convolution_mode, &cross_correlation);
  what.set(convolution_axes, an_i64, &axes);
  what.set(convolution_low, an_i64, windows.padding.data(), axes);
  what.set(convolution_high, an_i64, windows.padding.data(), axes);
  what.set(convolution_strides, an_i64, windows.strides.data(), axes);
  what.set(convolution_dilation, an_i64, windows.dilation.data(), axes);
  what.finish("a convolution's windows");
  // Names of attributes follow one another in all three: alpha, beta, the windows, weight, input, output.
  const auto [kind, first] = result == Convolved::output  ? std::pair(output_operation, 700)
                             : result == Convolved::input ? std::pair(input_operation, 706)
                                                          : std::pair(weight_operation, 712);
  constexpr float one = 1, zero = 0;
  const DnnDescription& made = make(kind);
  made.set(first, an_f32, &one);
  made.set(first + 1, an_f32, &zero);
  made.set(first + 2, what);
  made.set(first + 3, a_descriptor, &weight.descriptor);
  made.set(first + 4, a_descriptor, &input.descriptor);
  made.set(first + 5, a_descriptor, &output.descriptor);
  made.finish("a convolution");
  operations_.push_back(made.get());
}
void DnnGraph::reduce(DnnReduction how, const Value& value, const Value& result) {
  const DnnDescription& what = make(reduction_kind);
  constexpr DnnType computed = DnnType::f32;
  what.set(reduction_mode, a_reduction, &how);
  what.set(reduction_computed, a_data_type, &computed);
  what.finish("a reduction's type");
  const DnnDescription& made = make(reduction_operation);
  made.set(reduction_x, a_descriptor, &value.descriptor);
  made.set(reduction_y, a_descriptor, &result.descriptor);
  made.set(reduction_what, what);
  made.finish("a reduction");
  operations_.push_back(made.get());
}
void DnnGraph::reshape(const Value& value, const Value& result) {
  const DnnDescription& made = make(reshape_operation);
  made.set(reshape_x, a_descriptor, &value.descriptor);
  made.set(reshape_y, a_descriptor, &result.descriptor);
  made.finish("a reshape");
  operations_.push_back(made.get());
}

// ---- plans ----------------------------------------------------------------------------------------------------------

std::vector<DnnDescription> DnnGraph::choices(const DnnTarget& target, bool deterministic) const {
  DnnDescription graph(graph_kind);
  graph.set(graph_operations, a_descriptor, operations_.data(), static_cast<std::int64_t>(operations_.size()));
  if (target.handle) graph.set(graph_handle, a_handle, &target.handle);
  graph.finish("a graph of operations");
  std::vector<DnnDescription> all;
  for (const int mode : {by_model, fallback}) {
    DnnDescription heuristic(heuristic_kind);
    heuristic.set(heuristic_graph, graph);
    heuristic.set(heuristic_mode, a_heuristic_mode, &mode);
    if (target.device) heuristic.set(heuristic_device, *target.device);
    if (dnn().cudnnBackendFinalize(heuristic.get()) != 0) continue;
    std::int64_t count = 0;
    dnn().cudnnBackendGetAttribute(heuristic.get(), heuristic_results, a_descriptor, 0, &count, nullptr);
    std::vector<DnnDescription> configs;
    std::vector<DnnDescriptor*> places;
    for (std::int64_t i = 0; i < count; ++i) places.push_back(configs.emplace_back(config_kind).get());
    if (dnn().cudnnBackendGetAttribute(heuristic.get(), heuristic_results, a_descriptor, count, &count,
                                       places.data()) != 0)
      continue;
    for (std::int64_t i = 0; i < count; ++i) {
      DnnDescription& config = configs[static_cast<std::size_t>(i)];
      if (deterministic) {
        DnnDescription engine(engine_kind);
        DnnDescriptor* place = engine.get();
        std::int64_t one = 0;
        check_dnn(dnn().cudnnBackendGetAttribute(config.get(), config_engine, a_descriptor, 1, &one, &place),
                  "an engine");
        const std::vector<std::int64_t> notes = engine.numbers(engine_notes, a_note, note_count);
        if (std::find(notes.begin(), notes.end(), note_nondeterministic) != notes.end()) continue;
      }
      all.push_back(std::move(config));
    }
    if (mode == by_model && !all.empty()) break;  // the others are for what the model knows nothing of
  }
  return all;
}

bool DnnGraph::has_plan(const DnnTarget& target, bool deterministic) const {
  return !choices(target, deterministic).empty();
}

std::shared_ptr<const DnnPlan> DnnGraph::plan(const DnnTarget& target, bool deterministic) const {
  const auto first = plans(target, deterministic, 1, SIZE_MAX);
  return first.empty() ? nullptr : first.front();
}

std::vector<std::shared_ptr<const DnnPlan>> DnnGraph::plans(const DnnTarget& target, bool deterministic,
                                                            std::size_t most, std::size_t most_workspace) const {
  std::vector<std::shared_ptr<const DnnPlan>> all;
  for (const DnnDescription& config : choices(target, deterministic)) {
    if (all.size() == most) break;
    DnnDescription made(plan_kind);
    made.set(plan_config, config);
    if (target.handle) made.set(plan_handle, a_handle, &target.handle);
    if (target.device) made.set(plan_device, *target.device);
    if (dnn().cudnnBackendFinalize(made.get()) != 0) continue;
    std::shared_ptr<const DnnPlan> plan(new DnnPlan(std::move(made), numbers_));
    if (plan->workspace() <= most_workspace) all.push_back(std::move(plan));
  }
  return all;
}

std::shared_ptr<const DnnPlan> DnnGraph::plan_from(const DnnTarget& target, std::string_view text) const {
  if (text.empty()) return nullptr;
  DnnDescription made(plan_kind);
  if (target.handle) made.set(plan_handle, a_handle, &target.handle);
  if (target.device) made.set(plan_device, *target.device);
  const auto count = static_cast<std::int64_t>(text.size());
  if (dnn().cudnnBackendSetAttribute(made.get(), plan_text, a_char, count, text.data()) != 0) return nullptr;
  if (dnn().cudnnBackendFinalize(made.get()) != 0) return nullptr;
  return std::shared_ptr<const DnnPlan>(new DnnPlan(std::move(made), numbers_));
}

std::string DnnPlan::text() const {
  std::int64_t count = 0;
  if (dnn().cudnnBackendGetAttribute(plan_.get(), plan_text, a_char, 0, &count, nullptr) != 0 || count <= 0) return {};
  std::string text(static_cast<std::size_t>(count), '\0');
  if (dnn().cudnnBackendGetAttribute(plan_.get(), plan_text, a_char, count, &count, text.data()) != 0) return {};
  text.resize(static_cast<std::size_t>(count));
  return text;
}

DnnPlan::DnnPlan(DnnDescription plan, std::vector<std::pair<std::int64_t, float>> numbers)
    : plan_(std::move(plan)), numbers_(std::move(numbers)) {
  workspace_ = static_cast<std::size_t>(plan_.numbers(plan_workspace, an_i64, 1)[0]);
}

void DnnPlan::run(DnnHandle* handle, std::span<const std::int64_t> ids, std::span<void* const> pointers,
                  void* workspace) const {
  std::vector<std::int64_t> all(ids.begin(), ids.end());
  std::vector<void*> places(pointers.begin(), pointers.end());
  for (const auto& [id, number] : numbers_) {
    all.push_back(id);
    places.push_back(const_cast<float*>(&number));
  }
  DnnDescription pack(pack_kind);
  pack.set(pack_ids, an_i64, all.data(), static_cast<std::int64_t>(all.size()));
  pack.set(pack_pointers, a_pointer, places.data(), static_cast<std::int64_t>(places.size()));
  pack.set(pack_workspace, a_pointer, &workspace);
  pack.finish("the values of a plan");
  check_dnn(dnn().cudnnBackendExecute(handle, plan_.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace weft::runtime::cuda
