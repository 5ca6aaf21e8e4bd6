// Which steps run side by side.
#include "runtime/lanes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace weft;
using namespace weft::runtime;

namespace {

Touched reads(std::uintptr_t begin, std::uintptr_t bytes = 8) { return {begin, begin + bytes, false}; }
Touched writes(std::uintptr_t begin, std::uintptr_t bytes = 8) { return {begin, begin + bytes, true}; }

// Whether step `later` comes after step `earlier`, by lanes and by what is waited for.
bool comes_behind(const std::vector<Ordered>& steps, std::size_t later, std::size_t earlier) {
  if (later == earlier) return true;
  if (later < earlier) return false;
  for (std::size_t i = later; i-- > earlier;)
    if (steps[i].lane == steps[later].lane) {
      if (comes_behind(steps, i, earlier)) return true;
      break;
    }
  for (const std::size_t other : steps[later].after)
    if (comes_behind(steps, other, earlier)) return true;
  return false;
}

}  // namespace

TEST_CASE("a chain is one lane, and what does not touch it has its own") {
  const std::vector<std::vector<Touched>> steps = {{reads(0), writes(100)},
                                                   {reads(100), writes(200)},
                                                   {reads(0), writes(300)},
                                                   {reads(200), writes(400)},
                                                   {reads(300), reads(400), writes(500)}};
  const std::vector<Ordered> ordered = assign_lanes(steps);
  CHECK(ordered[1].lane == ordered[0].lane);
  CHECK(ordered[2].lane != ordered[0].lane);
  CHECK(ordered[3].lane == ordered[0].lane);
  CHECK_FALSE(comes_behind(ordered, 3, 2));
  CHECK(comes_behind(ordered, 4, 2));
  CHECK(comes_behind(ordered, 4, 3));
}

TEST_CASE("a step that writes comes after those that read and wrote the same bytes, by whatever pointer") {
  const std::vector<std::vector<Touched>> steps = {
      {writes(0, 64)}, {reads(32, 8), writes(1000)}, {writes(36, 4)}, {reads(64), writes(2000)}};
  const std::vector<Ordered> ordered = assign_lanes(steps);
  CHECK(comes_behind(ordered, 1, 0));
  CHECK(comes_behind(ordered, 2, 1));
  CHECK_FALSE(comes_behind(ordered, 3, 0));
}

TEST_CASE("a step that does nothing has no lane, and parts no chain") {
  const std::vector<std::vector<Touched>> steps = {{writes(100)}, {by_idle}, {reads(100), writes(200)}, {by_idle}};
  const std::vector<Ordered> ordered = assign_lanes(steps);
  CHECK(ordered[1].lane == -1);
  CHECK(ordered[3].lane == -1);
  CHECK(ordered[2].lane == ordered[0].lane);
  CHECK(ordered[2].after.empty());
}

TEST_CASE("random steps: every dependence is kept, with more branches than lanes too") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<Touched>> steps(1 + random() % 40);
    for (std::vector<Touched>& step : steps)
      for (std::size_t i = 0; i < 1 + random() % 4; ++i)
        step.push_back({random() % 60, 0, random() % 3 == 0}), step.back().end = step.back().begin + 1 + random() % 6;
    const std::vector<Ordered> ordered = assign_lanes(steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      CHECK(ordered[i].lane < most_lanes);
      for (std::size_t j = 0; j < i; ++j)
        for (const Touched& a : steps[i])
          for (const Touched& b : steps[j])
            if ((a.written || b.written) && a.begin < b.end && b.begin < a.end) REQUIRE(comes_behind(ordered, i, j));
    }
  }
}

TEST_CASE("more steps than can be ordered are one lane") {
  const std::vector<std::vector<Touched>> steps(most_ordered + 1);
  for (const Ordered& step : assign_lanes(steps)) {
    CHECK(step.lane == 0);
    CHECK(step.after.empty());
  }
}

TEST_CASE("collectives have a lane of their own, among few steps and many") {
  for (const std::size_t count : {std::size_t{12}, most_ordered + 40}) {
    // A chain of kernels; every third result is sent, and the last kernel reads what came back first.
    std::vector<std::vector<Touched>> steps;
    std::vector<std::size_t> collectives;
    for (std::size_t i = 0; steps.size() < count; ++i) {
      steps.push_back({reads(1000 * i), writes(1000 * (i + 1))});
      if (i % 3 != 2) continue;
      collectives.push_back(steps.size());
      steps.push_back({reads(1000 * (i + 1)), writes(1000 * (i + 1) + 500), by_collectives});
    }
    steps.push_back({reads(3500), writes(8)});
    const std::vector<Ordered> ordered = assign_lanes(steps);
    const int own = ordered[collectives[0]].lane;
    for (std::size_t i = 0; i < steps.size(); ++i)
      CHECK((ordered[i].lane == own) == (std::ranges::find(collectives, i) != collectives.end()));
    for (const std::size_t each : collectives) CHECK(ordered[each].after == std::vector<std::size_t>{each - 1});
    CHECK(ordered.back().after == std::vector<std::size_t>{collectives[0]});
    for (std::size_t i = 0; i + 1 < steps.size(); ++i)  // no kernel waits for one that it does not read
      if (ordered[i].lane != own) CHECK(ordered[i].after.empty());
  }
}

TEST_CASE("steps after a collective that takes long do not take its operands' time") {
  // Two kernels, of which the first is sent, then two that read what was there before both.
  const auto lanes = [](std::uintptr_t sent) {
    return assign_lanes(std::vector<std::vector<Touched>>{{reads(0), writes(1000)},
                                                          {reads(1000), {2000, 2000 + sent, true}},
                                                          {{2000, 2000 + sent, false}, by_collectives},
                                                          {reads(1000), writes(5000)},
                                                          {reads(5000), {5500, 5600, true}, by_collectives}});
  };
  CHECK_FALSE(comes_behind(lanes(10), 3, 1));
  CHECK(comes_behind(lanes(2000), 3, 1));
}
