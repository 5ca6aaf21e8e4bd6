#include "loop/device_team.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "base/device_target.hpp"
#include "loop/loads_ahead.hpp"

namespace weft::loop {

namespace {

std::int64_t power_of_two_up_to(std::int64_t n) {
  return n < 1 ? 1 : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
}

Dim vector_extent(const Kernel& kernel) { return kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].extent; }

// The text is expanded for each element of a pack.
std::int64_t longest_pack(const Kernel& kernel) {
  return kernel.body.size() > 400 ? 1 : kernel.body.size() > 160 ? 2 : 8;
}

int width_of_packs(const Kernel& kernel, const Analysis& analysis) {
  const auto size = static_cast<int>(kernel.body.size());
  std::int64_t smallest = 0, largest = 0;
  for (int i = 0; i < size; ++i) {
    if (!is_contiguous(kernel, analysis, i) && !is_reversed(kernel, analysis, i)) continue;
    const auto bytes = static_cast<std::int64_t>(storage_bytes(kernel.body[static_cast<std::size_t>(i)].dtype, 1));
    smallest = smallest ? std::min(smallest, bytes) : bytes;
    largest = std::max(largest, bytes);
  }
  if (smallest == 0) return 1;
  std::int64_t width = std::min<std::int64_t>({16 / smallest, 32 / largest, longest_pack(kernel)});
  const Dim extent = vector_extent(kernel);
  if (extent.is_constant()) width = std::min(width, power_of_two_up_to(extent.constant()));
  // A row of several runs, which lie apart: packs are parts of a run, so that all of them are whole and begin at words
  // of their own size where the first run does.
  if (analysis.form == Form::rows && !analysis.inner.empty() && extent.is_constant() && extent.constant() > 0)
    width = std::gcd(width, extent.constant());
  return static_cast<int>(std::max<std::int64_t>(width, 1));
}

int pack_width(const Kernel& kernel, const Analysis& analysis) {
  return analysis.form == Form::columns || kernel.vector_axis < 0 ? 1 : width_of_packs(kernel, analysis);
}

// Bytes of a warp's result of a reduction or a scan, where a block's threads join theirs.
std::int64_t joined_bytes(const Instruction& it, const Kernel& kernel) {
  const DType of = kernel.body[static_cast<std::size_t>(it.args[0])].dtype;
  const bool wide = !is_floating(of) || of == DType::f64;
  if (it.op == Op::argmax) return 16;
  if (it.is(ReductionKind::online)) return wide ? 16 : 8;
  return wide || it.op == Op::sum || it.op == Op::prod || it.kind == Kind::scan ? 8 : 4;
}

// What is left of it for packs beside the results of joins, which lie in two places that take turns.
std::int64_t shared_for_packs(const Kernel& kernel, const Team& team) {
  std::int64_t joined = 0;
  for (const Instruction& it : kernel.body)
    if (it.kind == Kind::reduce || it.kind == Kind::scan) joined += joined_bytes(it, kernel);
  return device_layout::shared_of_block - joined * 2 * ((team.members + 31) / 32);
}

// Rows that are too long for registers: what several walks read is read from shared memory.
void fetch_row(const Kernel& kernel, std::int64_t packs, const Analysis& analysis, Team& team,
               std::vector<int>& fetched) {
  if (team.width == 1 || !analysis.carried.empty()) return;
  Team fetching = team;
  fetching.members = fetching.threads = 512;
  fetching.blocks = 2;
  for (int loads = 4; loads > 0; --loads) {
    const Analysis kept = analyze(kernel, {KeepLimits::What::packs, kernel.inner_count().constant(), loads});
    if (kept.kept.empty()) return;
    std::int64_t bytes = 0;
    for (const int i : kept.kept) bytes += packs * pack_bytes(kernel, team, i);
    if (bytes > shared_for_packs(kernel, fetching)) continue;
    fetched = kept.kept;
    team = fetching;
    team.shared = bytes;
    return;
  }
}

// A row in shared memory whose values are walked again: each thread keeps those of its first packs in the registers
// that are left, and computes the others again.
void hold_first_packs(const Kernel& kernel, ChosenTeam& chosen) {
  auto& [analysis, team, fetched, held_walks] = chosen;
  constexpr std::int64_t others = 40;  // registers of a thread, which hold something else
  constexpr int most = 2;              // values of an element
  if (fetched.empty() || team.turns > 0 || team.blocks == 0 || !analysis.carried.empty() || has_scans(kernel)) return;
  const Dim packs = extent_of(kernel, analysis.inner) * divide_up(vector_extent(kernel), team.width);
  Analysis held = analyze(kernel, {KeepLimits::What::values, kernel.inner_count().constant(), most});
  if (held.kept.empty()) return;
  const std::int64_t room = device_layout::registers / (team.threads * team.blocks) - others;
  const std::int64_t turns = std::min(room / (team.width * std::ssize(held.kept)), packs.constant() / team.members);
  if (turns <= 0) return;
  team.held = turns;
  analysis.kept = std::move(held.kept);
  held_walks = std::move(held.walks);
}

// The loads of rows that a unit walks in order, which are fetched a row ahead.
void fetch_ahead(const Kernel& kernel, const Analysis& analysis, Team& team, std::vector<int>& fetched) {
  // Two blocks and more have room for 48 KB.
  const std::int64_t most = std::min<std::int64_t>(48 << 10, shared_for_packs(kernel, team));
  if (analysis.carried.size() != 1 || team.turns == 0 || team.members != team.threads) return;
  const std::uint32_t carried = 1u << analysis.carried[0];
  for (int i = 0; i < static_cast<int>(kernel.body.size()); ++i) {
    const std::int64_t bytes = 2 * team.turns * team.members * pack_bytes(kernel, team, i);
    const Instruction& load = kernel.body[static_cast<std::size_t>(i)];
    if (load.kind != Kind::load || load.args[0] >= 0 || !values_in(load.index).empty() || team.width == 1 ||
        !(analysis.facts[static_cast<std::size_t>(i)].axes & carried) || !is_contiguous(kernel, analysis, i) ||
        analysis.facts[static_cast<std::size_t>(i)].last || pack_bytes(kernel, team, i) % 16 != 0 ||
        team.shared + bytes > most)
      continue;
    team.shared += bytes;
    fetched.push_back(i);
  }
}

// Threads that share a row of so many elements.
int members_of(std::int64_t count, std::int64_t elements_of_thread, std::int64_t least) {
  const std::int64_t wanted = (count + elements_of_thread - 1) / elements_of_thread;
  return static_cast<int>(std::clamp<std::int64_t>(power_of_two_up_to(2 * wanted - 1), least, 1024));
}

// Elements of a thread.
constexpr std::int64_t share_of_few_rows = 4;  // whose threads are many
constexpr int most_members_of_scans = 256;     // of many rows
constexpr std::int64_t share_of_columns = 8;   // of which it adds up each, in a register of its own

// A row is shared out in so many elements a thread, at least.
void share_row(const Kernel& kernel, std::int64_t share, Analysis& analysis, Team& team, std::vector<int>& fetched) {
  const Dim inner = kernel.inner_count(), rows = extent_of(kernel, analysis.outer);
  const std::int64_t count = inner.is_constant() ? inner.constant() : 256 * share;
  // A warp is several teams where rows are so short that some of its lanes would have nothing to do.
  const std::int64_t packs_a_row = share == share_of_few_rows ? 32 : (count + team.width - 1) / team.width;
  const std::int64_t least = std::clamp<std::int64_t>(power_of_two_up_to(2 * packs_a_row - 1), 4, 32);
  team.members = members_of(count, share, least);
  // A scan's threads wait for each other at each turn: many small blocks then compute while others wait.
  if (has_scans(kernel) && analysis.phases == 1 && share != share_of_few_rows)
    team.members = std::min(team.members, most_members_of_scans);
  team.threads = team.members <= 32 && !rows.same(Dim(1)) ? 256 : team.members;
  if (!inner.is_constant()) return;
  const std::int64_t packs =
      (extent_of(kernel, analysis.inner) * divide_up(vector_extent(kernel), team.width)).constant();
  // Every warp of a block has packs. Those of a scan are a power of two.
  if (team.members > 32 && packs > 0 && !has_scans(kernel))
    team.members = team.threads = static_cast<int>(std::min<std::int64_t>(team.members, (packs + 31) / 32 * 32));
  // Kept values are registers: all turns of a row's walk are written out.
  const std::int64_t turns = (packs + team.members - 1) / team.members;
  const std::int64_t elements = turns * team.width;
  if (!analysis.carried.empty()) team.turns = turns;  // its columns are registers
  if (turns == 0) return;
  if (elements > 32) return fetch_row(kernel, packs, analysis, team, fetched);
  KeepLimits limits{KeepLimits::What::values_and_loads, inner.constant(), static_cast<int>(64 / elements)};
  Analysis kept = analyze(kernel, limits);
  if (kept.kept.empty()) {  // all that is walked again has been stored: registers hold it all the same
    limits.reloads = false;
    kept = analyze(kernel, limits);
  }
  std::size_t steps = 0;
  for (const std::vector<Step>& walk : kept.walks) steps += walk.size();
  if (kept.kept.empty() || static_cast<std::int64_t>(steps) * elements > 3000) return;
  team.turns = turns;
  analysis = std::move(kept);
}

// Fewer threads with more elements each join fewer results, as long as they have the registers; `most`: values of a
// thread that leave it enough of 64.
void share_row(const Kernel& kernel, Analysis& analysis, Team& team, std::vector<int>& fetched) {
  constexpr std::int64_t usual = 16, of_columns = share_of_columns, of_long_rows = 32, least_long = 4096, most = 32;
  const Dim length = kernel.inner_count(), rows = extent_of(kernel, analysis.outer);
  const bool carries = !analysis.carried.empty();
  const auto attempt = [&](std::int64_t share) {
    ChosenTeam made{analysis, team};
    share_row(kernel, share, made.analysis, made.team, made.fetched);
    return made;
  };
  const auto take = [&](ChosenTeam made) {
    analysis = std::move(made.analysis);
    team = made.team;
    fetched = std::move(made.fetched);
  };
  if (!carries && rows.is_constant() && rows.constant() < 512) return take(attempt(share_of_few_rows));
  ChosenTeam made = attempt(usual);
  const auto bound = [&](ChosenTeam other) {
    other.team.blocks = static_cast<int>(device_layout::threads / other.team.threads);
    take(std::move(other));
  };
  const bool is_block = made.team.turns > 0 && made.team.members > 32 && length.is_constant() && !has_scans(kernel);
  if (is_block && carries) {
    ChosenTeam other = attempt(of_columns);
    const std::int64_t sums =
        std::ranges::count_if(kernel.body, [](const Instruction& it) { return it.is(ReductionKind::over_carried); });
    if ((sums + std::ssize(other.analysis.kept)) * other.team.turns * team.width <= most)
      return bound(std::move(other));
    // Not all threads have packs in each turn: they do where each has one.
    const bool idles = length.constant() % (made.team.members * team.width) != 0;
    if (idles && other.team.turns == 1) return take(std::move(other));
  }
  if (is_block && !carries && team.width == 8 && length.constant() >= least_long) {
    ChosenTeam other = attempt(of_long_rows);
    const auto loads = std::ranges::count_if(
        other.analysis.kept, [&](int i) { return kernel.body[static_cast<std::size_t>(i)].kind == Kind::load; });
    if (other.analysis.kept == made.analysis.kept && loads <= 1) return bound(std::move(other));
  }
  take(std::move(made));
}

bool is_at_least(Dim size, std::int64_t least) {
  if (size.is_constant()) return size.constant() >= least;
  const std::vector<DimTerm> terms = dims::terms(size);
  if (terms.size() != 1 || terms[0].coefficient < 1 || terms[0].factors.size() != 1) return false;
  const DimNode& factor = *terms[0].factors[0];
  return factor.kind == DimKind::symbol && factor.lower.constant() >= least;
}

// A matrix times a vector reads the matrix once: what counts is how much of it is on its way at any time. A warp has a
// row, and asks for the next packs, of this row or of its next one, before it uses those that it has. Long rows are
// shared by several warps, since a device has more warps than such a matrix has rows.
void stream_rows(const Kernel& kernel, const Analysis& analysis, Team& team) {
  constexpr std::int64_t most_members = 128, packs_of_a_thread = 16, most_ahead = 4;
  constexpr int warp = 32;
  const Dim rows = extent_of(kernel, analysis.outer), columns = vector_extent(kernel);
  if (!analysis.carried.empty() || team.turns > 0 || team.width == 1 || analysis.phases != 1 || has_scans(kernel))
    return;
  if (!kernel.inner_count().is_constant() || !is_at_least(rows, least_streamed_rows)) return;
  if (!(columns % Dim(team.width)).same(Dim(0))) return;
  const std::vector<int> of_rows = loads_ahead(kernel, analysis);
  bool repeats = false;  // a load is the same for all rows: the vector
  for (int i = 0; i < static_cast<int>(kernel.body.size()); ++i) {
    const Instruction& it = kernel.body[static_cast<std::size_t>(i)];
    if (!analysis.facts[static_cast<std::size_t>(i)].inner || (it.kind != Kind::load && it.kind != Kind::store))
      continue;
    if (it.kind == Kind::store || !loads_words(kernel, analysis, team, i)) return;
    repeats |= std::ranges::find(of_rows, i) == of_rows.end();
  }
  if (!repeats || of_rows.empty()) return;
  const std::int64_t packs = (extent_of(kernel, analysis.inner) * divide_up(columns, team.width)).constant();
  const std::int64_t members =
      std::clamp<std::int64_t>(power_of_two_up_to(packs / packs_of_a_thread), warp, most_members);
  if (packs % members != 0) return;
  // Registers: each load has twice as many packs.
  std::int64_t ahead = std::max<std::int64_t>(most_ahead / static_cast<std::int64_t>(of_rows.size()), 1);
  while (packs / members % ahead != 0) --ahead;
  if (ahead < most_ahead / 2 && ahead < packs / members) return;
  team.ahead = static_cast<int>(ahead);
  team.members = static_cast<int>(members);
  team.threads = static_cast<int>(members > warp ? members : most_members);  // several warps join in the block's memory
  // With fewer registers a thread, packs are asked for one after the other.
  team.blocks = static_cast<int>(device_layout::threads / team.threads);
}

// Sums of many rows read memory and do little else: a thread has a pack of neighbouring columns, so that a load moves
// 16 bytes, and several rows of it are on their way at any time. What comes before and after the walk has a thread a
// column.
void pack_columns(const Kernel& kernel, const Analysis& analysis, Team& team) {
  constexpr int lanes = 32;
  constexpr std::int64_t least_units = 128, rows_on_their_way = 4;
  Team packed = team;
  packed.width = width_of_packs(kernel, analysis);
  const Dim columns = vector_extent(kernel), rows = kernel.inner_count(), outer = extent_of(kernel, analysis.outer);
  if (packed.width < 4 || analysis.phases != 1 || has_scans(kernel) || !columns.is_constant() || !rows.is_constant() ||
      !outer.is_constant())
    return;
  packed.columns = lanes * packed.width;
  packed.members = packed.width;  // a thread a column, after the walk
  packed.threads = packed.members * lanes;
  if (rows.constant() % (packed.members * rows_on_their_way) != 0 || columns.constant() % packed.width != 0 ||
      outer.constant() * divide_up(columns, packed.columns).constant() < least_units)
    return;
  packed.turns = rows_on_their_way;
  const auto walked = [&](int i) { return i < 0 || analysis.facts[static_cast<std::size_t>(i)].inner; };
  bool reads_packs = false;
  for (int i = 0; i < static_cast<int>(kernel.body.size()); ++i) {
    const Instruction& it = kernel.body[static_cast<std::size_t>(i)];
    const Facts& facts = analysis.facts[static_cast<std::size_t>(i)];
    if (it.kind == Kind::reduce &&
        (it.is(ReductionKind::online) || it.is(ReductionKind::product) || it.op == Op::argmax ||
         !analysis.facts[static_cast<std::size_t>(it.args[0])].vector))
      return;
    if (!facts.inner) continue;
    const bool is_pack = it.kind == Kind::load && facts.vector;
    if (it.kind == Kind::store || (is_pack && !loads_words(kernel, analysis, packed, i))) return;
    reads_packs |= is_pack;
    // What differs from column to column is of the walk alone.
    for (const int value : it.args)
      if (!walked(value) && analysis.facts[static_cast<std::size_t>(value)].vector) return;
    for (const int value : values_in(it.index))
      if (analysis.facts[static_cast<std::size_t>(value)].vector) return;
  }
  if (reads_packs) team = packed;
}

// Whether one load, and no store, lies across, and its packs begin at words where its buffer does.
bool reads_words_across(const Kernel& kernel, const Analysis& analysis, const Team& team) {
  int loads = 0;
  for (int i = 0; i < static_cast<int>(kernel.body.size()); ++i) {
    if (!turns(kernel, analysis, i, team.across)) continue;
    const Instruction& it = kernel.body[static_cast<std::size_t>(i)];
    const Dim axis = dims::axis(team.across, kernel.axes[static_cast<std::size_t>(team.across)].extent);
    const dims::Linear along = dims::linear_in(it.index, axis);
    if (it.kind != Kind::load || !along.linear || !along.coefficient.same(Dim(1))) return false;
    for (const DimTerm& term : dims::terms(it.index - axis))
      if (term.coefficient % team.width != 0) return false;
    ++loads;
  }
  return loads == 1;
}

// Loads that lie across, in words of 16 bytes each way: a thread turns a block of its packs in registers, and a tile
// has one for each thread. Where there are enough of such tiles to fill a device.
bool turn_in_blocks(const Kernel& kernel, const Analysis& analysis, Team& team, std::int64_t bytes, std::int64_t size) {
  constexpr std::int64_t least_tiles = 2 * device_layout::multiprocessors;
  if (size != 2 && size != 4) return false;
  Team turning = team;
  turning.width = static_cast<int>(16 / size);
  turning.tile = turning.width * 16;
  turning.in_blocks = true;
  if (bytes != size || longest_pack(kernel) < turning.width || !reads_words_across(kernel, analysis, turning))
    return false;
  const Dim down = kernel.axes[static_cast<std::size_t>(team.across)].extent, along = vector_extent(kernel);
  if (!(down % Dim(turning.tile)).same(Dim(0)) || !(along % Dim(turning.tile)).same(Dim(0))) return false;
  const Dim points = extent_of(kernel, analysis.outer) * along;
  if (!points.is_constant() || points.constant() / (turning.tile * turning.tile) < least_tiles) return false;
  team = turning;
  return true;
}

// The outer axis along which most of what lies across the lanes is close in memory.
void choose_tiles(const Kernel& kernel, const Analysis& analysis, Team& team) {
  constexpr std::int64_t least = 16;  // points each way: fewer do not fill a tile
  const auto is_long = [&](Dim extent) { return !extent.is_constant() || extent.constant() >= least; };
  if (kernel.vector_axis < 0 || !is_long(vector_extent(kernel))) return;
  int most = 0;
  std::int64_t bytes = 0, narrowest = 8;
  for (const int axis : analysis.outer) {
    if (!is_long(kernel.axes[static_cast<std::size_t>(axis)].extent)) continue;
    int count = 0;
    std::int64_t held = 0, smallest = 8;
    for (int i = 0; i < static_cast<int>(kernel.body.size()); ++i) {
      if (!turns(kernel, analysis, i, axis)) continue;
      const auto size = static_cast<std::int64_t>(storage_bytes(kernel.body[static_cast<std::size_t>(i)].dtype, 1));
      ++count;
      held += size;
      smallest = std::min(smallest, size);
    }
    if (count <= most) continue;
    most = count;
    bytes = held;
    narrowest = smallest;
    team.across = axis;
  }
  if (most == 0) return;
  constexpr std::int64_t room = 40 << 10;  // of the 48 KB that need not be asked for
  team.tile = bytes * 64 * 65 <= room ? 64 : bytes * 32 * 33 <= room ? 32 : 0;
  if (turn_in_blocks(kernel, analysis, team, bytes, narrowest)) return;
  const std::int64_t turns = team.tile * team.tile / team.threads;
  if (turns > 0) team.width = static_cast<int>(std::min({8 / narrowest, turns, longest_pack(kernel)}));
}

}  // namespace

