#include "io/numbers.hpp"

#include <charconv>
#include <cstring>

#include "base/fail.hpp"

namespace weft::io {
namespace {

using weft::detail::Leaf;
using weft::detail::LeafKind;
using weft::detail::NumberKind;

// Calls f with a number of the type that the leaf's numbers have.
template <class F>
auto with_type(NumberKind kind, std::size_t size, F f) {
  switch (kind) {
    case NumberKind::boolean: return f(std::uint8_t());
    case NumberKind::float16: return f(float16());
    case NumberKind::bfloat16: return f(bfloat16());
    case NumberKind::floating: return size == 4 ? f(float()) : f(double());
    case NumberKind::unsigned_integer:
      return size == 1   ? f(std::uint8_t())
             : size == 2 ? f(std::uint16_t())
             : size == 4 ? f(std::uint32_t())
                         : f(std::uint64_t());
    default:
      return size == 1   ? f(std::int8_t())
             : size == 2 ? f(std::int16_t())
             : size == 4 ? f(std::int32_t())
                         : f(std::int64_t());
  }
}
template <class T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

template <class T>
std::string one_text(T value) {
  char text[40];
  if constexpr (is_half<T>)
    return one_text(static_cast<float>(value));
  else
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
template <class T>
bool read_one(std::string_view text, T& value) {
  if constexpr (is_half<T>) {
    float wide;
    if (!read_one(text, wide)) return false;
    value = T(static_cast<double>(wide));
    return true;
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  }
}

}  // namespace

std::string numbers_text(const Leaf& leaf) {
  return with_type(leaf.number, leaf.element, [&]<class T>(T) {
    std::string text;
    for (std::size_t at = 0; at < leaf.size; at += sizeof(T)) {
      T value;
      std::memcpy(&value, static_cast<const char*>(leaf.address) + at, sizeof value);
      if (at) text += ',';
      text += one_text(value);
    }
    return text;
  });
}

bool read_numbers(const Leaf& leaf, std::string_view text, std::string& bytes) {
  return with_type(leaf.number, leaf.element, [&]<class T>(T) {
    bytes.clear();
    while (bytes.size() < leaf.size) {
      const std::size_t comma = std::min(text.find(','), text.size());
      T value;
      if (!read_one(text.substr(0, comma), value)) return false;
      if (leaf.number == NumberKind::boolean && std::memcmp(&value, "\1", 1) > 0) return false;
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
      const bool last = comma == text.size();
      if (last != (bytes.size() == leaf.size)) return false;
      text.remove_prefix(last ? comma : comma + 1);
    }
    return text.empty();
  });
}

}  // namespace weft::io
