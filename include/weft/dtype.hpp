// Element types, devices, and PyTorch's promotion rules.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iosfwd>

namespace weft {

// Storage of the 16-bit floating types; arithmetic happens in f32.
struct float16 {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

enum class DType : std::uint8_t {
#define WEFT_DTYPE(name, ...) name,
#include "weft/dtypes.def"
#undef WEFT_DTYPE
};

enum class DTypeKind : std::uint8_t { boolean, integer, floating };

inline constexpr int dtype_count = 0
#define WEFT_DTYPE(...) +1
#include "weft/dtypes.def"
#undef WEFT_DTYPE
    ;

struct DTypeInfo {
  const char* name;
  int bits;
  DTypeKind kind;
};

constexpr DTypeInfo info(DType dtype) {
  constexpr DTypeInfo table[] = {
#define WEFT_DTYPE(name, text, bits, kind, type) {text, bits, DTypeKind::kind},
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  };
  return table[static_cast<int>(dtype)];
}
constexpr bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::floating; }
constexpr bool is_integer(DType dtype) { return info(dtype).kind == DTypeKind::integer; }
// Bytes that `count` packed elements take.
constexpr std::size_t storage_bytes(DType dtype, std::int64_t count) {
  return (static_cast<std::size_t>(count) * info(dtype).bits + 7) / 8;
}

template <class T>
inline constexpr bool is_element = false;
template <class T>
inline constexpr DType dtype_of = DType::f32;
#define WEFT_DTYPE(name, text, bits, kind, type) \
  template <>                                    \
  inline constexpr bool is_element<type> = true; \
  template <>                                    \
  inline constexpr DType dtype_of<type> = DType::name;
#include "weft/dtypes.def"
#undef WEFT_DTYPE

// An operand as promotion sees it: PyTorch ranks dimensioned tensors over 0-d tensors over plain numbers (weak).
struct Promotable {
  DType dtype;
  bool scalar;  // rank 0
  bool weak;    // a C++ literal or a Scalar: takes the other side's dtype within its kind
};
// The dtype in which a binary operation computes, by PyTorch's table. f16 with bf16 gives f32.
DType promote(Promotable a, Promotable b);

// Where a value lives.
struct Device {
  enum class Type : std::uint8_t { cpu, cuda } type = Type::cpu;
  std::uint8_t index = 0;
  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {Type::cuda, static_cast<std::uint8_t>(index)}; }
  bool operator==(const Device&) const = default;
};

// f32, and cpu or cuda:0.
std::ostream& operator<<(std::ostream& out, DType dtype);
std::ostream& operator<<(std::ostream& out, Device device);

}  // namespace weft
