#include "runtime/cuda/attention.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/fail.hpp"
#include "runtime/cuda/answers.hpp"
#include "runtime/cuda/attention_arguments.hpp"
#include "runtime/cuda/dnn_library.hpp"
#include "runtime/cuda/per_device.hpp"
#include "runtime/cuda/stored_answer.hpp"
#include "runtime/fields.hpp"

namespace weft::runtime::cuda {

namespace {

constexpr std::size_t oldest = 91600;  // before, keys that are no multiple of 128 need a mask of their own
constexpr std::size_t workspace_alignment = 256;
constexpr std::int64_t sums_id = 100, accumulated_id = 101;  // values in the workspace

using Four = DnnGraph::Four;
using Value = DnnGraph::Value;

DnnType type_of(DType dtype) {
  return dtype == DType::f16 ? DnnType::f16 : dtype == DType::bf16 ? DnnType::bf16 : DnnType::f32;
}
Four row_by_row(const Four& sizes) { return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}; }
Four transposed(const Four& of) { return {of[0], of[1], of[3], of[2]}; }

// The two graphs are those in which the library finds its fused kernels, operation by operation.
class Builder {
 public:
  Builder(const AttentionSizes& sizes, DnnGraph& graph)
      : s_(sizes), graph_(graph), type_(type_of(sizes.dtype)), pairs_{s_.batch, s_.heads, s_.queries, s_.keys} {}

  void forward() {
    const Value result = memory(Attended::output), stats = memory(Attended::stats);
    const Value scores = masked(scored(memory(Attended::query), memory(Attended::key, true)));
    const Value greatest = graph_.between(DnnType::f32, rows()), sum = graph_.between(DnnType::f32, rows());
    graph_.reduce(DnnReduction::greatest, scores, greatest);
    const Value lowered = graph_.pointwise(DnnPointwise::subtract, scores, &greatest);
    const Value raised = graph_.pointwise(DnnPointwise::exp, lowered);
    graph_.reduce(DnnReduction::sum, raised, sum);
    const Value logarithm = graph_.pointwise(DnnPointwise::log, sum);
    graph_.pointwise_to(stats, DnnPointwise::add, greatest, &logarithm);
    const Value weights = graph_.pointwise(DnnPointwise::divide, raised, &sum, nullptr, type_);
    graph_.product(weights, memory(Attended::value), result);
  }

  void backward() {
    const Value query = memory(Attended::query), key = memory(Attended::key, true),
                value = memory(Attended::value, true), output = memory(Attended::output),
                stats = memory(Attended::stats), given = memory(Attended::given);
    // The sum over features of the output and its gradient, of each row.
    const Value both = graph_.pointwise(DnnPointwise::multiply, given, &output);
    const Value reduced = graph_.between(DnnType::f32, rows());
    graph_.reduce(DnnReduction::sum, both, reduced);
    const Value one = graph_.number(1);
    const Value sums = graph_.memory(sums_id, DnnType::f32, rows(), {s_.heads * s_.queries, s_.queries, 1, 1});
    graph_.pointwise_to(sums, DnnPointwise::multiply, reduced, &one);
    // The weights again, and from them the gradient of the values.
    const Value raised = graph_.pointwise(DnnPointwise::subtract, with_mask(scored(query, key)), &stats);
    const Value weights = graph_.pointwise(DnnPointwise::exp, causal(raised));
    to_keys(turned(weights), given, Attended::of_value);
    // The gradient of the scores, from it those of keys and queries.
    const Value of_weights = graph_.between(DnnType::f32, pairs_);
    graph_.product(given, value, of_weights);
    const Value centered = graph_.pointwise(DnnPointwise::subtract, of_weights, &sums);
    const Value weighted = graph_.pointwise(DnnPointwise::multiply, centered, &weights);
    const Value of_scores = graph_.pointwise(DnnPointwise::multiply, weighted, &scale());
    to_keys(turned(of_scores), query, Attended::of_key);
    const Value keys = graph_.between(DnnType::f32, s_.sizes_of(Attended::key), strides(Attended::key));
    graph_.reshape(key, keys);
    if (s_.is_deterministic) return graph_.product(of_scores, keys, memory(Attended::of_query));
    const Four sizes = s_.sizes_of(Attended::query);
    const Value accumulated = graph_.memory(accumulated_id, DnnType::f32, sizes, row_by_row(sizes));
    graph_.product(of_scores, keys, accumulated);
    graph_.pointwise_to(memory(Attended::of_query), DnnPointwise::identity, accumulated);
  }

