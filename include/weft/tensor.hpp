// Tensor: an 8-byte handle on an immutable graph value. Every operation appends to a graph; item(), data(), copy_to(),
// printing and eval() compute what they need. Also Param, Buffer (named state), Scalar, Index (runtime numbers).
#pragma once
#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/dim.hpp"
#include "weft/dtype.hpp"
#include "weft/error.hpp"

namespace weft {

struct Node;
struct Storage;
struct At;
struct Options;
class Tensor;
template <class T>
class View;

namespace detail {
// Throw: an integer literal that is no i64; a size in a computation that is no size.
[[noreturn]] void refuse_literal(std::uint64_t value, Loc loc);
[[noreturn]] void refuse_size(Loc loc);
template <std::integral T>
constexpr std::int64_t signed_literal(T value, Loc loc) {
  if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>)
    if (value > static_cast<T>(INT64_MAX)) refuse_literal(value, loc);
  return static_cast<std::int64_t>(value);
}

// The first member of every node. The count is touched with atomic builtins, so that this header needs no <atomic>.
struct NodeHeader {
  std::uint32_t references = 0;
};
void destroy(Node* node) noexcept;  // at zero references; iterative over operands
const void* read_data(const Tensor& tensor, DType wanted, Storage** owner, std::int64_t* count, Loc loc);
void release(Storage* storage) noexcept;
double read_item(const Tensor& tensor, Loc loc);
bool read_item_boolean(const Tensor& tensor, Loc loc);
// Throws when the value, cut to an integer, is not in [low, high].
std::int64_t read_item_integer(const Tensor& tensor, std::int64_t low, std::uint64_t high, Loc loc);
void copy_out(const Tensor& tensor, DType wanted, void* to, std::size_t count, Loc loc);
// The function that is named in errors. Inside a trace the copy of a constant becomes part of the graph; the others are
// refused there.
enum class HostData : std::uint8_t { from_span, from_list, constant };
Tensor copy_in(const void* from, DType dtype, const Shape& shape, std::size_t count, HostData function, Loc loc);
Tensor arange_floating(double start, double stop, double step, const Options& options, Loc loc);

// Elements that lie one after the other: a std::vector, std::array, std::span, array, View.
template <class R>
using SpanOf = decltype(std::span(std::declval<R&>()));
template <class R>
concept Elements = is_element<typename SpanOf<R>::value_type>;
// Numbers of a type that no dtype has: one sentence instead of every overload there is.
template <class T>
concept NoElement = std::is_arithmetic_v<T> && !is_element<T>;
template <class R>
concept NoElements = !is_element<typename SpanOf<R>::value_type> || std::is_same_v<R, std::vector<bool>>;
template <class T>
inline constexpr bool is_row = false;  // has elements of its own, as a vector; a text is no row
template <class T>
requires(sizeof(SpanOf<const T>) >
         0) inline constexpr bool is_row<T> = !std::is_same_v<typename SpanOf<const T>::value_type, char>;
template <class T>
Tensor refuse_elements();
}  // namespace detail

