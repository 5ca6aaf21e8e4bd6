#include "ir/attributes.hpp"

#include <bit>
#include <charconv>
#include <cmath>

#include "base/dim_expression.hpp"
#include "base/fail.hpp"
#include "ir/dtype.hpp"
#include "ir/node.hpp"

namespace weft {
namespace {

template <class T>
const T& at(const void* place) {
  return *static_cast<const T*>(place);
}

// A field as words: one, or a length and the items.
template <class Put>
void words_of(FieldKind kind, const void* place, Put&& put) {
  auto each = [&](const auto& list, auto&& word) {
    put(list.count);
    for (const auto& item : list) put(word(item));
  };
  switch (kind) {
    case FieldKind::integer:
    case FieldKind::number: return put(static_cast<std::uint64_t>(at<std::int64_t>(place)));
    case FieldKind::real: return put(std::bit_cast<std::uint64_t>(at<double>(place)));
    case FieldKind::boolean: return put(at<bool>(place));
    case FieldKind::axis:
    case FieldKind::axis_set:
    case FieldKind::dtype: return put(at<std::uint8_t>(place));
    case FieldKind::size: return put(at<Dim>(place).word());
    case FieldKind::text: return put(at<std::uint32_t>(place));
    case FieldKind::axes: return each(at<AxisList>(place), [](std::uint8_t axis) { return axis; });
    case FieldKind::sizes: return each(at<List<Dim>>(place), [](Dim size) { return size.word(); });
    case FieldKind::integers:
      return each(at<List<std::int64_t>>(place), [](std::int64_t i) { return static_cast<std::uint64_t>(i); });
  }
}
static_assert(sizeof(NumberBits) == sizeof(std::int64_t) && sizeof(AxisSet) == 1 && sizeof(DType) == 1);
static_assert(sizeof(InternedText) == sizeof(std::uint32_t));

bool same(FieldKind kind, const void* a, const void* b) {
  std::uint64_t words[max_rank + 1];
  std::size_t count = 0, seen = 0;
  bool equal = true;
  words_of(kind, a, [&](std::uint64_t word) { words[count++] = word; });
  words_of(kind, b, [&](std::uint64_t word) { equal = equal && seen < count && words[seen] == word, ++seen; });
  return equal && seen == count;
}

std::string real_text(double value) {
  if (std::isnan(value) && std::bit_cast<std::uint64_t>(std::fabs(value)) != 0x7ff8000000000000) {
    char buffer[24];  // a payload
    std::snprintf(buffer, sizeof buffer, "0x%016llx",
                  static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
    return buffer;
  }
  char buffer[40];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

template <class T, class Text>
std::string list_text(const T& list, Text&& text) {
  std::string result = "[";
  for (const auto& item : list) result += (result.size() > 1 ? "," : "") + text(item);
  return result + "]";
}

std::string value_text(FieldKind kind, const void* place, DType dtype) {
  auto integer = [](std::int64_t i) { return std::to_string(i); };
  switch (kind) {
    case FieldKind::integer: return integer(at<std::int64_t>(place));
    case FieldKind::number:
      return is_floating(dtype) ? real_text(std::bit_cast<double>(at<std::int64_t>(place)))
                                : integer(at<std::int64_t>(place));
    case FieldKind::real: return real_text(at<double>(place));
    case FieldKind::boolean: return at<bool>(place) ? "true" : "false";
    case FieldKind::axis: return integer(at<std::uint8_t>(place));
    case FieldKind::dtype: return info(at<DType>(place)).name;
    case FieldKind::size: return dims::to_string(at<Dim>(place));
    case FieldKind::text: return quoted(interned_text(at<InternedText>(place).id));
    case FieldKind::axes: return list_text(at<AxisList>(place), integer);
    case FieldKind::sizes: return list_text(at<List<Dim>>(place), [](Dim size) { return dims::to_string(size); });
    case FieldKind::integers: return list_text(at<List<std::int64_t>>(place), integer);
    case FieldKind::axis_set: {
      AxisList axes;
      for (int i = 0; i < max_rank; ++i)
        if (at<AxisSet>(place)[i]) axes.push_back(static_cast<std::uint8_t>(i));
      return list_text(axes, integer);
    }
  }
  return {};
}

}  // namespace

Attributes::Attributes(const AttributeType& type) : type_(&type) { std::memcpy(allocate(), type.defaults, type.size); }

bool Attributes::operator==(const Attributes& other) const {
  if (type_ != other.type_) return false;
  for (const Field& field : type_->fields)
    if (!same(field.kind, field.place(data()), field.place(other.data()))) return false;
  return true;
}

void Attributes::visit_words(void (*put)(void*, std::uint64_t), void* context) const {
  for (const Field& field : type_->fields)
    words_of(field.kind, field.place(data()), [&](std::uint64_t word) { put(context, word); });
}

Attributes Attributes::with_sizes(const std::function<Dim(Dim)>& number) const {
  Attributes result = *this;
  for (const Field& field : type_->fields) {
    void* const place = result.place(field);
    if (field.kind == FieldKind::size) *static_cast<Dim*>(place) = number(at<Dim>(place));
    if (field.kind != FieldKind::sizes) continue;
    auto& list = *static_cast<List<Dim>*>(place);
    for (std::size_t i = 0; i < list.count; ++i) list[i] = number(list[i]);
  }
  return result;
}

std::string Attributes::to_text(DType dtype) const {
  std::string text;
  auto add = [&](const Field& field) {
    if (!text.empty()) text += ", ";
    if (*field.name) text += field.name + std::string(" ");
    text += value_text(field.kind, field.place(data()), dtype);
  };
  for (const Field& field : type_->fields)
    if (!same(field.kind, field.place(data()), field.place(type_->defaults))) add(field);
  if (text.empty() && !type_->fields.empty()) add(type_->fields.front());
  return text;
}

void Attributes::refuse(const AttributeType& wanted) const {
  auto names = [](const AttributeType& type) {
    std::string text;
    for (const Field& field : type.fields)
      text += (text.empty() ? "" : ", ") + std::string(*field.name ? field.name : "a value");
    return text.empty() ? "none" : text;
  };
  WEFT_CHECK(false, "attributes (", names(*type_), ") are read as others (", names(wanted), ")");
  __builtin_unreachable();
}

// ---- constants ------------------------------------------------------------------------------------------------------

Constant Constant::number(DType dtype, double value) {
  if (is_narrow_float(dtype)) value = round_to(dtype, value);  // of wider ones a kernel's literal is rounded once
  return integer(is_floating(dtype) ? std::bit_cast<std::int64_t>(value) : static_cast<std::int64_t>(value));
}
double Constant::as_number(DType dtype) const {
  return is_floating(dtype) ? std::bit_cast<double>(bits.word) : static_cast<double>(bits.word);
}

std::optional<Constant> Constant::literal_in(DType to, DType from) const {
  const std::int64_t value = bits.word;
  const bool floating = is_floating(from);
  if (is_floating(to)) return number(to, floating ? as_number(from) : round_to(to, static_cast<long double>(value)));
  if (to == DType::boolean) return integer(floating ? as_number(from) != 0 : value != 0);
  const auto [least, greatest] = integer_range(to);
  if (!floating) {
    const bool holds = least <= value && value <= greatest;
    return holds ? integer(value) : std::optional<Constant>();
  }
  const double whole = std::trunc(as_number(from));
  const bool fits = static_cast<double>(least) <= whole && whole < static_cast<double>(greatest) + 1;
  return fits ? integer(static_cast<std::int64_t>(whole)) : std::optional<Constant>();
}

}  // namespace weft
