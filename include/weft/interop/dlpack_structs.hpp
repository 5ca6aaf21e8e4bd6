// DLPack's structs, with the memory layout of the specification (github.com/dmlc/dlpack, version 1). For what needs no
// tensor; dlpack.hpp has the functions.
#pragma once
#include <cstdint>

namespace weft::dlpack {

inline constexpr std::uint32_t major_version = 1;  // of what Weft exports, and all that it reads
inline constexpr std::uint32_t minor_version = 0;  // of what Weft exports
struct Version {                                   // DLPackVersion of dlpack.h
  std::uint32_t major;                             // another one has another layout
  std::uint32_t minor;                             // a later one adds values
};
enum class DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3 };  // DLDeviceType
struct Device {                                                             // DLDevice of dlpack.h
  DeviceType type;                                                          // the kind of memory
  std::int32_t index;                                                       // of the GPU; 0 for the host
};
// DLDataTypeCode: the kind of an element.
enum class Code : std::uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e5m2 = 12
};
struct DataType {       // DLDataType of dlpack.h
  Code code;            // the kind
  std::uint8_t bits;    // of one lane
  std::uint16_t lanes;  // of an element; 1 in all that Weft gives and takes
};
struct View {                 // DLTensor of dlpack.h
  void* data;                 // the allocation; the first element is byte_offset after it
  Device device;              // where it lies
  std::int32_t rank;          // the number of axes (ndim)
  DataType dtype;             // of the elements
  std::int64_t* shape;        // `rank` sizes
  std::int64_t* strides;      // in elements; null: row-major
  std::uint64_t byte_offset;  // of the first element
};
struct ManagedTensor {              // DLManagedTensor of dlpack.h
  View dl_tensor;                   // the elements
  void* manager_ctx;                // the maker's own
  void (*deleter)(ManagedTensor*);  // gives the memory back; called once, with this struct. May be null
};
inline constexpr std::uint64_t read_only = 1;  // flag: the receiver must not write to the memory
inline constexpr std::uint64_t is_copied = 2;  // flag: the memory is a copy; Weft does not set it
struct ManagedTensorVersioned {                // DLManagedTensorVersioned of dlpack.h
  Version version;                             // of the struct
  void* manager_ctx;                           // the maker's own
  void (*deleter)(ManagedTensorVersioned*);    // gives the memory back; called once, with this struct. May be null
  std::uint64_t flags;                         // read_only, is_copied; Weft sets the first and reads none
  View dl_tensor;                              // the elements
};

}  // namespace weft::dlpack
