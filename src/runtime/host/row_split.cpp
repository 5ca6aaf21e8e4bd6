#include "runtime/host/row_split.hpp"

#include <algorithm>

namespace weft::runtime {

namespace {

using Int = std::int64_t;

// Times are in those of adding one element of a wide row (about 0.1 ns), for each update.
constexpr double visit = 4;              // an update whose row is found by its index, or is seen to be another thread's
constexpr double worth = 0.8;            // a split may take this share of one thread's time
constexpr Int least_elements = 1 << 15;  // that pay for another thread
constexpr Int least_part_bytes = 2048;   // of a row: reading narrower columns takes as long as reading whole rows
constexpr Int cached_bytes = 4 << 20;    // updates that the caches hold
constexpr double gaps = 2;               // by which it takes longer to read a part of updates that they don't hold

Int divided(Int a, Int b) { return (a + b - 1) / b; }

// Sets bounds between which about as many updates fall, from a sample of them. Returns the share of the fullest part.
double balance_rows(std::span<const Int> index, Int rows, RowParts& parts) {
  constexpr Int of_thread = 64;
  Int sample[of_thread * workers::most_threads];
  const Int count = static_cast<Int>(index.size()), size = std::min(count, of_thread * parts.threads);
  for (Int i = 0; i < size; ++i) sample[i] = std::clamp<Int>(index[i * count / size], 0, rows - 1);
  std::sort(sample, sample + size);
  for (Int i = 1; i < parts.threads; ++i) parts.bounds[i] = sample[i * size / parts.threads];
  parts.bounds[parts.threads] = rows;
  Int most = 0;
  for (Int i = 0; i < parts.threads; ++i)
    most = std::max<Int>(most, std::lower_bound(sample, sample + size, parts.bounds[i + 1]) -
                                   std::lower_bound(sample, sample + size, parts.bounds[i]));
  return static_cast<double>(most) / static_cast<double>(size);
}

}  // namespace

RowParts row_parts(const RowSizes& sizes, std::size_t element_bytes, bool any_order, std::span<const Int> index,
                   Int threads) {
  const auto [outer, rows, inner, count] = sizes;
  const Int columns = outer * inner, elements = columns * count, bytes = static_cast<Int>(element_bytes);
  threads = std::min(threads, elements / least_elements);
  if (threads <= 1) return {};
  const double one = visit * static_cast<double>(outer) + static_cast<double>(columns);
  const double part_cost = elements * bytes > cached_bytes ? gaps : 1;
  double best = one * worth;
  RowParts result;
  const auto offer = [&](double time, const RowParts& parts) {
    if (time < best) best = time, result = parts;
  };

  if (outer >= threads) {  // whole tables
    const Int tables = divided(outer, threads), grain = std::clamp<Int>(least_elements / (count * inner), 1, tables);
    offer(one * static_cast<double>(tables) / static_cast<double>(outer), {RowSplit::columns, grain * inner});
  } else if (const Int part = divided(columns, threads); part * bytes >= least_part_bytes) {
    const Int rows_of_part = divided(part, inner);
    offer(part_cost * (visit * static_cast<double>(rows_of_part) + static_cast<double>(part)),
          {RowSplit::columns, part});
  }
  if (any_order && threads * rows <= count) {
    const double joined = 3 * static_cast<double>(rows * columns) / static_cast<double>(count);
    offer(one / static_cast<double>(threads) + joined, {RowSplit::copies, divided(least_elements, columns), threads});
  }
  // The sample is drawn only where rows would be best if they were balanced.
  const double walk = visit * static_cast<double>(outer);
  if (inner * bytes >= least_row_bytes && walk + part_cost * one / static_cast<double>(threads) < best) {
    RowParts parts{RowSplit::rows, 0, threads};
    const double share = balance_rows(index, rows, parts);
    offer(walk + part_cost * one * share, parts);
  }
  return result;
}

}  // namespace weft::runtime