bool turns(const Kernel& kernel, const Analysis& analysis, int instruction, int axis) {
  const Instruction& it = kernel.body[static_cast<std::size_t>(instruction)];
  if (!runs_across(kernel, analysis, instruction, axis) || !values_in(it.index).empty()) return false;
  if (it.kind == Kind::load) return it.args[0] < 0;  // a predicate would tell its neighbours apart
  return analysis.facts[static_cast<std::size_t>(it.args[0])].vector;
}

std::int64_t rows_of_unit(const Kernel& kernel) {
  constexpr std::int64_t least = 8, most = 128, of_any = 32;
  constexpr std::int64_t sums = 2, launch = 8;  // about so many rows' time: a unit's sums, one more kernel
  const Dim rows = kernel.outer_count(), length = kernel.inner_count();
  if (!rows.is_constant() || !length.is_constant()) return of_any;
  const std::int64_t members = members_of(length.constant(), share_of_columns, 32);
  const std::int64_t room = device_layout::multiprocessors * device_layout::threads / members;
  std::int64_t best = of_any, best_cost = -1;
  for (std::int64_t chunk = least; chunk <= most; ++chunk) {
    const std::int64_t units = rows.constant() / chunk, rest = rows.constant() % chunk;
    const std::int64_t cost = (units + room - 1) / room * (chunk + sums) + (rest > 0 ? rest + launch : 0);
    if (best_cost < 0 || cost < best_cost) {
      best = chunk;
      best_cost = cost;
    }
  }
  return best;
}

