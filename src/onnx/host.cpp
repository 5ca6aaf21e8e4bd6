// The arithmetic of shapes: operators over few integers that are known on the host, symbolic ones among them.
#include <algorithm>
#include <array>

#include "onnx/call.hpp"
#include "record/record.hpp"

namespace weft::onnx {
namespace {

using Sizes64 = std::vector<std::int64_t>;

// The number of elements; most_known_elements + 1 where there are more.
std::int64_t count_of(const Sizes64& sizes) {
  if (std::ranges::count(sizes, 0)) return 0;
  constexpr std::int64_t most = most_known_elements + 1;
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count = std::min(count * std::min(size, most), most);
  return count;
}
// Whether `dtype` holds it, as far as it is known.
bool holds(DType dtype, Dim element) {
  if (!element.is_constant()) return true;
  const std::int64_t value = element.constant();
  const int bits = static_cast<int>(storage_bytes(dtype, 1)) * 8;
  if (dtype == DType::boolean) return value == 0 || value == 1;
  if (bits == 64) return !element.beyond();
  const bool from_zero = dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32;
  const std::int64_t range = std::int64_t{1} << (from_zero ? bits : bits - 1);
  return value < range && value >= (from_zero ? 0 : -range);
}
// The place of element i of a shape in a row-major value that broadcasts to it.
std::size_t place_in(const Sizes64& sizes, const Sizes64& to, std::int64_t i) {
  std::int64_t place = 0, step = 1;
  for (std::size_t back = 1; back <= to.size(); ++back) {
    const std::int64_t size = to[to.size() - back], at = i % size;
    i /= size;
    if (back > sizes.size()) continue;
    const std::int64_t own = sizes[sizes.size() - back];
    place += own == 1 ? 0 : at * step;
    step *= own;
  }
  return static_cast<std::size_t>(place);
}
bool broadcast_to(Sizes64& sizes, const Sizes64& other) {
  if (other.size() > sizes.size()) sizes.insert(sizes.begin(), other.size() - sizes.size(), 1);
  for (std::size_t back = 1; back <= other.size(); ++back) {
    std::int64_t& size = sizes[sizes.size() - back];
    const std::int64_t own = other[other.size() - back];
    if (size != own && size != 1 && own != 1) return false;
    if (size == 1) size = own;
  }
  return true;
}

template <class F>
std::optional<KnownElements> elementwise(NodeCall& call, DType dtype, F f) {
  Sizes64 sizes;
  for (std::size_t i = 0; i < call.count(); ++i) {
    const KnownElements& from = *call.value(i).host();
    if (!from.exact.empty() || !broadcast_to(sizes, from.sizes)) return {};
  }
  KnownElements made{dtype, sizes};
  const std::int64_t count = count_of(sizes);
  if (count > most_known_elements) return {};
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<Dim> operands;
    for (std::size_t input = 0; input < call.count(); ++input) {
      const KnownElements& from = *call.value(input).host();
      operands.push_back(from.integers[place_in(from.sizes, sizes, i)]);
    }
    made.integers.push_back(f(operands));
  }
  return made;
}
// Cut towards 0, as integers are divided in C.
Dim quotient(Dim a, Dim b) {
  if (b.same(Dim(0))) return 0;
  return a.is_constant() && b.is_constant() ? Dim(a.constant() / b.constant()) : a / b;
}

using Result = std::optional<KnownElements>;
Result of_shape(const KnownElements& from, Sizes64 sizes) {
  KnownElements made = from;
  made.sizes = std::move(sizes);
  return made;
}

struct HostRow {
  std::string_view name;
  std::size_t least;  // inputs that `run` reads
  Result (*run)(NodeCall& call);
};
DType first_dtype(NodeCall& call) { return call.value(0).dtype(); }
const KnownElements& first(NodeCall& call) { return *call.value(0).host(); }

constexpr HostRow host_rows[] = {
    {"Add", 2, [](NodeCall& c) { return elementwise(c, first_dtype(c), [](auto& o) { return o[0] + o[1]; }); }},
    {"Sub", 2, [](NodeCall& c) { return elementwise(c, first_dtype(c), [](auto& o) { return o[0] - o[1]; }); }},
    {"Mul", 2, [](NodeCall& c) { return elementwise(c, first_dtype(c), [](auto& o) { return o[0] * o[1]; }); }},
    {"Div", 2,
     [](NodeCall& c) { return elementwise(c, first_dtype(c), [](auto& o) { return quotient(o[0], o[1]); }); }},
    {"Neg", 1, [](NodeCall& c) { return elementwise(c, first_dtype(c), [](auto& o) { return -o[0]; }); }},
    {"Identity", 1, [](NodeCall& c) -> Result { return first(c); }},
    {"Min", 1,
     [](NodeCall& c) { return elementwise(c, first_dtype(c), [](auto& o) { return *std::ranges::min_element(o); }); }},
    {"Max", 1,
     [](NodeCall& c) { return elementwise(c, first_dtype(c), [](auto& o) { return *std::ranges::max_element(o); }); }},
    {"Equal", 2,
     [](NodeCall& c) { return elementwise(c, DType::boolean, [](auto& o) { return Dim(int{o[0] == o[1]}); }); }},
    {"Less", 2,
     [](NodeCall& c) { return elementwise(c, DType::boolean, [](auto& o) { return Dim(int{o[0] < o[1]}); }); }},
    {"Greater", 2,
     [](NodeCall& c) { return elementwise(c, DType::boolean, [](auto& o) { return Dim(int{o[0] > o[1]}); }); }},
    {"LessOrEqual", 2,
     [](NodeCall& c) { return elementwise(c, DType::boolean, [](auto& o) { return Dim(int{o[0] <= o[1]}); }); }},
    {"GreaterOrEqual", 2,
     [](NodeCall& c) { return elementwise(c, DType::boolean, [](auto& o) { return Dim(int{o[0] >= o[1]}); }); }},
    {"Not", 1,
     [](NodeCall& c) { return elementwise(c, DType::boolean, [](auto& o) { return Dim(int{o[0] == Dim(0)}); }); }},
    {"And", 2,
     [](NodeCall& c) {
       return elementwise(c, DType::boolean, [](auto& o) { return Dim(int{o[0] * o[1] == Dim(1)}); });
     }},
    {"Where", 3,
     [](NodeCall& c) {
       return elementwise(c, c.value(1).dtype(), [](auto& o) { return o[0] == Dim(0) ? o[2] : o[1]; });
     }},
    {"Cast", 1,
     [](NodeCall& c) -> Result {
       const auto to = static_cast<int>(c.integer("to", 0));
       if (!has_dtype(to)) return {};
       const DType dtype = dtype_of_element(to);
       if (!is_integer(dtype) ||
           (first(c).symbolic() ? dtype != DType::i64 && dtype != DType::i32 : dtype != DType::i64))
         return {};
       KnownElements made = first(c);
       made.dtype = dtype;
       return made;
     }},
    {"Unsqueeze", 1,
     [](NodeCall& c) -> Result {
       auto axes = c.integers("axes", 1);
       Sizes64 sizes = first(c).sizes;
       const int rank = static_cast<int>(sizes.size() + axes.value().size());
       for (std::int64_t& each : *axes) each = c.checked_axis(each, rank);
       std::ranges::sort(*axes);
       for (std::int64_t each : *axes) {
         if (static_cast<std::size_t>(each) > sizes.size()) return {};
         sizes.insert(sizes.begin() + each, 1);
       }
       return of_shape(first(c), std::move(sizes));
     }},
    {"Squeeze", 1,
     [](NodeCall& c) -> Result {
       const auto axes = c.integers("axes", 1);
       const KnownElements& from = first(c);
       Sizes64 sizes;
       for (std::size_t axis = 0; axis < from.sizes.size(); ++axis) {
         bool goes = !axes && from.sizes[axis] == 1;
         for (std::int64_t each : axes.value_or(Sizes64()))
           goes = goes || c.checked_axis(each, static_cast<int>(from.sizes.size())) == static_cast<int>(axis);
         if (goes && from.sizes[axis] != 1) return {};
         if (!goes) sizes.push_back(from.sizes[axis]);
       }
       return of_shape(from, std::move(sizes));
     }},
    {"Reshape", 2,
     [](NodeCall& c) -> Result {
       const auto count = static_cast<std::int64_t>(first(c).count());
       Sizes64 sizes = c.integers(1);
       if (sizes.size() == 1 && sizes[0] == -1) sizes = {count};
       if (std::ranges::any_of(sizes, [](std::int64_t each) { return each <= 0; }) || count_of(sizes) != count)
         return {};
       return of_shape(first(c), std::move(sizes));
     }},
    {"Concat", 1,
     [](NodeCall& c) -> Result {
       KnownElements made{first_dtype(c), {0}};
       for (std::size_t i = 0; i < c.count(); ++i) {
         const KnownElements& from = *c.value(i).host();
         if (from.sizes.size() != 1 || from.dtype != made.dtype ||
             static_cast<std::int64_t>(made.integers.size() + from.integers.size()) > most_known_elements)
           return {};
         made.integers.insert(made.integers.end(), from.integers.begin(), from.integers.end());
       }
       made.sizes[0] = static_cast<std::int64_t>(made.integers.size());
       return made;
     }},
    {"Gather", 2,
     [](NodeCall& c) -> Result {
       const KnownElements &from = first(c), &places = *c.value(1).host();
       if (from.sizes.size() != 1 || places.symbolic()) return {};
       KnownElements made{from.dtype, places.sizes};
       for (Dim each : places.integers) {
         const std::int64_t at = each.constant() < 0 ? each.constant() + from.sizes[0] : each.constant();
         if (at < 0 || at >= from.sizes[0]) c.refuse("the place ", each, " is not one of ", from.sizes[0], " elements");
         made.integers.push_back(from.integers[static_cast<std::size_t>(at)]);
       }
       return made;
     }},
    {"Slice", 3,
     [](NodeCall& c) -> Result {
       const KnownElements& from = first(c);
       if (from.sizes.size() != 1) return {};
       const std::int64_t size = from.sizes[0], step = c.has(std::size_t{4}) ? c.integer_at(4) : 1;
       std::int64_t start = c.integer_at(1), stop = c.integer_at(2);
       if (step == 0) return {};
       const auto within = [&](std::int64_t at) {
         if (at < 0) at = std::max(at, -size - 1) + size;
         return step > 0 ? std::clamp<std::int64_t>(at, 0, size) : std::clamp<std::int64_t>(at, -1, size - 1);
       };
       start = within(start), stop = within(stop);
       KnownElements made{from.dtype, {0}};
       for (std::int64_t at = start; step > 0 ? at < stop : at > stop; at += step)
         made.integers.push_back(from.integers[static_cast<std::size_t>(at)]);
       made.sizes[0] = static_cast<std::int64_t>(made.integers.size());
       return made;
     }},
    {"ReduceProd", 1,
     [](NodeCall& c) -> Result {
       if (first(c).sizes.size() != 1) return {};
       KnownElements made{first_dtype(c), c.integer("keepdims", 1) ? Sizes64{1} : Sizes64{}, {Dim(1)}};
       for (Dim each : first(c).integers) {
         made.integers[0] *= each;
         if (each.beyond() || made.integers[0].beyond()) return {};
       }
       return made;
     }},
    {"ReduceSum", 1,
     [](NodeCall& c) -> Result {
       if (first(c).sizes.size() != 1 || c.integer("noop_with_empty_axes", 0)) return {};
       KnownElements made{first_dtype(c), c.integer("keepdims", 1) ? Sizes64{1} : Sizes64{}, {Dim(0)}};
       for (Dim each : first(c).integers) {
         made.integers[0] += each;
         if (each.beyond() || made.integers[0].beyond()) return {};
       }
       return made;
     }},
};

}  // namespace

