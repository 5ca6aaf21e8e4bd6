// Schedules of traces that are made by hand, and what their kernels do where they only move elements.
#pragma once
#include <doctest/doctest.h>

#include <map>
#include <stdexcept>
#include <vector>

#include "interpret/reference.hpp"
#include "schedule/schedule.hpp"
#include "tests/schedule/traced.hpp"

namespace weft::test {

inline int kernels(const Schedule& schedule) {
  int count = 0;
  for (const Step& step : schedule.steps) count += step.payload->kernel() != nullptr;
  return count;
}

inline const loop::Kernel& kernel(const Schedule& schedule, int which) {
  for (const Step& step : schedule.steps)
    if (step.payload->kernel() && which-- == 0) return *step.payload->kernel();
  throw std::out_of_range("kernel");
}

inline constexpr std::int64_t far = 10000;  // further than any element: argument a holds (a + 1) * far, ...

// The first result of a schedule that only moves elements, by walking its kernels.
inline std::vector<double> moved(const Schedule& schedule) {
  std::map<std::int64_t, double> result;
  for (const Step& step : schedule.steps) {
    const loop::Kernel& k = *step.payload->kernel();
    std::vector<std::int64_t> point(k.axes.size(), 0);
    const auto at = [&](Dim dim) {
      return dims::evaluate(dim, [&](const DimNode* atom) {
        auto number = static_cast<std::size_t>(atom->number);
        return atom->kind == DimKind::axis ? point[number] : k.parameters[number].constant();
      });
    };
    for (bool more = true; more;) {
      std::vector<double> values;
      const auto read = [&](std::int32_t i) { return values[static_cast<std::size_t>(i)]; };
      for (const loop::Instruction& it : k.body) {
        const auto buffer = static_cast<std::size_t>(it.buffer);
        if (it.kind == loop::Kind::constant) {
          values.push_back(it.bits != 0);
        } else if (it.kind == loop::Kind::test) {
          values.push_back(at(it.index) >= 0);
        } else if (it.kind == loop::Kind::apply && it.op == Op::bitwise_and) {
          values.push_back(read(it.args[0]) * read(it.args[1]));
        } else if (it.kind == loop::Kind::apply && it.op == Op::where) {
          values.push_back(read(it.args[read(it.args[0]) != 0 ? 1 : 2]));
        } else if (it.kind == loop::Kind::load && it.args[0] >= 0 && read(it.args[0]) == 0) {
          values.push_back(0);
        } else if (it.kind == loop::Kind::load) {
          const std::int64_t element = at(it.index);
          REQUIRE(element >= 0);
          REQUIRE(element < at(k.buffers[buffer].elements));
          const ScheduleBuffer& from = schedule.buffers[static_cast<std::size_t>(k.buffers[buffer].value)];
          values.push_back(static_cast<double>((from.index + 1) * far + element));
        } else {
          REQUIRE(it.kind == loop::Kind::store);
          values.push_back(result[at(it.index)] = read(it.args[0]));
        }
      }
      more = false;
      for (std::size_t a = point.size(); a-- > 0 && !more;) {
        more = ++point[a] < at(k.axes[a].extent);
        if (!more) point[a] = 0;
      }
    }
  }
  std::vector<double> list;
  for (auto [element, value] : result) {
    CHECK(element == static_cast<std::int64_t>(list.size()));
    list.push_back(value);
  }
  return list;
}

// What the reference interpreter says of it.
inline std::vector<double> moved_in_reference(Graph graph) {
  std::vector<Literal> arguments;
  for (const Tensor& input : graph.inputs) {
    Literal& values = arguments.emplace_back(Literal{type_of(input)});
    std::int64_t first = static_cast<std::int64_t>(arguments.size()) * far;
    for (std::int64_t i = 0; i < type_of(input).shape.element_count().constant(); ++i)
      values.reals.push_back(static_cast<double>(first + i));
  }
  return interpret(graph, arguments, {})[0].reals;
}

}  // namespace weft::test