bool is_same_in_packs(const Kernel& kernel, const Analysis& analysis, int predicate, int width) {
  const Instruction& it = kernel.body[static_cast<std::size_t>(predicate)];
  if (!analysis.facts[static_cast<std::size_t>(predicate)].vector) return true;
  if (it.kind == Kind::apply && it.dtype == DType::boolean)
    return (it.op == Op::bitwise_and || it.op == Op::bitwise_or || it.op == Op::bitwise_not) &&
           std::ranges::all_of(
               it.args, [&](int value) { return value < 0 || is_same_in_packs(kernel, analysis, value, width); });
  if (it.kind != Kind::test || !values_in(it.index).empty()) return false;
  // 0 <= rest + i changes where i is -rest, 0 <= rest - i where it is rest + 1.
  const Dim axis = dims::axis(kernel.vector_axis, vector_extent(kernel));
  const dims::Linear along = dims::linear_in(it.index, axis);
  if (!along.linear || !along.coefficient.is_constant() || std::abs(along.coefficient.constant()) != 1) return false;
  const Dim rest = it.index - along.coefficient * axis;
  return std::ranges::all_of(dims::terms(along.coefficient.constant() > 0 ? rest : rest + Dim(1)),
                             [&](const DimTerm& term) { return term.coefficient % width == 0; });
}