 private:
  Four rows() const { return {s_.batch, s_.heads, s_.queries, 1}; }
  const Four& strides(Attended value) const { return s_.strides[static_cast<std::size_t>(value)]; }

  Value memory(Attended value, bool is_transposed = false) {
    Four sizes = s_.sizes_of(value), strides = this->strides(value);
    if (value == Attended::mask)  // an axis along which it is the same
      for (std::size_t axis = 0; axis < 2; ++axis)
        if (strides[axis] == 0) sizes[axis] = 1, strides[axis] = sizes[2] * sizes[3];
    if (is_transposed) sizes = transposed(sizes), strides = transposed(strides);
    return graph_.memory(static_cast<std::int64_t>(value) + 1, type_of(s_.dtype_of(value)), sizes, strides);
  }
  const Value& scale() {
    if (!scale_.descriptor) scale_ = graph_.number(s_.scale);
    return scale_;
  }
  Value scored(const Value& query, const Value& key) {
    const Value products = graph_.between(DnnType::f32, pairs_);
    graph_.product(query, key, products);
    return graph_.pointwise(DnnPointwise::multiply, products, &scale());
  }
  Value with_mask(const Value& scores) {
    if (!s_.has_mask) return scores;
    const Value mask = memory(Attended::mask);
    return graph_.pointwise(DnnPointwise::add, scores, &mask);
  }
  Value causal(const Value& scores) {
    if (!s_.is_causal) return scores;
    const Value row = graph_.index(scores, 2), column = graph_.index(scores, 3), lowest = graph_.number(-INFINITY);
    const Value sees = graph_.pointwise(DnnPointwise::greater_or_equal, row, &column, nullptr, DnnType::boolean);
    return graph_.pointwise(DnnPointwise::select, scores, &lowest, &sees);
  }
  Value masked(const Value& scores) { return causal(with_mask(scores)); }
  // [..., queries, keys] as [..., keys, queries].
  Value turned(const Value& value) {
    const Value result = graph_.between(type_, transposed(pairs_), transposed(row_by_row(pairs_)));
    graph_.reshape(value, result);
    return result;
  }
  // The product, of the heads that share keys together.
  void to_keys(const Value& a, const Value& b, Attended result) {
    const Value gradient = memory(result);
    if (s_.heads == s_.key_heads) return graph_.product(a, b, gradient);
    Four sizes = s_.sizes_of(result);
    sizes[1] = s_.heads;
    const Value of_heads = graph_.between(type_, sizes);
    graph_.product(a, b, of_heads);
    graph_.reduce(DnnReduction::sum, of_heads, gradient);
  }

