#include "runtime/cuda/split_attention.hpp"

#include <algorithm>

#include "base/device_target.hpp"
#include "runtime/cuda/attention_arguments.hpp"

namespace weft::runtime::cuda {

namespace {

using device_layout::multiprocessors;
constexpr std::int64_t columns_of_one_block = 64;  // that fill a multiprocessor; of less two
constexpr std::int64_t most_parts = 128;
constexpr std::int64_t keys_of_long_part = 1024;

constexpr Attended all_values[] = {Attended::query, Attended::key,    Attended::value,
                                   Attended::mask,  Attended::output, Attended::stats};

std::int64_t pieces(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

}  // namespace

KeyParts key_parts(const AttentionSizes& s, std::int64_t columns, bool has_clusters) {
  const std::int64_t rows = s.key_heads == 0 ? 0 : s.heads / s.key_heads * s.queries;
  const std::int64_t tiles = s.batch * s.key_heads * pieces(rows, SplitAttentionTile::rows);
  if (tiles == 0 || s.keys == 0) return {1, 1, tiles};
  const std::int64_t wanted_blocks = multiprocessors * std::max<std::int64_t>(columns_of_one_block / columns, 1);
  std::int64_t parts = 1;
  while (parts * 2 <= most_parts && parts * 2 * tiles <= wanted_blocks && parts * columns < s.keys) parts *= 2;
  // For long contexts, a last wave of blocks that does not fill the device costs more than a second kernel.
  const auto waves = [&](std::int64_t each) { return pieces(each * tiles, 2 * multiprocessors); };
  if (tiles > multiprocessors)
    for (std::int64_t more = parts * 2; more <= parts * 4 && more * keys_of_long_part <= s.keys; more *= 2)
      if (waves(more) * parts * 8 < waves(parts) * more * 7) {
        parts = more;
        break;
      }
  // Blocks of a cluster are held side by side: larger clusters of as many blocks as there are multiprocessors leave
  // some of these idle. Of short contexts half the blocks take less time than a second kernel.
  const auto joins = [&] { return parts == 2 || (parts == 4 && parts * tiles <= multiprocessors / 2); };
  if (parts == 4 && !joins() && s.keys <= keys_of_long_part) parts = 2;
  return {parts, has_clusters && joins() ? parts : 1, tiles * parts};
}

SplitAttention::SplitAttention(const AttentionSizes& fixed, std::span<const Dim> dims, std::span<const Dim> offsets,
                               const KeyPages& pages, const Preparation& preparation)
    : fixed_(fixed),
      device_(use(preparation.device)),
      dims_(preparation.numbers.add(dims)),
      offsets_(preparation.numbers.add(offsets)),
      pages_(preparation.numbers.add({pages.count, pages.of_text})),
      page_size_(pages.size) {
  WEFT_CHECK(preparation.entry.inner.size() == 2, "attention of few queries is two kernels");
  for (const EntryPoint& entry : preparation.entry.inner) kernels_.emplace_back(preparation, entry);
  columns_ = std::max<std::int64_t>(kernels_[0].threads / 32, 1) * SplitAttentionTile::keys_of_warp;
  if (Function* const function = kernels_[0].handle; function && device_.has(DeviceInstruction::cluster)) {
    int version = 0;  // 90: of sm_90
    check(driver().cuFuncGetAttribute(&version, function_text_version, function), "cuFuncGetAttribute");
    has_clusters_ = ComputeCapability{version / 10, version % 10}.has(DeviceInstruction::cluster);
  }
}

bool SplitAttention::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  const std::span<const std::int64_t> dims = numbers.subspan(dims_.begin, dims_.count);
  if (std::ranges::any_of(dims.first(5), [](std::int64_t size) { return size < 0 || size >= no_bound; })) return false;
  const AttentionSizes s = sizes(numbers);
  if (s.key_heads == 0 || s.heads % s.key_heads != 0) return false;
  const std::int64_t pages = numbers[pages_.begin], of_text = numbers[pages_.begin + 1];
  if (page_size_ > 0 && (pages < 1 || pages >= no_bound || of_text < 0 || of_text > s.keys / page_size_ ||
                         of_text * page_size_ != s.keys))
    return false;
  std::size_t buffer = 0;
  for (const Attended value : all_values) {
    if (value == Attended::mask && page_size_ > 0) {
      for (const bool is_table : {true, false}) {
        if (buffer >= rooms.size()) return false;
        Reach reach(numbers[offsets_.begin + buffer]);
        if (is_table)
          reach.along(s.batch, of_text).along(of_text, 1);
        else
          reach.along(s.batch, 1);
        if (!reach.is_in(rooms[buffer++], DType::i64)) return false;
      }
    }
    if (!s.has(value)) continue;
    if (buffer >= rooms.size()) return false;
    const Room& room = rooms[buffer];
    const std::int64_t offset = numbers[offsets_.begin + buffer++];
    auto size = s.sizes_of(value);
    if (page_size_ > 0 && (value == Attended::key || value == Attended::value)) size[0] = pages, size[2] = page_size_;
    const auto& stride = s.strides[static_cast<std::size_t>(value)];
    Reach reach(offset);
    for (std::size_t axis = 0; axis < 4; ++axis) reach.along(size[axis], stride[axis]);
    if (!(value >= Attended::output ? reach.may_write(room, s.dtype_of(value)) : reach.is_in(room, s.dtype_of(value))))
      return false;
    if (value > Attended::value) continue;
    // 16 bytes at once.
    constexpr std::int64_t together = 8;
    if (stride[3] != 1 || offset % together != 0 || room.alignment % 16 != 0) return false;
    for (std::size_t axis = 0; axis < 3; ++axis)
      if (size[axis] > 1 && stride[axis] % together != 0) return false;
  }
  return buffer == rooms.size();
}

AttentionSizes SplitAttention::sizes(std::span<const std::int64_t> numbers) const {
  const std::span<const std::int64_t> dims = numbers.subspan(dims_.begin, dims_.count);
  AttentionSizes s = attention_sizes(fixed_, dims);
  // From a page to the next, also where there is one text.
  constexpr std::size_t first_stride = 5, of_value = 4;
  for (const Attended value : {Attended::key, Attended::value})
    if (page_size_ > 0)
      s.strides[static_cast<std::size_t>(value)][0] = dims[first_stride + of_value * static_cast<std::size_t>(value)];
  return s;
}

KeyParts SplitAttention::parts(const AttentionSizes& sizes) const { return key_parts(sizes, columns_, has_clusters_); }

std::size_t SplitAttention::workspace(std::span<const std::int64_t> numbers) const {
  const AttentionSizes s = sizes(numbers);
  const KeyParts split = parts(s);
  const std::int64_t left = split.parts / split.cluster, rows = s.batch * s.heads * s.queries;
  if (left == 1) return 0;
  return static_cast<std::size_t>(left * rows) *
         (static_cast<std::size_t>(s.value_features) * sizeof(float) + sizeof(RowNumbers));
}

void SplitAttention::run(const StepCall& call) const {
  const AttentionSizes s = sizes(call.numbers);
  const std::int64_t rows = s.batch * s.heads * s.queries;
  if (rows == 0) return;
  std::array<void*, attended_values> at = {};
  const std::int64_t* of_pages[2] = {};  // the table, the positions
  std::size_t buffer = 0;
  for (const Attended value : all_values) {
    if (value == Attended::mask && page_size_ > 0)
      for (const std::int64_t*& each : of_pages) {
        each = static_cast<const std::int64_t*>(call.pointers[buffer]) + call.numbers[offsets_.begin + buffer];
        ++buffer;
      }
    if (!s.has(value)) continue;
    const std::int64_t offset = call.numbers[offsets_.begin + buffer];
    at[static_cast<std::size_t>(value)] =
        attended_place(s, value, call.pointers[buffer++], offset, value <= Attended::value);
  }
  const auto place = [&](Attended value) { return at[static_cast<std::size_t>(value)]; };
  const auto strides = [&](Attended value) { return head_strides(s, value); };
  const KeyParts split = parts(s);
  const std::int64_t left = split.parts / split.cluster;  // to the second kernel
  auto* const sums = reinterpret_cast<float*>(call.workspace.data());
  SplitAttentionArguments arguments{.query = place(Attended::query),
                                    .key = place(Attended::key),
                                    .value = place(Attended::value),
                                    .mask = place(Attended::mask),
                                    .output = place(Attended::output),
                                    .stats = static_cast<float*>(place(Attended::stats)),
                                    .sums = sums,
                                    .numbers = reinterpret_cast<RowNumbers*>(sums + left * rows * s.value_features),
                                    .q = strides(Attended::query),
                                    .k = strides(Attended::key),
                                    .v = strides(Attended::value),
                                    .o = strides(Attended::output),
                                    .of_stats = strides(Attended::stats),
                                    .of_mask = strides(Attended::mask),
                                    .of_mask_key = s.strides[static_cast<std::size_t>(Attended::mask)][3],
                                    .counts = attention_counts(s),
                                    .after = s.is_causal ? 0 : no_bound,
                                    .parts = static_cast<int>(split.parts),
                                    .cluster = static_cast<int>(split.cluster),
                                    .table = of_pages[0],
                                    .positions = of_pages[1],
                                    .pages = static_cast<int>(call.numbers[pages_.begin]),
                                    .page_size = static_cast<int>(page_size_),
                                    .pages_of_text = static_cast<int>(call.numbers[pages_.begin + 1])};
  kernels_[0].launch({.queue = call.queue,
                      .x = split.blocks,
                      .cluster = split.cluster,
                      .dependent = begin_launch(device_, call.queue)},
                     arguments);
  if (left > 1)
    kernels_[1].launch({.queue = call.queue, .x = rows, .dependent = begin_launch(device_, call.queue, true)},
                       arguments);
}

}  // namespace weft::runtime::cuda
