#include "schedule/kernel_stages.hpp"

#include <algorithm>
#include <bit>

#include "base/device_target.hpp"
#include "base/options.hpp"
#include "loop/device_team.hpp"
#include "loop/narrow.hpp"
#include "loop/nest.hpp"
#include "loop/online.hpp"
#include "loop/pick.hpp"
#include "loop/product.hpp"
#include "schedule/kernel_axes.hpp"

namespace weft {
namespace {

// On a device the order of additions is the kernel's own, so that chunks are as long as serves it.
constexpr std::int64_t device_part_rows = 256;

using loop::Instruction;
using loop::Kernel;
using loop::Kind;

// The axis that lanes run over: the last one in the order of the domain, so that neighbours in memory are neighbours in
// lanes. Decided before axes are reordered; returned as "is it an inner axis".
bool vector_is_inner(const Group& walked) {
  for (int i = walked.domain.rank() - 1; i >= 0; --i)
    if (!walked.domain[i].same(Dim(1))) return walked.reduces && walked.inner[i];
  return false;
}

// Rows that leave most lanes empty, each of which becomes one element: on the host lanes run over them instead.
bool has_short_rows(const Kernel& kernel) {
  Dim row = 1, rows = 1;
  for (const loop::Axis& axis : kernel.axes) (axis.inner ? row : rows) = (axis.inner ? row : rows) * axis.extent;
  if (!row.is_constant() || row.constant() < 1 || row.constant() > loop::short_row_length) return false;
  if (rows.is_constant() && rows.constant() < loop::short_row_length) return false;  // lanes stay empty either way
  return std::none_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction& it) {
    if (it.kind != Kind::store) return false;
    for (std::size_t a = 0; a < kernel.axes.size(); ++a)
      if (kernel.axes[a].inner && dims::depends_on(it.index, dims::axis(static_cast<int>(a), kernel.axes[a].extent)))
        return true;
    return false;
  });
}

// Few long rows leave most of a device idle: a row is one block's. Cut, they are two launches for each walk.
bool has_long_rows(const Kernel& kernel) {
  constexpr std::int64_t most_rows = device_layout::multiprocessors;
  constexpr std::int64_t least = 16384, least_of_walks = 32768, least_a_row = 512;
  const Dim rows = kernel.outer_count(), length = kernel.inner_count();
  return rows.is_constant() && length.is_constant() && rows.constant() <= most_rows &&
         length.constant() > std::max(loop::walks_once(kernel) ? least : least_of_walks, least_a_row * rows.constant());
}
// About so many elements, in whole packs, and without a rest, which would be a launch of its own, where the length has
// such a divisor.
std::int64_t part_near(std::int64_t wanted, std::int64_t length) {
  constexpr std::int64_t pack = 8;
  for (std::int64_t away = 0; away <= wanted / 2; away += pack)
    for (const std::int64_t part : {wanted + away, wanted - away})
      if (length % part == 0) return part;
  const std::int64_t parts = (length + wanted - 1) / wanted;  // the rest is about as long as the others
  return ((length + parts - 1) / parts + pack - 1) / pack * pack;
}
// Elements of a part of such a row, by its shape alone: two parts and more for each multiprocessor of a large device.
std::int64_t part_of_row(const Kernel& kernel) {
  constexpr std::int64_t units = 2 * device_layout::multiprocessors, least = 512, pack = 8;
  const std::int64_t rows = kernel.outer_count().constant(), length = kernel.inner_count().constant();
  return part_near(std::max(least, length * rows / units / pack * pack), length);
}

// Of rows that are several runs, which lie apart: how many turns of the first inner axis are a part, so that all parts
// are alike; 0 where there are not enough turns.
std::int64_t runs_of_part(const Kernel& kernel) {
  constexpr std::int64_t units = 2 * device_layout::multiprocessors;
  const auto first = std::ranges::find_if(kernel.axes, &loop::Axis::inner);
  if (!first->extent.is_constant()) return 0;
  const std::int64_t turns = first->extent.constant();
  std::int64_t runs = std::max<std::int64_t>(turns * kernel.outer_count().constant() / units, 1);
  while (turns % runs != 0) --runs;
  return runs < turns ? runs : 0;
}

// Few long rows that are scanned, and few columns of many rows: three launches instead of one.
bool has_long_scans(const Kernel& kernel, bool rows_on_lanes) {
  constexpr std::int64_t most_rows = 64, least = 16384, least_a_row = 512;
  constexpr std::int64_t most_columns = 16384, least_of_columns = 256;
  const Dim rows = kernel.outer_count(), length = kernel.inner_count();
  if (!rows.is_constant() || !length.is_constant()) return false;
  if (!rows_on_lanes) return rows.constant() <= most_columns && length.constant() >= least_of_columns;
  return rows.constant() <= most_rows && length.constant() > least + least_a_row * rows.constant();
}
// Elements of a part: many parts, so that blocks compute while others wait for their threads, and no more of them than
// one block joins in a few turns. Of columns, as many elements as leave a device enough threads.
std::int64_t part_of_scan(const Kernel& kernel, bool rows_on_lanes) {
  constexpr std::int64_t parts = 4096, least = 2048, most = 16384;
  constexpr std::int64_t threads = 131072, least_of_columns = 32, most_of_columns = 1024;
  const std::int64_t length = kernel.inner_count().constant(), points = length * kernel.outer_count().constant();
  const auto about = [](std::int64_t count) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1))));
  };
  return part_near(rows_on_lanes ? std::clamp(about(points / parts), least, most)
                                 : std::clamp(about(points / threads), least_of_columns, most_of_columns),
                   length);
}
// The same where lanes run over columns, which one thread or a few walk: not many parts, since they are joined so too.
std::int64_t part_of_columns(const Kernel& kernel, std::int64_t parts) {
  return std::max(device_part_rows, kernel.inner_count().constant() / parts);
}

