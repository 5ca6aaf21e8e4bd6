// Dim: a size. An integer, or an expression over symbols (s0*4 + 1) where a compiled function was asked to keep a size
// symbolic. 8 bytes: the integer itself, or a pointer to an interned expression plus 2^62. So printf("%ld", x.size(0)),
// which reads a Dim as an integer, prints the size where it is constant, and a meaningless number where it is symbolic.
// Equal expressions are the same word: construction normalizes to a sum of products. The same expressions, over loop
// axes, are the indices of the loop IR (schedule/loop.hpp).
// An integer saturates at 2^62 - 2 and its negative, on construction and in arithmetic. From 2^61 on beyond() is true,
// so that it is for what is computed from such a number, too. No size is so large: a public function refuses the
// number, or clamps it where it is a bound of a slice.
#pragma once
#include <concepts>
#include <cstdint>
#include <iosfwd>

#include "weft/error.hpp"

namespace weft {

struct DimNode;
class Index;

class Dim {  // a size: an integer, or inside a trace a symbol or an expression of some
  static constexpr std::int64_t most = INT64_MAX / 2 - 1;
  // Before its use: clang 19 evaluates a constant of class type before it instantiates what follows.
  template <class T>
  static constexpr std::int64_t saturated(T value) {
    if constexpr (sizeof(T) >= sizeof(most)) {
      if (value > static_cast<T>(most)) return most;
      if constexpr (static_cast<T>(-1) < static_cast<T>(0))
        if (value < static_cast<T>(-most)) return -most;
    }
    return static_cast<std::int64_t>(value);
  }

 public:
  constexpr Dim() = default;
  // An integer; beyond 2^62 - 2 and its negative it is cut to these.
  template <std::integral T>
  constexpr Dim(T value) : word_(static_cast<std::uint64_t>(saturated(value))) {}
  // A position beyond every other one: as a bound of a slice it means the end, whatever the direction.
  static constexpr Dim end() {
    Dim dim;
    dim.word_ = static_cast<std::uint64_t>(most + 1);
    return dim;
  }
  // The size that is an interned expression.
  static Dim from_node(const DimNode* node) {
    Dim dim;
    dim.word_ = reinterpret_cast<std::uint64_t>(node) | expression;
    return dim;
  }

  // Whether it is an integer, rather than an expression over symbols.
  constexpr bool is_constant() const { return word_ >> 62 != expression >> 62; }
  // The integer of a constant; of a symbolic size nothing that has a meaning: ask is_constant() first.
  constexpr std::int64_t constant() const { return static_cast<std::int64_t>(word_); }
  // The expression of a symbolic size, null for an integer.
  const DimNode* node() const { return is_constant() ? nullptr : reinterpret_cast<const DimNode*>(word_ ^ expression); }
  constexpr std::uint64_t word() const { return word_; }        // the 8 bytes: equal for equal integers and expressions
  static constexpr std::int64_t limit = std::int64_t{1} << 61;  // the least positive integer that beyond() is true for
  // True for an integer that is too large, or too small, to be computed with.
  constexpr bool beyond() const { return is_constant() && (constant() >= limit || constant() <= -limit); }

  // The integer. Inside a trace a symbolic size becomes a constant of this specialization (a guard is recorded). Throws
  // Error where the type does not hold it.
  explicit operator std::int64_t() const { return is_constant() ? constant() : specialize(); }
  template <class T>
  requires(std::integral<T> || std::floating_point<T>) && (!std::same_as<T, bool>)explicit operator T() const {
    const auto value = static_cast<std::int64_t>(*this);
    const auto result = static_cast<T>(value);
    if constexpr (std::integral<T>)
      if (static_cast<std::int64_t>(result) != value || (result < T(0)) != (value < 0)) refuse(value, sizeof(T));
    return result;
  }

  // Structural equality: the same expression. Unequal expressions may still have equal values; see operator==.
  constexpr bool same(Dim other) const { return word_ == other.word_; }

  // Sum, difference and product: an integer of integers, cut where it is too large; else an expression.
  friend Dim operator+(Dim a, Dim b) {
    return a.is_constant() && b.is_constant() ? Dim(a.constant() + b.constant()) : add(a, b);
  }
  friend Dim operator-(Dim a, Dim b) {
    return a.is_constant() && b.is_constant() ? Dim(a.constant() - b.constant()) : add(a, multiply(b, Dim(-1)));
  }
  friend Dim operator*(Dim a, Dim b) {
    return a.is_constant() && b.is_constant() ? product(a.constant(), b.constant()) : multiply(a, b);
  }
  // Floor division and modulo with the divisor's sign (Python's). The divisor must not be zero.
  friend Dim operator/(Dim a, Dim b) { return floor_divide(a, b); }
  friend Dim operator%(Dim a, Dim b) { return modulo(a, b); }