class Tensor {  // a value of the graph, computed when it is read
 public:
  constexpr Tensor() noexcept = default;
  // A handle on a node, which gets a reference. `output` selects a result of a node with several.
  explicit Tensor(Node* node, unsigned output = 0) noexcept
      : word_(reinterpret_cast<std::uint64_t>(node) | std::uint64_t{output} << 48) {
    retain();
  }
  Tensor(const Tensor& other) noexcept : word_(other.word_) { retain(); }    // another handle on the value
  Tensor(Tensor&& other) noexcept : word_(std::exchange(other.word_, 0)) {}  // the other is undefined then
  // To a handle that has a name alone: what x[0] gives is a value of its own.
  Tensor& operator=(const Tensor& other) & noexcept {
    Tensor copy(other);
    std::swap(word_, copy.word_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {  // swaps the two
    std::swap(word_, other.word_);
    return *this;
  }
  // Refused with a sentence, where x[i] = y is compiled.
  template <class T>
  void operator=(const T&) && {
    static_assert(
        !sizeof(T),
        "weft: x[i] = y would change nothing, as x[i] is a new value: x = set_rows(x, i, y), x = index_put(x, "
        "{i, j}, y), or where(mask, y, x)");
  }
  ~Tensor() { drop(); }  // gives the reference back

  // False for a default-constructed handle (a gradient that does not exist, say).
  bool defined() const { return word_ != 0; }
  // The value as a condition, item<bool>(): `if (sum(x) > 0)`. Throws where there are more elements than one.
  explicit operator bool() const;

  // All that ask for the type compute nothing, and throw Error where the handle is undefined.
  DType dtype(Loc loc = Loc::current()) const;  // of the elements
  int rank(Loc loc = Loc::current()) const;     // the number of axes, at most max_rank
  Shape shape(Loc loc = Loc::current()) const;  // the sizes, outermost first
  // Size of an axis; negative axes count from the end. Throws when out of range.
  Dim size(int axis, Loc loc = Loc::current()) const;
  Dim element_count(Loc loc = Loc::current()) const;  // the product of the sizes
  Device device(Loc loc = Loc::current()) const;      // where the elements lie, or will

  // x[i] along axis 0, negative from the end: an integer or a size; an Index or a tensor of integers takes rows, and is
  // computed and checked at once (in a compiled function: by the call).
  Tensor operator[](At index) const;

  template <class... T>
  Tensor to(T...) const = delete;  // weft: functions are free: to(x, Device::cuda()), cast(x, DType::f64)

  // Computes the value now (and what it needs). Returns *this.
  const Tensor& eval(Loc loc = Loc::current()) const;
  // The value of a tensor with one element, converted to T; as bool, whether it is not 0. Throws where an integer of
  // type T can't hold it. In a compiled function a bool or an integer is a decision (CompileOptions::fullgraph), and a
  // number with a fraction makes the function resumable.
  template <class T = double>
  T item(Loc loc = Loc::current()) const {
    if constexpr (std::is_same_v<T, bool>)
      return detail::read_item_boolean(*this, loc);
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(detail::read_item_integer(*this, static_cast<std::int64_t>(std::numeric_limits<T>::min()),
                                                      static_cast<std::uint64_t>(std::numeric_limits<T>::max()), loc));
    else
      return static_cast<T>(detail::read_item(*this, loc));
  }
  // The elements, contiguous in row-major order; the view owns a reference. T must be the tensor's dtype.
  template <class T>
  View<const T> data(Loc loc = Loc::current()) const& {
    Storage* owner = nullptr;
    std::int64_t count = 0;
    const void* elements = detail::read_data(*this, dtype_of<T>, &owner, &count, loc);
    return View<const T>(static_cast<const T*>(elements), static_cast<std::size_t>(count), owner);
  }
  template <class T>
  View<const T> data(Loc loc = Loc::current()) const&& = delete;  // keep the tensor in a variable
  // Copies all elements out; `to` must have exactly element_count() of the tensor's dtype.
  template <class T>
  void copy_to(std::span<T> to, Loc loc = Loc::current()) const {
    detail::copy_out(*this, dtype_of<T>, to.data(), to.size(), loc);
  }
  template <detail::Elements R>
  void copy_to(R& to, Loc loc = Loc::current()) const {
    copy_to(std::span<typename detail::SpanOf<R>::element_type>(to), loc);
  }

  // The node of the graph, null where undefined. Nodes are internal: what they hold may change.
  Node* node() const { return reinterpret_cast<Node*>(word_ & 0xffff'ffff'ffffull); }
  unsigned output() const { return static_cast<unsigned>(word_ >> 48); }  // which result of the node it is
  std::uint64_t word() const { return word_; }                            // the 8 bytes; 0 where undefined
  bool same(const Tensor& other) const { return word_ == other.word_; }   // the same value of the graph

 private:
  void retain() const noexcept {
    if (word_) __atomic_fetch_add(&reinterpret_cast<detail::NodeHeader*>(node())->references, 1u, __ATOMIC_RELAXED);
  }
  void drop() noexcept {
    if (!word_) return;
    if (__atomic_fetch_sub(&reinterpret_cast<detail::NodeHeader*>(node())->references, 1u, __ATOMIC_ACQ_REL) == 1)
      detail::destroy(node());
  }
  std::uint64_t word_ = 0;
};
static_assert(sizeof(Tensor) == 8);

// A span over a tensor's elements that keeps them alive.
template <class T>
class View {
 public:
  // Takes over one reference to the storage, which may be null.
  View(T* data, std::size_t size, Storage* owner) : data_(data), size_(size), owner_(owner) {}
  // The other keeps nothing alive then.
  View(View&& other) noexcept : data_(other.data_), size_(other.size_), owner_(std::exchange(other.owner_, nullptr)) {}

  View(const View&) = delete;
  View& operator=(View&&) = delete;
  ~View() {
    if (owner_) detail::release(owner_);
  }

  T* data() const { return data_; }                         // the first element
  std::size_t size() const { return size_; }                // elements
  T* begin() const { return data_; }                        // the first element
  T* end() const { return data_ + size_; }                  // after the last one
  T& operator[](std::size_t i) const { return data_[i]; }   // element i in row-major order, which is not checked
  operator std::span<T>() const { return {data_, size_}; }  // of the elements; does not keep them alive

 private:
  T* data_;
  std::size_t size_;
  Storage* owner_;
};

// A number that may change from call to call of a compiled function without a new compilation (a learning rate, a step
// counter). A 0-d f64 value that takes the other operand's dtype, like a literal.
class Scalar {
 public:
  Scalar(double value = 0);                                    // a number that is known
  explicit Scalar(Tensor value) : value_(std::move(value)) {}  // a tensor's value, of any dtype; 0-d is not checked
  const Tensor& tensor() const { return value_; }              // its value, of no axes
  Tensor& tensor() { return value_; }                          // its value, of no axes
  // Computes the number. Inside a compiled function throws Error unless it is a literal's.
  double item(Loc loc = Loc::current()) const { return value_.item<double>(loc); }

 private:
  Tensor value_;
};

// The same for an integer: a position in a cache, a count. A 0-d i64 value.
class Index {
 public:
  Index(std::int64_t value = 0);  // a number that is known
  // The same. Throws Error beyond i64.
  template <std::unsigned_integral T>
  Index(T value, Loc loc = Loc::current()) : Index(detail::signed_literal(value, loc)) {}
  explicit Index(Tensor value) : value_(std::move(value)) {}  // a tensor's value; dtype and axes are not checked
  const Tensor& tensor() const { return value_; }             // its value, of no axes
  Tensor& tensor() { return value_; }                         // its value, of no axes
  // Computes the integer. Inside a compiled function throws Error unless it is a literal's.
  std::int64_t item(Loc loc = Loc::current()) const { return value_.item<std::int64_t>(loc); }

 private:
  Tensor value_;
};

// A trainable tensor: differentiated and updated. Frozen parameters are skipped by both.
class Param {
 public:
  Param() = default;
  Param(Tensor value) : value_(std::move(value)) {}     // not frozen
  operator const Tensor&() const { return value_; }     // its value
  const Tensor& tensor() const { return value_; }       // its value
  Tensor& tensor() { return value_; }                   // its value, to be replaced
  const Tensor* operator->() const { return &value_; }  // p->shape() is that of its value
  bool frozen = false;                                  // whether it is neither differentiated nor updated
  std::uint32_t shard = 0;  // of what it is this process's part (distributed::fully_shard, which sets it); 0: whole

 private:
  Tensor value_;
};

// State that is not trained: running statistics, counters, moments.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Tensor value) : value_(std::move(value)) {}    // state that begins with this
  operator const Tensor&() const { return value_; }     // its value
  const Tensor& tensor() const { return value_; }       // its value
  Tensor& tensor() { return value_; }                   // its value, to be replaced
  const Tensor* operator->() const { return &value_; }  // b->shape() is that of its value
  std::uint32_t shard = 0;  // that of the parameter which it is kept for, and whose shape it has; 0: whole

 private:
  Tensor value_;
};

template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;  // a number of C++

// An operand with the line where it was written: operators and functions take At, so that an implicit conversion at the
// call records the caller's file and line. Literals stay weakly typed. Lives only for the call.
struct At {
  // A tensor, by reference. It is asked for its type when the operation runs.
  At(const Tensor& value, Loc at = Loc::current()) : tensor(&value), loc(at) {}
  // The value of one of these, by reference.
  At(const Param& param, Loc at = Loc::current()) : tensor(&param.tensor()), loc(at) {}
  At(const Buffer& buffer, Loc at = Loc::current()) : tensor(&buffer.tensor()), loc(at) {}
  At(const Scalar& scalar, Loc at = Loc::current()) : tensor(&scalar.tensor()), loc(at) {}
  At(const Index& index, Loc at = Loc::current()) : tensor(&index.tensor()), loc(at) {}
  // A literal: it takes the dtype of the other operand within its kind. Throws Error on an integer beyond i64.
  template <Arithmetic T>
  At(T value, Loc at = Loc::current())
      : kind(std::is_same_v<T, bool> ? DTypeKind::boolean
             : std::is_integral_v<T> ? DTypeKind::integer
                                     : DTypeKind::floating),
        loc(at) {
    if constexpr (std::is_integral_v<T>)
      integer = detail::signed_literal(value, at);
    else
      number = static_cast<double>(value);
  }