bool begins_at_no_word(const Kernel& kernel, const Analysis& analysis, const Team& team) {
  if (analysis.form != Form::pointwise || team.tile > 0 || team.width == 1) return false;
  bool between = false;
  for (int i = 0; i < static_cast<int>(kernel.body.size()); ++i) {
    const Instruction& it = kernel.body[static_cast<std::size_t>(i)];
    if (it.kind == Kind::load && it.args[0] >= 0) return false;  // of an element that an index names
    if (!is_contiguous(kernel, analysis, i)) continue;
    for (const DimTerm& term : dims::terms(access(kernel, analysis, it.index).rest))
      between |= term.coefficient % team.width != 0 &&
                 std::ranges::all_of(term.factors, [](const DimNode* factor) { return factor->kind == DimKind::axis; });
  }
  return between;
}

bool holds_row(const Kernel& kernel) {
  const ChosenTeam chosen = choose_team(kernel);
  return !chosen.fetched.empty() || !chosen.analysis.kept.empty();
}

bool has_scans(const Kernel& kernel) {
  return std::any_of(kernel.body.begin(), kernel.body.end(),
                     [](const Instruction& it) { return it.kind == Kind::scan; });
}

ChosenTeam choose_team(const Kernel& kernel) {
  ChosenTeam chosen{analyze(kernel, {.buffers = 0})};
  auto& [analysis, team, fetched, held_walks] = chosen;
  team.width = pack_width(kernel, analysis);
  if (analysis.form == Form::pointwise) {
    choose_tiles(kernel, analysis, team);
    // A pack whose elements lie a warp apart takes as many warps' lengths of a row, which may be short (3 channels).
    if (begins_at_no_word(kernel, analysis, team) && vector_extent(kernel).is_constant())
      team.width = static_cast<int>(
          std::min<std::int64_t>(power_of_two_up_to(vector_extent(kernel).constant() / 32), team.width));
  }
  if (analysis.form == Form::rows) {
    share_row(kernel, analysis, team, fetched);
    hold_first_packs(kernel, chosen);
    fetch_ahead(kernel, analysis, team, fetched);
    if (fetched.empty()) stream_rows(kernel, analysis, team);
  }
  if (analysis.form == Form::columns) {
    const Dim count = kernel.inner_count(), columns = extent_of(kernel, analysis.outer) * vector_extent(kernel);
    const std::int64_t rows = count.is_constant() ? count.constant() : 64;
    // Few columns do not fill a device: then it is the rows of a thread, one after the other, that take the time.
    // Many fill it already: then it is the joining of a block's threads.
    const std::int64_t all = columns.is_constant() ? columns.constant() : 65536;
    const std::int64_t rows_of_thread =
        std::clamp<std::int64_t>(power_of_two_up_to(rows * all >> 18), all <= 8192 ? 2 : 8, 32);
    team.members = static_cast<int>(std::clamp<std::int64_t>(power_of_two_up_to(rows / rows_of_thread), 1, 32));
    if (has_scans(kernel)) team.members = 1;  // a thread walks all rows of its column in order
    team.columns = std::max(32, 128 / team.members);
    team.threads = team.members * team.columns;
    pack_columns(kernel, analysis, team);
  }
  return chosen;
}

}  // namespace weft::loop