  const AttentionSizes& s_;
  DnnGraph& graph_;
  DnnType type_;
  Four pairs_;
  Value scale_;
};

std::size_t aligned(std::size_t bytes) {
  return (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

}  // namespace

AttentionSizes::Four AttentionSizes::sizes_of(Attended value) const {
  switch (value) {
    case Attended::query:
    case Attended::of_query: return {batch, heads, queries, features};
    case Attended::key:
    case Attended::of_key: return {batch, key_heads, keys, features};
    case Attended::value:
    case Attended::of_value: return {batch, key_heads, keys, value_features};
    case Attended::mask: return {batch, heads, queries, keys};
    case Attended::output:
    case Attended::given: return {batch, heads, queries, value_features};
    case Attended::stats: break;
  }
  return {batch, heads, queries, 1};
}

AttentionSizes attention_sizes(AttentionSizes fixed, std::span<const std::int64_t> dims) {
  std::int64_t* const places[] = {&fixed.batch, &fixed.heads, &fixed.key_heads, &fixed.queries, &fixed.keys};
  std::size_t next = 0;
  for (std::int64_t* place : places) *place = dims[next++];
  for (std::size_t i = 0; i < attended_values; ++i) {
    if (!fixed.has(static_cast<Attended>(i))) continue;
    const Four sizes = fixed.sizes_of(static_cast<Attended>(i)), usual = row_by_row(sizes);
    for (std::size_t axis = 0; axis < 4; ++axis, ++next)  // an axis of one element has any stride
      fixed.strides[i][axis] = sizes[axis] == 1 ? usual[axis] : dims[next];
  }
  return fixed;
}

namespace {

void build(const AttentionSizes& sizes, DnnGraph& graph) {
  Builder builder(sizes, graph);
  sizes.is_backward ? builder.backward() : builder.forward();
}

// The answer of `ask` for these sizes, asked once a process. Nothing if device or library are missing, or if the
// library refuses the sizes. `ahead`: as Answers::find_ahead.
template <class Answer, class Ask>
Answer answer_about(Device device, PerDevice<Answers<AttentionSizes, Answer>>& of_devices, const AttentionSizes& sizes,
                    bool ahead, const Ask& ask) {
  DeviceState* const state = find_device(device);
  if (!state) return {};
  Answers<AttentionSizes, Answer>& answers = of_devices.of(device);
  const auto asked = [&]() -> Answer {
    try {
      return dnn().cudnnGetVersion() < oldest ? Answer() : ask(*state);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error&) {  // no library, or sizes that it does not take
      return {};
    }
  };
  return ahead ? answers.find_ahead(sizes, asked).value_or(Answer()) : answers.find(sizes, asked);
}

StoredAnswer stored_answer(std::string_view kind, const DeviceState& device, const AttentionSizes& sizes) {
  FieldWriter question;
  question(sizes);
  return StoredAnswer(kind, dnn().cudnnGetVersion(), device, question.bytes());
}

}  // namespace

LibraryAttention::~LibraryAttention() {
  if (has_run_on_ >= 0) wait_before_destroying(Device::cuda(has_run_on_));
}

std::unique_ptr<const LibraryAttention> LibraryAttention::make(const AttentionSizes& sizes, const DnnTarget& target,
                                                               const StoredAnswer* stored) {
  DnnGraph graph;
  build(sizes, graph);
  auto made = std::make_unique<LibraryAttention>();
  if (const std::optional<std::string> text = stored ? stored->load() : std::nullopt)
    made->plan_ = graph.plan_from(target, *text);
  if (!made->plan_) {
    made->plan_ = graph.plan(target, sizes.is_deterministic);
    if (!made->plan_) return nullptr;
    if (const std::string text = stored ? made->plan_->text() : ""; !text.empty()) stored->store(text);
  }
  for (std::size_t i = 0; i < attended_values; ++i)
    if (sizes.has(static_cast<Attended>(i))) made->ids_.push_back(static_cast<std::int64_t>(i) + 1);
  const auto add = [&](std::int64_t id, std::int64_t elements) {
    made->ids_.push_back(id);
    made->offsets_.push_back(made->own_);
    made->own_ += aligned(static_cast<std::size_t>(elements) * sizeof(float));
  };
  const std::int64_t rows = sizes.batch * sizes.heads * sizes.queries;
  if (sizes.is_backward) add(sums_id, rows);
  if (sizes.is_backward && !sizes.is_deterministic) add(accumulated_id, rows * sizes.features);
  return made;
}

bool LibraryAttention::is_offered(Device device, const AttentionSizes& sizes, bool ahead) {
  static constinit PerDevice<Answers<AttentionSizes, bool>> all;
  return answer_about(device, all, sizes, ahead, [&](DeviceState& state) {
    constexpr std::string_view yes = "1", no = "0";
    const StoredAnswer stored = stored_answer("cuDNN takes attention", state, sizes);
    if (const std::optional<std::string> answer = stored.load(); answer == yes || answer == no) return answer == yes;
    DnnGraph graph;
    build(sizes, graph);
    const bool is_offered =
        graph.has_plan({DnnLibrary::Borrowed(DnnLibrary::of(state)).get(), nullptr}, sizes.is_deterministic);
    stored.store(is_offered ? yes : no);
    return is_offered;
  });
}

void LibraryAttention::open(Device device) { const DnnLibrary::Borrowed opened(DnnLibrary::of(use(device))); }

std::shared_ptr<const LibraryAttention> LibraryAttention::find(Device device, const AttentionSizes& sizes, bool ahead) {
  static constinit PerDevice<Answers<AttentionSizes, std::shared_ptr<const LibraryAttention>>> all;
  return answer_about(device, all, sizes, ahead, [&](DeviceState& state) {
    const StoredAnswer stored = stored_answer("cuDNN attention", state, sizes);
    const DnnLibrary::Borrowed handle(DnnLibrary::of(state));
    return std::shared_ptr<const LibraryAttention>(make(sizes, {handle.get(), nullptr}, &stored));
  });
}

void LibraryAttention::run(Device device, std::span<void* const> values, std::span<std::byte> workspace,
                           const Queue* queue) const {
  WEFT_CHECK(workspace.size() >= this->workspace(), "a workspace of ", workspace.size(), " bytes");
  std::vector<void*> pointers(values.begin(), values.end());
  for (const std::size_t offset : offsets_) pointers.push_back(workspace.data() + offset);
  DnnLibrary& library = DnnLibrary::of(use(device));
  const std::lock_guard lock(library.mutex);
  DnnHandle* const handle = library.opened();
  check_dnn(dnn().cudnnSetStream(handle, queue->stream), "cudnnSetStream");
  has_run_on_.store(device.index, std::memory_order_relaxed);
  plan_->run(handle, ids_, pointers, workspace.data() + own_);
}

// ---- the step -------------------------------------------------------------------------------------------------------

namespace {

constexpr const char* call_name = "scaled_dot_product_attention";

// Nothing where one of them is a symbol.
std::optional<AttentionSizes> known_sizes(const AttentionSizes& fixed, std::span<const Dim> dims) {
  std::vector<std::int64_t> values;
  for (const Dim dim : dims) {
    if (!dim.is_constant()) return std::nullopt;
    values.push_back(dim.constant());
  }
  return attention_sizes(fixed, values);
}

}  // namespace

void DeviceAttention::make_ahead(Device device, const AttentionSizes& fixed, std::span<const Dim> dims) {
  if (const auto sizes = known_sizes(fixed, dims)) LibraryAttention::find(device, *sizes, true);
}

DeviceAttention::DeviceAttention(Device device, const AttentionSizes& fixed, std::span<const Dim> dims,
                                 std::span<const Dim> offsets, NumberTable& numbers)
    : device_(device), fixed_(fixed), dims_(numbers.add(dims)), offsets_(numbers.add(offsets)) {
  if (const auto sizes = known_sizes(fixed, dims)) known_ = of(*sizes);
}

AttentionSizes DeviceAttention::sizes(std::span<const std::int64_t> numbers) const {
  return attention_sizes(fixed_, numbers.subspan(dims_.begin, dims_.count));
}

std::shared_ptr<const LibraryAttention> DeviceAttention::of(const AttentionSizes& s) const {
  if (known_) return known_;
  auto found = LibraryAttention::find(device_, s);
  if (!found)
    fail(call_name, {}, "cuDNN takes attention of this kind, but not of ", s.batch, " x ", s.heads, " heads, ",
         s.queries, " queries, ", s.keys, " keys and ", s.features, " features; WEFT_CUDNN=0 does without it");
  return found;
}

std::size_t DeviceAttention::workspace(std::span<const std::int64_t> numbers) const {
  const AttentionSizes s = sizes(numbers);
  return s.is_empty() ? 0 : of(s)->workspace();
}

void DeviceAttention::run(const StepCall& call) const {
  const AttentionSizes s = sizes(call.numbers);
  std::array<void*, attended_values> pointers;
  std::size_t count = 0;
  for (std::size_t i = 0; i < attended_values; ++i) {
    const auto value = static_cast<Attended>(i);
    if (!s.has(value)) continue;
    void* const place = attended_place(s, value, call.pointers[count], call.numbers[offsets_.begin + count], true);
    const bool is_result = s.is_backward ? value > Attended::given : value >= Attended::output;
    if (s.is_empty() && is_result) fill_empty(s, value, place, call.queue->stream);
    pointers[count++] = place;
  }
  if (s.is_empty()) return;
  const std::shared_ptr<const LibraryAttention> found = of(s);
  use(device_).keep_while_recorded(call.queue, found);
  found->run(device_, {pointers.data(), count}, call.workspace, call.queue);
}

}  // namespace weft::runtime::cuda
