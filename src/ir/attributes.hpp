// What a primitive is besides its operands: the struct that its row of weft/ops.def names. In: a plain struct with a
// table of its fields. Out: `Attributes`, which holds any one of them. Everything that is done to attributes (compare,
// hash, print, parse, substitute sizes) is written once, over the table.
//
// A new struct is trivially copyable, gives every field a default and lists the fields in `fields()`. A field is an
// int64, double, bool, DType, Dim, axis (uint8), AxisSet, InternedText or NumberBits, or a List of axes, Dims or int64.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/dim.hpp"
#include "weft/dtype.hpp"

namespace weft {

// ---- fields ---------------------------------------------------------------------------------------------------------

// A default that no node keeps, so that axis 0 is written as every other one.
inline constexpr std::uint8_t no_axis = 255;

// Up to eight items, as a tensor has axes.
template <class T>
struct List {
  T items[max_rank] = {};
  std::uint8_t count = 0;
  const T& operator[](std::size_t i) const { return items[i]; }
  T& operator[](std::size_t i) { return items[i]; }
  void push_back(T item) { items[count++] = item; }
  const T* begin() const { return items; }
  const T* end() const { return items + count; }
};
using AxisList = List<std::uint8_t>;

// Some of the axes of a tensor.
struct AxisSet {
  std::uint8_t bits = 0;
  bool operator[](int axis) const { return bits >> axis & 1; }
  bool operator[](std::size_t axis) const { return bits >> axis & 1; }
  void insert(int axis) { bits = static_cast<std::uint8_t>(bits | 1u << axis); }
  bool empty() const { return bits == 0; }
};

struct InternedText {
  std::uint32_t id = 0;  // of intern_text()
};

// A number of the result's dtype, compared by its bits: a double for floating dtypes, else an int64.
struct NumberBits {
  std::int64_t word = 0;
};

enum class FieldKind : std::uint8_t {
  integer,
  real,
  boolean,
  axis,
  dtype,
  size,
  axis_set,
  text,
  number,
  axes,
  sizes,
  integers
};

struct Field {
  const char* name;  // empty: the value is written without one
  FieldKind kind;
  const void* (*place)(const void* fields);
};

template <class T>
constexpr FieldKind field_kind() {
  if constexpr (std::is_same_v<T, std::int64_t>) return FieldKind::integer;
  if constexpr (std::is_same_v<T, double>) return FieldKind::real;
  if constexpr (std::is_same_v<T, bool>) return FieldKind::boolean;
  if constexpr (std::is_same_v<T, std::uint8_t>) return FieldKind::axis;
  if constexpr (std::is_same_v<T, DType>) return FieldKind::dtype;
  if constexpr (std::is_same_v<T, Dim>) return FieldKind::size;
  if constexpr (std::is_same_v<T, AxisSet>) return FieldKind::axis_set;
  if constexpr (std::is_same_v<T, InternedText>) return FieldKind::text;
  if constexpr (std::is_same_v<T, NumberBits>) return FieldKind::number;
  if constexpr (std::is_same_v<T, List<std::uint8_t>>) return FieldKind::axes;
  if constexpr (std::is_same_v<T, List<Dim>>) return FieldKind::sizes;
  if constexpr (std::is_same_v<T, List<std::int64_t>>) return FieldKind::integers;
}
template <class T, class M>
constexpr FieldKind kind_of_member(M T::*) {
  return field_kind<M>();
}
template <class T, class M>
T struct_of_member(M T::*);

template <auto member>
constexpr Field field(const char* name) {
  using T = decltype(struct_of_member(member));
  return {name, kind_of_member(member),
          [](const void* fields) -> const void* { return &(static_cast<const T*>(fields)->*member); }};
}

// ---- the structs that weft/ops.def names ----------------------------------------------------------------------------

struct None {
  static constexpr std::array<Field, 0> fields() { return {}; }
};

struct Constant {
  NumberBits bits = {};
  Dim size = 0;  // not 0: this size in the place of the number