  // A size: an integer, which inside a trace may be symbolic.
  At(Dim of_size, Loc at = Loc::current()) : kind(DTypeKind::integer), symbolic(!of_size.is_constant()), loc(at) {
    if (of_size.beyond()) [[unlikely]]
      detail::refuse_size(at);
    if (symbolic)
      size = of_size;
    else
      integer = of_size.constant();
  }

  const Tensor* tensor = nullptr;        // null for a literal
  DTypeKind kind = DTypeKind::floating;  // of the literal
  bool symbolic = false;                 // the literal is `size`

  // The literal: a floating number, else an integer or a bool, else a size.
  union {
    double number = 0;
    std::int64_t integer;
    Dim size;
  };

  Loc loc;  // of the call
};

// A list of axes, written 1 or {0, -1}, or a vector of integers; negative axes count from the end. Empty (the default):
// all.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : count_(1) { axes_[0] = axis; }  // one axis
  // These axes, in this order.
  Axes(std::initializer_list<int> axes) {
    for (int axis : axes) append(axis);
  }
  // Those of a vector, an array, a span of integers.
  template <class R>
  requires std::integral<typename detail::SpanOf<const R>::value_type> Axes(const R& axes) {
    for (auto axis : axes) append(in_int(axis));
  }
  int count() const { return overflow_ ? max_rank + 1 : count_; }  // max_rank + 1 where more were given than fit
  int operator[](int i) const { return axes_[i]; }                 // axis i of the list, as it was given