bool run_on_host(NodeCall& call) {
  if (call.count() == 0) return false;
  for (std::size_t i = 0; i < call.count(); ++i) {
    const KnownElements* const host = call.has(i) ? call.value(i).host() : nullptr;
    if (!host || is_floating(host->dtype)) return false;
  }
  for (const HostRow& row : host_rows)
    if (row.name == call.node().operation) {
      if (call.count() < row.least) return false;  // the operator says which one is missing
      std::optional<KnownElements> made = row.run(call);
      if (!made) return false;
      // What wraps in the dtype is computed as a tensor. But a bound of a slice beside symbolic sizes stays cut: as a
      // tensor each of them would be a decision.
      const bool bounds = row.name == "Concat" && made->symbolic();
      if (made->exact.empty() && !bounds &&
          !std::ranges::all_of(made->integers, [&](Dim each) { return holds(made->dtype, each); }))
        return false;
      call.give(std::move(*made));
      return true;
    }
  return false;
}

bool fold(NodeCall& call, const OperatorRow& row) {
  if (!recorder().trace() || call.count() == 0 || (row.flags & not_folded)) return false;
  for (std::size_t i = 0; i < call.count(); ++i) {
    const KnownElements* const host = call.has(i) ? call.value(i).host() : nullptr;
    if (call.has(i) && (!host || host->symbolic())) return false;
  }
  std::vector<Value> results;
  {
    const OutsideTraces outside;
    const Operation operation(row.name.data(), call.loc());
    row.run(call);
    for (Value& each : call.take()) {
      if (!each.host() && static_cast<std::int64_t>(each.shape().element_count()) > most_known_elements) return false;
      results.push_back(each.host() ? std::move(each)
                                    : Value(read_elements(each.tensor(call.device(), call.loc()), call.loc())));
    }
  }
  for (Value& each : results) call.give(std::move(each));
  return true;
}

}  // namespace weft::onnx