  static Constant number(DType dtype, double value);
  static Constant integer(std::int64_t value) { return {{value}}; }
  bool is_size() const { return !size.same(Dim(0)); }
  std::int64_t as_integer() const { return bits.word; }
  double as_number(DType dtype) const;
  // A literal of dtype `from` in `to`, rounded once: bool is true for all but 0, integers lose their fraction. Empty
  // where an integer dtype can't hold the number.
  std::optional<Constant> literal_in(DType to, DType from) const;
  static constexpr auto fields() { return std::array{field<&Constant::bits>(""), field<&Constant::size>("size")}; }
};

struct Parameter {
  std::int64_t slot = 0;  // position among the graph's inputs
  static constexpr auto fields() { return std::array{field<&Parameter::slot>("")}; }
};

struct Contents {
  std::int64_t digest = 0;  // of the contents; 0 outside a trace
  static constexpr auto fields() { return std::array{field<&Contents::digest>("digest")}; }
};

struct Along {
  std::uint8_t axis = no_axis;
  static constexpr auto fields() { return std::array{field<&Along::axis>("axis")}; }
};

// Rows are slices along the axis.
struct RowUpdate {
  std::uint8_t axis = no_axis;
  bool adds = false;  // else they replace
  static constexpr auto fields() {
    return std::array{field<&RowUpdate::axis>("axis"), field<&RowUpdate::adds>("adds")};
  }
};

struct Permute {
  AxisList axes = {};  // result axis i is the operand's axes[i]
  static constexpr auto fields() { return std::array{field<&Permute::axes>("axes")}; }
};

struct Slice {
  std::uint8_t axis = no_axis;
  Dim start = 0;
  std::int64_t step = 1;  // never 0
  static constexpr auto fields() {
    return std::array{field<&Slice::axis>("axis"), field<&Slice::start>("start"), field<&Slice::step>("step")};
  }
};

// The axis becomes two: the place in a window, and the window. Element (place, window) is the operand's element
// window * step + place * dilation.
struct Windows {
  std::int64_t size = 1, step = 1, dilation = 1;  // all at least 1
  std::uint8_t axis = no_axis;
  static constexpr auto fields() {
    return std::array{field<&Windows::axis>("axis"), field<&Windows::size>("size"), field<&Windows::step>("step"),
                      field<&Windows::dilation>("dilation")};
  }
};

struct Pad {
  std::uint8_t axis = no_axis;
  Dim before = 0, after = 0;  // zeros
  std::int64_t interior = 0;  // zeros between two elements
  static constexpr auto fields() {
    return std::array{field<&Pad::axis>("axis"), field<&Pad::before>("before"), field<&Pad::after>("after"),
                      field<&Pad::interior>("interior")};
  }
};

struct Reduce {
  AxisSet axes = {};
  static constexpr auto fields() { return std::array{field<&Reduce::axes>("axes")}; }
};

// Lists have an item for each axis after the channels.
struct Convolution {
  List<std::int64_t> strides = {}, low = {}, high = {}, dilation = {};  // low, high: zeros before and after the input
  std::int64_t groups = 1;
  static constexpr auto fields() {
    return std::array{field<&Convolution::strides>("strides"), field<&Convolution::low>("low"),
                      field<&Convolution::high>("high"), field<&Convolution::dilation>("dilation"),
                      field<&Convolution::groups>("groups")};
  }
};

// Of the order the places first, first + 1, ..., `count` of them; 0: all.
struct Order {
  bool descending = false;
  Dim first = 0, count = 0;
  static constexpr auto fields() {
    return std::array{field<&Order::descending>("descending"), field<&Order::first>("first"),
                      field<&Order::count>("count")};
  }
};

struct Triangle {
  bool upper = false;       // else the lower one is read
  bool transposed = false;  // of that triangle
  bool unit = false;        // the diagonal counts as ones and is not read
  static constexpr auto fields() {
    return std::array{field<&Triangle::upper>("upper"), field<&Triangle::transposed>("transposed"),
                      field<&Triangle::unit>("unit")};
  }
};

struct Spectrum {
  bool vectors = true;  // else the values alone
  bool full = false;    // svd: U [m,m] and V [n,n]
  static constexpr auto fields() {
    return std::array{field<&Spectrum::vectors>("vectors"), field<&Spectrum::full>("full")};
  }
};

struct Fourier {
  bool inverse = false;  // exp(+2 pi i j k / n)
  static constexpr auto fields() { return std::array{field<&Fourier::inverse>("inverse")}; }
};

struct RealPoints {
  Dim count = 0;  // of each row of the result
  static constexpr auto fields() { return std::array{field<&RealPoints::count>("count")}; }
};

struct Collective {
  InternedText name = {};      // of the group
  std::int64_t processes = 1;  // in it
  static constexpr auto fields() {
    return std::array{field<&Collective::name>("group"), field<&Collective::processes>("processes")};
  }
};

struct RootedCollective {
  InternedText name = {};
  std::int64_t processes = 1;
  std::int64_t root = 0;  // its rank
  static constexpr auto fields() {
    return std::array{field<&RootedCollective::name>("group"), field<&RootedCollective::processes>("processes"),
                      field<&RootedCollective::root>("root")};
  }
};

// Which composite a call is. Those with axes or numbers hold a struct that begins with this one (ir/composites.hpp).
struct Called {
  InternedText name = {};
  static constexpr auto fields() { return std::array{field<&Called::name>("")}; }
};

// A loop over `length` slices. Operands and results: the carries first, then what is sliced or stacked.
struct Scan {
  std::int64_t carries = 0, scanned = 0;  // among the operands
  Dim length = 0;
  bool reverse = false;  // from the last slice to the first
  static constexpr auto fields() {
    return std::array{field<&Scan::carries>("carries"), field<&Scan::scanned>("scanned"),
                      field<&Scan::length>("length"), field<&Scan::reverse>("reverse")};
  }
};

struct While {
  std::int64_t carries = 0;
  std::int64_t limit = 0;    // 0: none; else it is an error to go on after so many iterations
  InternedText passed = {};  // the error
  static constexpr auto fields() {
    return std::array{field<&While::carries>("carries"), field<&While::limit>("limit"),
                      field<&While::passed>("passed")};
  }
};

struct Message {
  InternedText text = {};
  static constexpr auto fields() { return std::array{field<&Message::text>("")}; }
};

// `function`: its number (ir/host_function.hpp). `text`: what print() prints, with {} for each operand.
struct HostCalled {
  std::int64_t function = 0;
  bool gives = false;  // results; else a token
  InternedText text = {};
  static constexpr auto fields() {
    return std::array{field<&HostCalled::function>("function"), field<&HostCalled::gives>("gives"),
                      field<&HostCalled::text>("text")};
  }
};

// ---- any one of them ------------------------------------------------------------------------------------------------

struct AttributeType {
  std::span<const Field> fields;
  std::size_t size;
  const void* defaults;
};
template <class T>
inline constexpr auto field_table = T::fields();
template <class T>
inline constexpr T default_attributes = {};
template <class T>
inline constexpr AttributeType attribute_type = {field_table<T>, sizeof(T), &default_attributes<T>};

template <class T>
concept AttributeStruct = std::is_trivially_copyable_v<T> && requires {
  T::fields();
};

class Attributes {
 public:
  Attributes() = default;
  template <AttributeStruct T>
  Attributes(const T& fields) : type_(&attribute_type<T>) {
    if constexpr (!std::is_empty_v<T>) std::memcpy(allocate(), &fields, sizeof fields);
  }
  explicit Attributes(const AttributeType& type);  // its defaults
  Attributes(const Attributes& other) : type_(other.type_) { copy(other); }
  Attributes& operator=(const Attributes& other) {
    if (this == &other) return *this;
    drop();
    type_ = other.type_;
    copy(other);
    return *this;
  }
  ~Attributes() { drop(); }

