#include "schedule/repeats.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/fail.hpp"

namespace weft {
namespace {

// What a step does, whatever its memory is.
std::string key_of(const Step& step) {
  if (const loop::Kernel* kernel = step.payload->kernel())
    return loop::shared_text(*kernel) + std::to_string(step.buffers.size());  // a table has more of them
  return step.name + " " + step.payload->details();
}

// Steps that do the same have the same number.
std::vector<std::uint32_t> numbers_of(std::span<const Step> steps) {
  std::unordered_map<std::string, std::uint32_t> known;
  std::vector<std::uint32_t> numbers;
  for (const Step& step : steps)
    numbers.push_back(known.try_emplace(key_of(step), static_cast<std::uint32_t>(known.size())).first->second);
  return numbers;
}

std::string_view region_of(std::uint32_t use) {
  const std::string_view text = interned_text(use);
  return text.substr(0, text.rfind('#'));
}

// By region: by use, the steps that do something of it.
using Uses = std::map<std::string_view, std::map<std::uint32_t, std::vector<std::size_t>>>;
Uses uses_of(const Schedule& schedule) {
  Uses uses;
  for (std::size_t s = 0; s < schedule.steps.size(); ++s)
    for (const std::uint32_t use : schedule.steps[s].regions)
      if (use) uses[region_of(use)][use].push_back(s);
  return uses;
}

// Where the steps' operations are written, from the first line to the last of the file of most.
std::string lines_of(std::span<const Step> steps) {
  std::map<std::string, std::set<long>> files;
  for (const Step& step : steps)
    for (const std::string& operation : step.operations) {
      const std::size_t comma = operation.rfind(", "), colon = operation.rfind(':');
      if (comma == std::string::npos || colon == std::string::npos || colon < comma) continue;
      files[operation.substr(comma + 2, colon - comma - 2)].insert(std::atol(operation.c_str() + colon + 1));
    }
  const auto most = std::ranges::max_element(files, {}, [](const auto& file) { return file.second.size(); });
  if (most == files.end()) return {};
  const long first = *most->second.begin(), last = *most->second.rbegin();
  return concat_text(most->first, ":", first, last == first ? "" : concat_text("-", last));
}

struct Kernels {
  std::size_t count = 0;
  std::set<std::uint32_t> functions;
};
template <class Steps>
Kernels kernels_of(const Schedule& schedule, std::span<const std::uint32_t> numbers, const Steps& steps) {
  Kernels kernels;
  for (const std::size_t s : steps) {
    if (!schedule.steps[s].payload->kernel()) continue;
    ++kernels.count;
    kernels.functions.insert(numbers[s]);
  }
  return kernels;
}

}  // namespace

bool uses_differ(const Schedule& schedule) {
  if (std::ranges::all_of(schedule.steps, [](const Step& step) { return step.regions.empty(); })) return false;
  const std::vector<std::uint32_t> numbers = numbers_of(schedule.steps);
  for (const auto& [region, uses] : uses_of(schedule)) {
    std::set<std::vector<std::uint32_t>> kinds;
    for (const auto& [use, steps] : uses) {
      std::vector<std::uint32_t> kind;
      for (const std::size_t s : steps) kind.push_back(numbers[s]);
      std::ranges::sort(kind);
      kinds.insert(std::move(kind));
    }
    if (kinds.size() > 1) return true;
  }
  return false;
}

Code code_of(const Schedule& schedule) {
  std::set<std::string> functions;
  Code code;
  for (const Step& step : schedule.steps) {
    const loop::Kernel* const kernel = step.payload->kernel();
    if (kernel && functions.insert(key_of(step)).second) code.instructions += kernel->body.size();
  }
  code.functions = functions.size();
  return code;
}

std::vector<Repeat> find_repeats(const Schedule& schedule) {
  const std::vector<std::uint32_t> numbers = numbers_of(schedule.steps);
  const std::size_t count = numbers.size();
  // Lengths that are likely: how far apart equal steps are.
  std::map<std::size_t, std::size_t> votes;
  std::unordered_map<std::uint32_t, std::size_t> last;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [seen, fresh] = last.try_emplace(numbers[i], i);
    if (!fresh) ++votes[i - std::exchange(seen->second, i)];
  }
  std::vector<std::pair<std::size_t, std::size_t>> lengths(votes.begin(), votes.end());
  std::ranges::stable_sort(lengths, std::greater<>(), &std::pair<std::size_t, std::size_t>::second);
  constexpr std::size_t most_lengths = 16;
  if (lengths.size() > most_lengths) lengths.resize(most_lengths);

  std::vector<Repeat> found;
  for (const auto& [length, unused] : lengths)
    for (std::size_t i = length, start = i; i <= count; ++i) {
      if (i < count && numbers[i] == numbers[i - length]) continue;
      if (i - start >= length) found.push_back({start - length, length, (i - start) / length + 1});
      start = i + 1;
    }
  std::ranges::stable_sort(found, [](const Repeat& a, const Repeat& b) {
    const std::size_t of_a = a.steps * a.uses, of_b = b.steps * b.uses;
    return of_a != of_b ? of_a > of_b : a.steps < b.steps;
  });
  std::vector<Repeat> kept;
  std::vector<bool> taken(count, false);
  for (const Repeat& repeat : found) {
    const auto first = taken.begin() + static_cast<std::ptrdiff_t>(repeat.first);
    const auto end = first + static_cast<std::ptrdiff_t>(repeat.steps * repeat.uses);
    if (std::find(first, end, true) != end) continue;
    std::fill(first, end, true);
    kept.push_back(repeat);
  }
  return kept;
}

std::vector<std::string> repeat_texts(const Schedule& schedule) {
  const std::vector<std::uint32_t> numbers = numbers_of(schedule.steps);
  std::vector<std::string> texts;
  for (const auto& [region, uses] : uses_of(schedule)) {
    std::set<std::size_t> all;
    std::size_t most = 0;
    for (const auto& [use, steps] : uses) {
      all.insert(steps.begin(), steps.end());
      most = std::max(most, kernels_of(schedule, numbers, steps).count);
    }
    const Kernels kernels = kernels_of(schedule, numbers, all);
    texts.push_back(concat_text("region ", region, ": ", uses.size(), " uses of at most ", most, " kernels; ",
                                kernels.functions.size(), " functions serve all of them"));
  }
  if (!schedule.borders.empty()) texts.push_back(schedule.borders);
  for (const Repeat& repeat : find_repeats(schedule)) {
    std::vector<std::size_t> steps;
    for (std::size_t s = repeat.first; s < repeat.first + repeat.steps; ++s) steps.push_back(s);
    const Kernels kernels = kernels_of(schedule, numbers, steps);
    if (kernels.count == 0) continue;
    const std::string lines = lines_of(std::span(schedule.steps).subspan(repeat.first, repeat.steps));
    texts.push_back(concat_text("found", lines.empty() ? "" : " at " + lines, ": ", repeat.uses, " uses of ",
                                repeat.steps, repeat.steps == 1 ? " step" : " steps", " from step ", repeat.first,
                                " on; ", kernels.functions.size(),
                                kernels.functions.size() == 1 ? " function serves" : " functions serve", " ",
                                kernels.count * repeat.uses, " kernels"));
  }
  return texts;
}

}  // namespace weft
