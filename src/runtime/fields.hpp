// Data as bytes and back: what a plan on disk is written with. A struct lists its fields once, in `fields`; the list
// serves both directions. In: integers, enumerators, texts, sizes, vectors, and structs of these. Out: bytes, the same
// in every process of a machine. Reading is bounded: bytes that nothing wrote throw Malformed, and ask for no more
// memory than they have bytes.
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/hash.hpp"
#include "weft/dim.hpp"
#include "weft/dtype.hpp"

namespace weft::runtime {

struct Malformed {};

// static auto fields(auto& self) { return std::tie(self.first, self.second); }
template <class T>
concept Listed = requires(T& value) {
  T::fields(value);
};
template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class FieldWriter {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  // What is written can't be read back, and why: the first reason is kept.
  void refuse(std::string why) {
    if (refusal_.empty()) refusal_ = std::move(why);
  }
  const std::string& refusal() const { return refusal_; }
  const std::string& bytes() const { return bytes_; }
  // Of plans: each launch of a generated kernel (plan_file.cpp).
  std::vector<Digest> launches;

 private:
  template <Plain T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <Listed T>
  void put(const T& value) {
    std::apply([this](const auto&... each) { (put(each), ...); }, T::fields(value));
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(values.size());
    for (const auto& each : values) put(static_cast<const T&>(each));
  }
  template <class T, std::size_t count>
  void put(const std::array<T, count>& values) {
    for (const T& each : values) put(each);
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_.append(text);
  }
  void put(const std::vector<std::byte>& bytes) {
    put(bytes.size());
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void put(const Dim& dim);

  std::string bytes_, refusal_;
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  template <class T>
  T take() {
    T value{};
    get(value);
    return value;
  }
  bool at_end() const { return rest_.empty(); }
  // As FieldWriter has them.
  std::vector<Digest> launches;
  // As deep as steps may lie in steps, and sizes in sizes.
  class Nested {
   public:
    explicit Nested(FieldReader& reader) : reader_(reader) {
      if (++reader_.depth_ > 64) throw Malformed();
    }
    ~Nested() { --reader_.depth_; }
    Nested(const Nested&) = delete;

   private:
    FieldReader& reader_;
  };

 private:
  std::string_view bytes(std::size_t count) {
    if (rest_.size() < count) throw Malformed();
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  // Of items that take a byte each at least.
  std::size_t count() {
    const auto value = take<std::size_t>();
    if (value > rest_.size()) throw Malformed();
    return value;
  }
  template <Plain T>
  void get(T& value) {
    const std::string_view from = bytes(sizeof value);
    if constexpr (std::is_same_v<T, bool>)
      value = from[0] != 0;
    else
      std::memcpy(&value, from.data(), sizeof value);
    if constexpr (std::is_same_v<T, DType>)
      if (static_cast<int>(value) >= dtype_count) throw Malformed();
  }
  template <Listed T>
  void get(T& value) {
    std::apply([this](auto&... each) { (get(each), ...); }, T::fields(value));
  }
  template <class T>
  void get(std::vector<T>& values) {
    values.clear();
    const Nested nested(*this);
    for (std::size_t left = count(); left > 0; --left) values.push_back(take<T>());
  }
  template <class T, std::size_t count>
  void get(std::array<T, count>& values) {
    for (T& each : values) get(each);
  }
  void get(std::string& text) { text = bytes(count()); }
  void get(std::vector<std::byte>& all) {
    const std::string_view from = bytes(count());
    const auto* first = reinterpret_cast<const std::byte*>(from.data());
    all.assign(first, first + from.size());
  }
  void get(Dim& dim);

  std::string_view rest_;
  int depth_ = 0;
};

}  // namespace weft::runtime