 private:
  // What no int holds is no axis either.
  template <class T>
  static int in_int(T axis) {
    return static_cast<T>(static_cast<int>(axis)) == axis ? static_cast<int>(axis) : std::numeric_limits<int>::max();
  }
  void append(int axis) {
    if (count_ < max_rank)
      axes_[count_++] = axis;
    else
      overflow_ = true;
  }
  int axes_[max_rank] = {};
  int count_ = 0;
  bool overflow_ = false;
};

// A list of sizes, written {2, 3} or {b, -1}, or a vector of integers: -1 is inferred in reshape.
class Sizes {
 public:
  // These sizes. Throws Error beyond max_rank of them.
  Sizes(std::initializer_list<Dim> sizes, Loc loc = Loc::current()) {
    for (Dim size : sizes) append(size, loc);
  }
  Sizes(const Shape& shape) : shape_(shape) {}  // those of a shape
  // Those of a vector, an array, a span of integers or sizes. Throws Error beyond max_rank of them.
  template <class R>
  requires std::convertible_to<typename detail::SpanOf<const R>::value_type, Dim> Sizes(const R& sizes,
                                                                                        Loc loc = Loc::current()) {
    for (auto size : sizes) append(size, loc);
  }
  const Shape& shape() const { return shape_; }                                     // the list, -1 as it was given
  friend bool operator==(const Shape& a, const Sizes& b) { return a == b.shape_; }  // as of two shapes

 private:
  void append(Dim size, Loc loc);
  Shape shape_;
};

// The slices of a tensor along axis 0: for (Tensor row : x). Their count becomes a number. Throws Error on a 0-d
// tensor.
namespace detail {
struct Rows {
  const Tensor* x;
  std::int64_t i;
  Tensor operator*() const;
  Rows& operator++() { return ++i, *this; }
  friend bool operator!=(const Rows& a, const Rows& b) { return a.i != b.i; }
};
}  // namespace detail
inline detail::Rows begin(const Tensor& x) { return {&x, 0}; }
inline detail::Rows end(const Tensor& x, Loc loc = Loc::current()) { return {&x, std::int64_t(x.size(0, loc))}; }

// ---- factories ----------------------------------------------------------------------------------------------------