  const AttributeType& type() const { return *type_; }
  // Throws InternalError where another struct is held.
  template <AttributeStruct T>
  const T& as() const {
    if (type_ != &attribute_type<T>) [[unlikely]]
      refuse(attribute_type<T>);
    return *static_cast<const T*>(data());
  }
  const void* data() const { return large() ? memory_.block : memory_.bytes; }
  void* place(const Field& field) { return const_cast<void*>(field.place(data())); }

  // The same struct with equal fields; numbers by their bits.
  bool operator==(const Attributes& other) const;
  // Words that are equal for equal attributes of one struct.
  template <class Put>
  void each_word(Put put) const {
    visit_words([](void* context, std::uint64_t word) { (*static_cast<Put*>(context))(word); }, &put);
  }
  Attributes with_sizes(const std::function<Dim(Dim)>& number) const;
  // `axis 0, start 2`: fields at their default are left out, though never all of them. `dtype`: of the node's result.
  std::string to_text(DType dtype) const;

 private:
  static constexpr std::size_t room = 32;  // what is larger lies in a block of its own
  bool large() const { return type_->size > room; }
  void* allocate() { return large() ? memory_.block = ::operator new(type_->size) : memory_.bytes; }
  void copy(const Attributes& other) {
    if (large()) [[unlikely]]
      std::memcpy(allocate(), other.memory_.block, type_->size);
    else
      memory_ = other.memory_;
  }
  void drop() {
    if (large()) [[unlikely]]
      ::operator delete(memory_.block);
  }
  void visit_words(void (*put)(void* context, std::uint64_t word), void* context) const;
  [[noreturn]] void refuse(const AttributeType& wanted) const;

  const AttributeType* type_ = &attribute_type<None>;
  union {
    alignas(8) unsigned char bytes[room];
    void* block;
  } memory_ = {};
};
static_assert(sizeof(Attributes) == 40);

}  // namespace weft
