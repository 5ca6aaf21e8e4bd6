#include "record/autocast.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/per_thread.hpp"

namespace weft {
namespace {

struct Row {
  std::string_view name;
  AutocastRule rule;
};
constexpr auto sorted_rows() {
  std::array rows = {
#define WEFT_AUTOCAST(name, rule) Row{#name, AutocastRule::rule},
#include "record/autocast.def"
  };
  std::ranges::sort(rows, {}, &Row::name);
  return rows;
}
constexpr auto rows = sorted_rows();
static_assert(std::ranges::adjacent_find(rows, {}, &Row::name) == rows.end(), "a function has two rows");

// Casts of variables in the scopes that are open, by handle and type. Those that nobody else needs go when their number
// has doubled, so that a scope around a whole training loop does not hold the weights of each step.
struct Casts {
  struct Entry {
    Tensor value, made;
  };
  std::unordered_map<std::uint64_t, Entry> by_type[2];
  std::size_t most = 64;
  int scopes = 0;

  void put(std::unordered_map<std::uint64_t, Entry>& casts, const Tensor& value, const Tensor& made) {
    if (casts.size() >= most) {
      std::erase_if(casts, [](const auto& each) { return each.second.value.node()->references <= 2; });
      most = std::max(most, casts.size() * 2);
    }
    casts[value.word()] = {value, made};
  }
};

Tensor low(const Tensor& value, DType type) {
  // In a trace the same cast of the same value is one node after common subexpressions are found.
  const bool is_kept = !recorder().trace() && value.node()->op == Op::variable;
  if (!is_kept) return cast(value, type);
  Casts& all = per_thread<Casts>();
  auto& casts = all.by_type[type == DType::bf16];
  const auto found = casts.find(value.word());
  if (found != casts.end()) return found->second.made;
  const Tensor made = cast(value, type);
  all.put(casts, value, made);
  return made;
}

bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Whether the rows count for a function now: it is the user's call, or called by one that lets what is inside be cast.
bool counts(const char* operation) {
  const char* const outermost = called_operation();
  return !outermost || std::strcmp(outermost, operation) == 0 || autocast_rule(outermost) == AutocastRule::inside;
}

}  // namespace

AutocastRule autocast_rule(std::string_view name) {
  const auto found = std::ranges::lower_bound(rows, name, {}, &Row::name);
  return found != rows.end() && found->name == name ? found->rule : AutocastRule::none;
}

DType autocast_dtype(const char* operation, DType operand) {
  const DType type = recorder().autocast;
  if (type == DType::f32 || !is_floating(operand) || operand == DType::f64 || !counts(operation)) return operand;
  switch (autocast_rule(operation)) {
    case AutocastRule::low:
    case AutocastRule::loss: return type;
    case AutocastRule::wide: return DType::f32;
    case AutocastRule::none:
    case AutocastRule::widest:
    case AutocastRule::inside: break;
  }
  return operand;
}

DType autocast_loss_dtype(const char* operation, DType own) {
  const bool is_low = recorder().autocast != DType::f32 && is_narrow(own) && counts(operation);
  return is_low && autocast_rule(operation) == AutocastRule::loss ? DType::f32 : own;
}

namespace {
Tensor in_type(const Tensor& value, DType type) {
  const Type& own = type_of(value);
  if (own.weak || own.dtype == type) return value;
  return is_narrow(type) ? low(value, type) : cast(value, type);
}
}  // namespace

Tensor autocast_operand(const Tensor& value, const char* operation) {
  return in_type(value, autocast_dtype(operation, type_of(value).dtype));
}
Tensor autocast_as(const Tensor& value, const char* row) {
  const CalledOperation by_its_row(nullptr);
  return autocast_operand(value, row);
}
Tensor autocast_widest(const char* operation, const Tensor& value, const At& source) {
  if (recorder().autocast == DType::f32 || !source.tensor || autocast_rule(operation) != AutocastRule::widest ||
      !counts(operation))
    return value;
  const Type &to = type_of(value), &from = type_of(*source.tensor);
  if (!is_floating(to.dtype) || !is_floating(from.dtype) || from.weak) return value;
  return cast(value, promote({to.dtype, false, false}, {from.dtype, false, false}));
}

Autocast::Autocast(DType type, Loc loc) : saved_(recorder().autocast) {
  if (type != DType::f32 && !is_narrow(type))
    fail("Autocast", loc, "takes bf16, f16, or off (f32), it is given ", info(type).name);
  recorder().autocast = type;
  ++per_thread<Casts>().scopes;
}
Autocast::~Autocast() {
  recorder().autocast = saved_;
  Casts& casts = per_thread<Casts>();
  if (--casts.scopes == 0) casts = {};
}

}  // namespace weft