struct Options {             // of factories: where and as what a tensor is made
  DType dtype = DType::f32;  // of the elements
  Device device = {};        // where they lie; default: the host
};
// A value repeated: a literal, which keeps every bit that the dtype has room for, or a tensor that broadcasts to the
// sizes. Throws when a literal does not fit into the dtype (300 into u8); of bool, any number but 0 is true.
Tensor full(Sizes sizes, At value, Options options = {});
Tensor zeros(Sizes sizes, Options options = {}, Loc loc = Loc::current());  // full of 0
Tensor ones(Sizes sizes, Options options = {}, Loc loc = Loc::current());   // full of 1
// Of the shape, the dtype and the device of another tensor, which throws where that is undefined; full of 0, of 1, of
// this value.
Tensor zeros_like(const Tensor& like, Loc loc = Loc::current());
Tensor ones_like(const Tensor& like, Loc loc = Loc::current());
Tensor full_like(const Tensor& like, At value);
struct RangeOptions {        // of arange over integers, and of randint
  DType dtype = DType::i64;  // of the elements
  Device device = {};        // where they lie; default: the host
};
// 0, 1, ... count-1, as i64, of whatever type the count is; floating is {.dtype = DType::f32}.
Tensor arange(Dim count, RangeOptions options = {}, Loc loc = Loc::current());
// start, start + step, ... before stop, likewise of integers. Throws when the step is 0.
Tensor arange(Dim start, Dim stop, Dim step = 1, RangeOptions options = {}, Loc loc = Loc::current());
// The same of floating numbers, in options.dtype, f32 by default: arange(0.0, 1.0, 0.1).
Tensor arange(double start, double stop, std::floating_point auto step, Options options = {},
              Loc loc = Loc::current()) {
  return detail::arange_floating(start, stop, step, options, loc);
}
// `count` numbers at equal distances, from start to stop: both are among them.
Tensor linspace(double start, double stop, Dim count, Options options = {}, Loc loc = Loc::current());
// base to the powers of linspace(start, stop, count).
Tensor logspace(double start, double stop, Dim count, double base = 10, Options options = {}, Loc loc = Loc::current());
// Ones on the diagonal, zeros beside it.
Tensor eye(Dim size, Options options = {}, Loc loc = Loc::current());
Tensor eye(Dim rows, Dim columns, Options options = {}, Loc loc = Loc::current());
// A dtype alone is refused. The comment is a part of what the compiler says.
template <std::same_as<DType> T>
Tensor full(const Sizes&, At, T) = delete;  // weft: a dtype is an option: full({3, 4}, 1, {.dtype = DType::f64})
template <std::same_as<DType> T>
Tensor zeros(const Sizes&, T) = delete;  // weft: a dtype is an option: zeros({3, 4}, {.dtype = DType::f64})
template <std::same_as<DType> T>
Tensor ones(const Sizes&, T) = delete;  // weft: a dtype is an option: ones({3, 4}, {.dtype = DType::f64})
// So is a device.
template <std::same_as<Device> T>
Tensor full(const Sizes&, At, T) = delete;  // weft: a device is an option: full({3, 4}, 1, {.device = Device::cuda()})
template <std::same_as<Device> T>
Tensor zeros(const Sizes&, T) = delete;  // weft: a device is an option: zeros({3, 4}, {.device = Device::cuda()})
template <std::same_as<Device> T>
Tensor ones(const Sizes&, T) = delete;  // weft: a device is an option: ones({3, 4}, {.device = Device::cuda()})
template <std::same_as<Device> T>
Tensor arange(Dim, T) = delete;  // weft: a device is an option: arange(3, {.device = Device::cuda()})
// So are sizes that are no list.
template <std::convertible_to<Dim> T, class... Rest>
Tensor full(T, Rest...) = delete;  // weft: the sizes are one list: full({3, 4}, 1.0), full({3}, 1.0)
template <std::convertible_to<Dim> T, class... Rest>
Tensor zeros(T, Rest...) = delete;  // weft: the sizes are one list: zeros({3, 4}), zeros({3})
template <std::convertible_to<Dim> T, class... Rest>
Tensor ones(T, Rest...) = delete;  // weft: the sizes are one list: ones({3, 4}), ones({3})
// Copies `from` (a vector, an array, a span; row-major) into a new tensor. Throws when the number of elements does not
// match the sizes.
template <class T>
requires is_element<std::remove_const_t<T>> Tensor from_span(std::span<T> from, Sizes sizes, Loc loc = Loc::current()) {
  return detail::copy_in(from.data(), dtype_of<std::remove_const_t<T>>, sizes.shape(), from.size(),
                         detail::HostData::from_span, loc);
}
template <detail::Elements R>
Tensor from_span(const R& from, Sizes sizes, Loc loc = Loc::current()) {
  return from_span(std::span<typename detail::SpanOf<const R>::element_type>(from), sizes, loc);
}
// Copies the numbers into a new tensor, of these sizes or a vector. Throws when their number does not match the sizes.
template <class T>
requires is_element<T> Tensor from_list(std::initializer_list<T> from, Sizes sizes, Loc loc = Loc::current()) {
  return detail::copy_in(from.begin(), dtype_of<T>, sizes.shape(), from.size(), detail::HostData::from_list, loc);
}
template <class T>
requires is_element<T> Tensor from_list(std::initializer_list<T> from, Loc loc = Loc::current()) {
  return detail::copy_in(from.begin(), dtype_of<T>, Shape::of(static_cast<std::int64_t>(from.size())), from.size(),
                         detail::HostData::from_list, loc);
}
// Refused with a sentence: no dtype has such elements.
template <detail::NoElements R>
Tensor from_span(const R&, Sizes, Loc = Loc::current()) {
  return detail::refuse_elements<std::remove_cvref_t<decltype(*std::begin(std::declval<const R&>()))>>();
}
template <detail::NoElement T>
Tensor from_list(std::initializer_list<T>, Sizes = {}, Loc = Loc::current()) {
  return detail::refuse_elements<T>();
}
template <class R>
Tensor from_span(const R&) = delete;  // weft: from_span takes the sizes, too: from_span(v, {2, 3})
template <class T>
Tensor detail::refuse_elements() {
  static_assert(!is_row<T>,
                "weft: from_span copies the elements of one row-major vector, and these are rows: "
                "from_list({{1.f, 2.f}, {3.f, 4.f}}), or stack() of a from_span(row, {n}) for each row");
  static_assert(!std::is_same_v<T, bool>,
                "weft: the elements of std::vector<bool> are no objects: use std::vector<std::uint8_t>, and cast the "
                "tensor to DType::boolean");
  static_assert(
      !sizeof(T) || std::is_same_v<T, bool> || is_row<T>,
      "weft: a tensor is made of bool, integers of 8 to 64 bits but for std::uint64_t, the floats of 8 and 16 bits, "
      "float or double: convert the numbers first, as in std::vector<std::int64_t>(v.begin(), v.end())");
  return {};
}
// Data from host memory inside a traced function: the value is part of the compiled graph.
template <class T>
requires is_element<std::remove_const_t<T>> Tensor constant(std::span<T> from, Sizes sizes, Loc loc = Loc::current()) {
  return detail::copy_in(from.data(), dtype_of<std::remove_const_t<T>>, sizes.shape(), from.size(),
                         detail::HostData::constant, loc);
}
template <detail::Elements R>
Tensor constant(const R& from, Sizes sizes, Loc loc = Loc::current()) {
  return constant(std::span<typename detail::SpanOf<const R>::element_type>(from), sizes, loc);
}
// Refused with a sentence: no dtype has such elements.
template <detail::NoElements R>
Tensor constant(const R&, Sizes, Loc = Loc::current()) {
  return detail::refuse_elements<std::remove_cvref_t<decltype(*std::begin(std::declval<const R&>()))>>();
}
// The same of a list, of these sizes or a vector.
template <class T>
requires is_element<T> Tensor constant(std::initializer_list<T> from, Sizes sizes, Loc loc = Loc::current()) {
  return constant(std::span<const T>(from.begin(), from.size()), sizes, loc);
}
template <class T>
requires is_element<T> Tensor constant(std::initializer_list<T> from, Loc loc = Loc::current()) {
  return constant(std::span<const T>(from.begin(), from.size()), {static_cast<std::int64_t>(from.size())}, loc);
}
// Refused with a sentence: a number.
template <Arithmetic T>
Tensor constant(T, Sizes) {
  static_assert(!sizeof(T), "weft: a number is an operand as it is; repeated it is full({2, 2}, 3.0)");
  return {};
}
// Moves to a device (copies when it is another one).
Tensor to(const Tensor& tensor, Device device, Loc loc = Loc::current());

// The elements, those in the middle of an axis left out where there are more than a thousand, and the type.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Scalar& scalar);  // the number
std::ostream& operator<<(std::ostream& out, const Index& index);    // the number

}  // namespace weft