  friend Dim operator-(Dim a) { return Dim(0) - a; }    // the negative
  Dim& operator+=(Dim b) { return *this = *this + b; }  // as operator+
  Dim& operator-=(Dim b) { return *this = *this - b; }  // as operator-
  Dim& operator*=(Dim b) { return *this = *this * b; }  // as operator*

  // Comparison. Between symbolic sizes of a trace the answer for this call's sizes is taken and recorded as a guard.
  friend bool operator==(Dim a, Dim b) {
    return a.same(b) || (!(a.is_constant() && b.is_constant()) && decide_equal(a, b));
  }
  friend bool operator<(Dim a, Dim b) {
    return a.is_constant() && b.is_constant() ? a.constant() < b.constant() : decide_less(a, b);
  }
  friend bool operator>(Dim a, Dim b) { return b < a; }
  friend bool operator<=(Dim a, Dim b) { return !(b < a); }
  friend bool operator>=(Dim a, Dim b) { return !(a < b); }

 private:
  static constexpr std::uint64_t expression = 1ull << 62;  // the top bits 01: of no integer here, and no address
  static constexpr Dim product(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? Dim((a < 0) == (b < 0) ? most : -most) : Dim(result);
  }
  std::int64_t specialize() const;
  [[noreturn]] static void refuse(std::int64_t value, std::size_t bytes);
  static Dim add(Dim a, Dim b);
  static Dim multiply(Dim a, Dim b);
  static Dim floor_divide(Dim a, Dim b);
  static Dim modulo(Dim a, Dim b);
  static bool decide_equal(Dim a, Dim b);
  static bool decide_less(Dim a, Dim b);

  std::uint64_t word_ = 0;
};
static_assert(sizeof(Dim) == 8);

// Up to eight sizes, outermost first.
inline constexpr int max_rank = 8;

class Shape {  // the sizes of a tensor, outermost first
 public:
  Shape() = default;
  // The first `rank` sizes from `dims` on. The rank is at most max_rank, which is not checked.
  Shape(const Dim* dims, int rank) : rank_(static_cast<std::uint8_t>(rank)) {
    for (int i = 0; i < rank; ++i) dims_[i] = dims[i];
  }
  // Refused: Shape{0, 3} would take its 0 for a null pointer. The comment is a part of what the compiler says.
  template <std::integral T, class... Sizes>
  explicit Shape(T, Sizes...) = delete;  // weft: a Shape of these sizes is Shape::of(0, 3)
  // Shape::of(2, n): these sizes, at most max_rank of them.
  template <class... Sizes>
  requires(sizeof...(Sizes) <= max_rank) static Shape of(Sizes... sizes) {
    Shape shape;
    ((shape.dims_[shape.rank_++] = Dim(sizes)), ...);
    return shape;
  }

  int rank() const { return rank_; }                 // the number of sizes
  Dim operator[](int i) const { return dims_[i]; }   // of axis i in [0, rank()), which is not checked
  Dim& operator[](int i) { return dims_[i]; }        // of axis i in [0, rank()), which is not checked
  const Dim* begin() const { return dims_; }         // of the outermost axis
  const Dim* end() const { return dims_ + rank_; }   // after the innermost axis
  void push_back(Dim dim) { dims_[rank_++] = dim; }  // as innermost axis; that there is room is not checked
  // Drops innermost axes, or adds some of size 1. The rank is at most max_rank, which is not checked.
  void resize(int rank) {
    for (int i = rank_; i < rank; ++i) dims_[i] = Dim(1);
    rank_ = static_cast<std::uint8_t>(rank);
  }
  // The number of elements: the product of the sizes.
  Dim element_count() const {
    Dim count = 1;
    for (Dim dim : *this) count = count * dim;
    return count;
  }
  // The same rank and sizes; compared as sizes are.
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (!(a.dims_[i] == b.dims_[i])) return false;
    return true;
  }
  // Another list of sizes is refused with a sentence.
  template <class List>
  requires(!std::convertible_to<const List&, Shape> &&
           requires(const List& list) { list.begin(), list.size(); }) friend bool
  operator==(const Shape&, const List&) {
    static_assert(sizeof(List) == 0, "weft: a Shape is compared with a Shape, as in x.shape() == Shape::of(3, 4)");
    return false;
  }
  // Structural equality of every size.
  bool same(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if (!dims_[i].same(other.dims_[i])) return false;
    return true;
  }

 private:
  Dim dims_[max_rank];
  std::uint8_t rank_ = 0;
};

// 3, s0*4 + 1 and [2,3].
std::ostream& operator<<(std::ostream& out, Dim dim);
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace weft