// Few columns of many rows leave most of a device idle: parts of the rows become units of their own.
bool has_few_columns(const Kernel& kernel) {
  const Dim rows = kernel.inner_count(), columns = kernel.outer_count();
  return rows.is_constant() && columns.is_constant() && columns.constant() <= 8192 &&
         rows.constant() >= 4 * device_part_rows;
}
// About so many blocks of 256 columns: nearly three for each multiprocessor of a large device, few parts to be joined.
std::int64_t rows_of_few_columns(const Kernel& kernel) {
  constexpr std::int64_t units = 384, columns_of_unit = 256, many = 8192;
  const std::int64_t rows = kernel.inner_count().constant(), points = rows * kernel.outer_count().constant();
  const auto wanted = std::bit_floor(static_cast<std::uint64_t>(points / (columns_of_unit * units)));
  return std::clamp(static_cast<std::int64_t>(wanted), rows < many ? device_part_rows : device_part_rows / 2,
                    2 * device_part_rows);
}

}  // namespace

loop::Stages kernel_stages(Kernel kernel, const Group& walked, bool computes, Device device) {
  order_axes(kernel);
  merge_axes(kernel);
  const bool on_host = device.type == Device::Type::cpu;
  bool inner = vector_is_inner(walked);
  // The last axis of the domain is not where neighbours lie.
  const bool turned = !on_host && inner && !walked.scans && std::ranges::none_of(kernel.axes, &loop::Axis::carried) &&
                      reads_along_outer(kernel);
  if (turned) inner = false;
  if (inner && on_host && !walked.scans && has_short_rows(kernel)) {
    inner = false;
    for (Instruction& it : kernel.body)
      if (it.kind == Kind::reduce && (it.op == Op::sum || it.op == Op::prod) && is_floating(it.dtype))
        it.reduction = loop::ReductionKind::short_row;
  }
  for (std::size_t a = 0; a < kernel.axes.size(); ++a)
    if (kernel.axes[a].inner == inner) kernel.vector_axis = static_cast<int>(a);
  loop::pick_single_terms(kernel);
  const bool reduces = computes && walked.reduces && !walked.scans;
  const bool serial = reduces && (on_host  ? is_serial(walked)
                                  : turned ? has_few_columns(kernel)
                                           : has_long_rows(kernel));
  if (!serial) loop::find_product(kernel);
  const bool cuts = serial && loop::can_cut(kernel) && (!on_host || loop::walks_once(kernel));
  const std::int64_t runs = serial && !on_host && inner && loop::can_cut_runs(kernel) ? runs_of_part(kernel) : 0;
  if (!on_host && inner && !walked.scans && runs == 0 && (cuts || !loop::holds_row(kernel))) loop::sum_online(kernel);
  const bool columns = std::any_of(kernel.body.begin(), kernel.body.end(),
                                   [](const Instruction& it) { return it.is(loop::ReductionKind::over_carried); });
  constexpr std::int64_t parts = 2048, parts_of_turned = 512;
  loop::Stages stages;
  if (columns)
    stages = loop::cut_columns(kernel, on_host ? column_chunk : loop::rows_of_unit(kernel));
  else if (computes && walked.scans && !on_host && loop::can_cut(kernel) && has_long_scans(kernel, inner))
    stages = loop::cut_reductions(kernel, part_of_scan(kernel, inner));
  else if (runs > 0)
    stages = loop::cut_reductions(kernel, runs);
  else if (cuts)
    stages = loop::cut_reductions(
        kernel, !on_host ? inner ? part_of_row(kernel) : part_of_columns(kernel, turned ? parts_of_turned : parts)
                : inner ? row_chunk
                         : column_chunk);
  else if (reduces && !on_host && !inner && has_few_columns(kernel) && loop::can_cut(kernel) &&
           loop::walks_once(kernel))
    stages = loop::cut_reductions(kernel, rows_of_few_columns(kernel));
  else
    stages.kernels.push_back(std::move(kernel));
  for (Kernel& stage : stages.kernels) {
    if (!on_host || options().nvrtc_check)
      stage.small = is_small(stage);
    else
      loop::narrow_columns_on_lanes(stage);  // no device has such kernels
    parametrize(stage);
  }
  return stages;
}

}  // namespace weft
