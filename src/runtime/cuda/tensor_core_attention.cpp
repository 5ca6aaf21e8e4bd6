#include "runtime/cuda/tensor_core_attention.hpp"

#include <algorithm>
#include <array>

#include "runtime/cuda/attention_arguments.hpp"

namespace weft::runtime::cuda {

namespace {

constexpr int heads_together = 16;     // but for gradients on Hopper
constexpr int rows_of_block = 64;      // of attention_rows
constexpr std::uint32_t segment = 64;  // rows and features of what the copy engine fetches at once
constexpr std::size_t workspace_alignment = 256;

std::int64_t tiles(std::int64_t size, std::int64_t tile) { return (size + tile - 1) / tile; }
std::size_t aligned(std::size_t bytes) {
  return (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

// From features on; the copy engine wants consistent strides of axes of one element too.
void describe(TensorMap& map, const AttentionSizes& s, Attended value, const void* at) {
  const auto size = s.sizes_of(value);
  const auto& stride = s.strides[static_cast<std::size_t>(value)];
  std::array<MappedAxis, 4> axes{{{size[3], 1, segment}}};
  std::int64_t contiguous = size[3];
  for (std::size_t i = 1; i < axes.size(); ++i) {
    const std::size_t axis = 3 - i;
    const std::int64_t step = size[axis] == 1 ? contiguous : stride[axis];
    axes[i] = {size[axis], step, i == 1 ? segment : 1};
    contiguous = std::max(contiguous, step * size[axis]);
  }
  WEFT_CHECK(describe(map, s.dtype, at, axes), "the driver takes no tensor map of attention");
}

// The memory of the lists that one pass reads.
struct ListSizes {
  std::int64_t lists, rows, width;
  std::size_t states() const { return aligned(static_cast<std::size_t>(lists * rows * width)); }
  std::size_t counts() const { return aligned(static_cast<std::size_t>(lists * rows) * sizeof(int)); }
  std::size_t tiles() const { return aligned(static_cast<std::size_t>(lists * rows * width) * sizeof(int)); }
  std::size_t all() const { return states() + counts() + 2 * tiles(); }  // the second: BlockLists::before
};
ListSizes list_sizes(const TensorCoreAttentionCall& call, const AttentionSizes& s, bool by_keys) {
  const std::int64_t lists = (call.mask_reads_batch ? s.batch : 1) * (call.mask_reads_head ? s.heads : 1);
  const std::int64_t rows = by_keys ? s.keys : s.queries, columns = by_keys ? s.queries : s.keys;
  return {lists, tiles(rows, call.tile.rows), tiles(columns, call.tile.columns)};
}

// What gradients have in memory beside their lists. Sums and counters are those of the nest on Hopper.
struct GradientSizes {
  std::int64_t rows = 0, pieces = 0;
  std::size_t numbers() const { return aligned(static_cast<std::size_t>(rows) * sizeof(RowNumbers)); }
  std::size_t sums() const {
    return aligned(static_cast<std::size_t>(pieces * attention_piece * attention_piece) * sizeof(float));
  }
  std::size_t counters() const {  // before those of pieces the one of the tiles that are taken
    return pieces == 0 ? 0 : aligned(static_cast<std::size_t>(pieces + 1) * sizeof(int));
  }
  std::size_t all() const { return numbers() + sums() + counters(); }
};
GradientSizes gradient_sizes(const TensorCoreAttentionCall& call, const AttentionSizes& s) {
  if (!s.is_backward) return {};
  const std::int64_t rows = s.batch * s.heads * tiles(s.queries, attention_row_padding) * attention_row_padding;
  return {rows, call.on_hopper ? rows / attention_piece * (s.features / attention_piece) : 0};
}

// How many heads of keys the nest on Hopper works on side by side. What they read and add to should stay in the L2
// cache; but blocks of one head wait for each other's sums, and the fewer of them run at once, the less. Of 64 features
// 16 heads of 16,384 were faster than 4, of 128 features 2 as fast as 1 and faster than 4 (29.4 ms, 29.4, 30.1). At
// 4,096 tokens of 128 features 32 heads are slower than the 8 that this gives.
int heads_of_gradients(const AttentionSizes& s) {
  constexpr std::int64_t bytes_together = 48 << 20, of_operand = 2, of_sum = 4;
  const std::int64_t sharing = s.heads / s.key_heads;
  const std::int64_t bytes =
      s.features * (2 * of_operand * (s.keys + sharing * s.queries) + of_sum * sharing * s.queries);
  constexpr std::int64_t large = 16 << 20;
  const std::int64_t least = s.features <= 64 ? 16 : bytes < large ? 4 : 2;
  return static_cast<int>(std::clamp<std::int64_t>(bytes_together / bytes, least, 1 << 12));
}

}  // namespace

std::optional<bool> attends_on_hopper(Device device, std::int64_t features, std::int64_t value_features) {
  const DeviceState* const state = find_device(device);
  if (!state) return std::nullopt;
  return state->has(DeviceInstruction::wgmma) && state->has(DeviceInstruction::tensor_copy) &&
         features == value_features && (features == 64 || features == 128);
}

TensorCoreAttention::TensorCoreAttention(const TensorCoreAttentionCall& call, std::span<const Dim> dims,
                                         std::span<const Dim> offsets, std::vector<std::int64_t> captured_bytes,
                                         const Preparation& preparation)
    : call_(call),
      device_(use(preparation.device)),
      captured_bytes_(std::move(captured_bytes)),
      dims_(preparation.numbers.add(dims)),
      offsets_(preparation.numbers.add(offsets)) {
  for (const EntryPoint& entry : preparation.entry.inner) kernels_.emplace_back(preparation, entry);
}

AttentionSizes TensorCoreAttention::sizes(std::span<const std::int64_t> numbers) const {
  return attention_sizes(call_.sizes, numbers.subspan(dims_.begin, dims_.count));
}

std::size_t TensorCoreAttention::workspace(std::span<const std::int64_t> numbers) const {
  const AttentionSizes s = sizes(numbers);
  if (s.is_empty()) return 0;
  std::size_t lists = 0;
  if (call_.has_mask_mod) {
    lists = list_sizes(call_, s, false).all();
    if (s.is_backward) lists = std::max(lists, list_sizes(call_, s, true).all());
  }
  return gradient_sizes(call_, s).all() + lists;
}

// The arguments of one call while its kernels are queued.
struct TensorCoreAttention::Launch {
  const TensorCoreAttention& step;
  const AttentionSizes& s;
  const StepCall& call;
  std::vector<void*> captured = {};  // one argument, a struct of pointers that begins with the first
  HopperAttentionArguments arguments = {};

  bool is_dependent = false;  // the next launch (begin_launch)

  void queue(std::size_t function, std::int64_t blocks, auto&... parameters) const {
    step.kernels_[function].launch({.queue = call.queue, .x = blocks, .dependent = is_dependent}, parameters...);
  }
  // Lists of the tiles to visit, in the workspace.
  void list(bool by_keys) {
    if (!step.call_.has_mask_mod) return;
    const ListSizes sizes = list_sizes(step.call_, s, by_keys);
    std::byte* const memory = call.workspace.data() + gradient_sizes(step.call_, s).all();
    void* states = memory;
    int* counts = reinterpret_cast<int*>(memory + sizes.states());
    int* list_tiles = reinterpret_cast<int*>(memory + sizes.states() + sizes.counts());
    int* before = reinterpret_cast<int*>(memory + sizes.states() + sizes.counts() + sizes.tiles());
    if (!s.is_backward || !step.call_.on_hopper) before = nullptr;
    const bool batch = step.call_.mask_reads_batch, head = step.call_.mask_reads_head;
    arguments.all.blocks = {counts,
                            list_tiles,
                            before,
                            batch ? (head ? s.heads : 1) : 0,
                            head ? 1 : 0,
                            static_cast<int>(sizes.rows),
                            static_cast<int>(sizes.width)};
    const std::size_t lists = s.is_backward ? 3 : 1, first = lists + 1;
    const auto begin_next = [this](bool follows) {  // in gradients others come between, which do not wait
      is_dependent = !s.is_backward && begin_launch(step.device_, call.queue, follows);
    };
    begin_next(false);
    queue(first + (s.is_backward && !by_keys ? 1 : 0), sizes.lists * sizes.rows * sizes.width, arguments.all,
          captured.front(), states);
    begin_next(true);
    BlockLists& blocks = arguments.all.blocks;
    queue(lists, sizes.lists * sizes.rows, states, counts, list_tiles, before, blocks.rows, blocks.width);
  }
  void multiply(std::size_t function, std::int64_t rows, std::int64_t heads) {
    std::int64_t blocks = tiles(rows, step.call_.tile.rows) * s.batch * heads;
    if (step.call_.on_hopper) blocks = std::min<std::int64_t>(blocks, step.device_.multiprocessors);
    if (step.call_.on_hopper) return queue(function, blocks, arguments, captured.front());
    queue(function, blocks, arguments.all, captured.front());
  }
};

void TensorCoreAttention::run(const StepCall& call) const {
  const AttentionSizes s = sizes(call.numbers);
  std::array<void*, attended_values> pointers = {};
  Launch launch{*this, s, call};
  std::size_t buffer = 0;
  for (std::size_t i = 0; i < attended_values; ++i) {
    const auto value = static_cast<Attended>(i);
    if (value == Attended::mask)
      for (std::size_t j = 0; j < call_.captured; ++j, ++buffer)
        launch.captured.push_back(static_cast<std::byte*>(call.pointers[buffer]) +
                                  call.numbers[offsets_.begin + buffer] * captured_bytes_[j]);
    if (!s.has(value)) continue;
    const std::int64_t offset = call.numbers[offsets_.begin + buffer];
    void* const place = attended_place(s, value, call.pointers[buffer++], offset, true);
    pointers[i] = place;
    const bool is_result = s.is_backward ? value > Attended::given : value >= Attended::output;
    if (s.is_empty() && is_result) fill_empty(s, value, place, call.queue->stream);
  }
  if (s.is_empty()) return;
  if (launch.captured.empty()) launch.captured.push_back(nullptr);

  const auto at = [&](Attended value) { return pointers[static_cast<std::size_t>(value)]; };
  const auto stride = [&](Attended value) { return head_strides(s, value); };
  AttentionArguments& a = launch.arguments.all;
  a = {.query = at(Attended::query),
       .key = at(Attended::key),
       .value = at(Attended::value),
       .output = at(Attended::output),
       .given = at(Attended::given),
       .to_output = at(Attended::output),
       .stats = static_cast<float*>(at(Attended::stats)),
       .rows = reinterpret_cast<RowNumbers*>(call.workspace.data()),
       .sums = nullptr,
       .progress = nullptr,
       .of_query = at(Attended::of_query),
       .of_key = at(Attended::of_key),
       .of_value = at(Attended::of_value),
       .q = stride(Attended::query),
       .k = stride(Attended::key),
       .v = stride(Attended::value),
       .o = stride(Attended::output),
       .g = stride(Attended::given),
       .dq = stride(Attended::of_query),
       .dk = stride(Attended::of_key),
       .dv = stride(Attended::of_value),
       .counts = attention_counts(s),
       .heads_together = heads_together,
       .blocks = {}};
  if (call_.on_hopper) {
    describe(launch.arguments.query, s, Attended::query, a.query);
    describe(launch.arguments.key, s, Attended::key, a.key);
    describe(launch.arguments.value, s, Attended::value, a.value);
    if (s.is_backward) describe(launch.arguments.given, s, Attended::given, a.given);
  }
  if (!s.is_backward) {
    launch.list(false);
    launch.is_dependent = begin_launch(device_, call.queue, call_.has_mask_mod);
    launch.multiply(0, s.queries, s.heads);
    return;
  }
  const GradientSizes gradient = gradient_sizes(call_, s);
  if (call_.on_hopper) {
    a.sums = reinterpret_cast<float*>(call.workspace.data() + gradient.numbers());
    a.progress = reinterpret_cast<int*>(call.workspace.data() + gradient.numbers() + gradient.sums());
    a.heads_together = heads_of_gradients(s);
  }
  launch.queue(2, gradient.rows / rows_of_block, a);  // clears the counters too
  launch.list(true);
  launch.multiply(0, s.keys, s.key_heads);
  if (call_.on_hopper) return launch.queue(1, gradient.pieces, a);
  if (call_.values_apart) launch.multiply(kernels_.size() - 1, s.keys, s.key_heads);
  launch.list(false);
  launch.multiply(1, s.queries, s.heads);
}

}  // namespace weft::runtime::cuda
