// The oneDNN library (libdnnl.so.2), found by dlopen at the first use: nothing links it, none of its headers is needed,
// and the same binary runs where it is absent. Out: a table of the functions that are used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "weft/dtype.hpp"

namespace weft::runtime::onednn {

// Our own declarations of what is called. Descriptors are the library's plain structs, whose contents nobody here
// reads.
struct Engine;
struct Stream;
struct Attributes;
struct Description;
struct Primitive;
struct Memory;
struct alignas(64) Layout {
  std::byte bytes[2048];
};
constexpr std::size_t layout_bytes = 696;  // of them the library's, in every version 2: beyond is no memory of its own
struct alignas(64) Operation {
  std::byte bytes[8192];  // five layouts and some numbers
};
struct Argument {
  int index;
  Memory* memory;
};
struct Version {
  int major, minor, patch;
};

struct Library {
  const Version* (*dnnl_version)();
  int (*dnnl_get_effective_cpu_isa)();
  int (*dnnl_engine_create)(Engine**, int kind, std::size_t index);
  int (*dnnl_stream_create)(Stream**, Engine*, unsigned flags);
  int (*dnnl_stream_destroy)(Stream*);
  int (*dnnl_memory_desc_init_by_strides)(Layout*, int axes, const std::int64_t* sizes, int type,
                                          const std::int64_t* strides);
  int (*dnnl_memory_desc_init_by_tag)(Layout*, int axes, const std::int64_t* sizes, int type, int tag);
  int (*dnnl_memory_desc_equal)(const Layout*, const Layout*);
  std::size_t (*dnnl_memory_desc_get_size)(const Layout*);
  int (*dnnl_matmul_desc_init)(Operation*, const Layout* a, const Layout* b, const Layout* bias, const Layout* c);
  int (*dnnl_dilated_convolution_forward_desc_init)(Operation*, int purpose, int algorithm, const Layout* source,
                                                    const Layout* weights, const Layout* bias, const Layout* result,
                                                    const std::int64_t* strides, const std::int64_t* dilation,
                                                    const std::int64_t* low, const std::int64_t* high);
  int (*dnnl_dilated_convolution_backward_data_desc_init)(Operation*, int algorithm, const Layout* source,
                                                          const Layout* weights, const Layout* result,
                                                          const std::int64_t* strides, const std::int64_t* dilation,
                                                          const std::int64_t* low, const std::int64_t* high);
  int (*dnnl_dilated_convolution_backward_weights_desc_init)(Operation*, int algorithm, const Layout* source,
                                                             const Layout* weights, const Layout* bias,
                                                             const Layout* result, const std::int64_t* strides,
                                                             const std::int64_t* dilation, const std::int64_t* low,
                                                             const std::int64_t* high);
  int (*dnnl_reorder_primitive_desc_create)(Description**, const Layout* from, Engine*, const Layout* to, Engine*,
                                            const Attributes*);
  int (*dnnl_primitive_desc_query)(const Description*, int what, int index, void* result);
  int (*dnnl_primitive_attr_create)(Attributes**);
  int (*dnnl_primitive_attr_destroy)(Attributes*);
  int (*dnnl_primitive_attr_set_scratchpad_mode)(Attributes*, int mode);
  int (*dnnl_primitive_desc_create)(Description**, const Operation*, const Attributes*, Engine*, const Description*);
  int (*dnnl_primitive_desc_destroy)(Description*);
  const Layout* (*dnnl_primitive_desc_query_md)(const Description*, int what, int index);
  int (*dnnl_primitive_create)(Primitive**, const Description*);
  int (*dnnl_primitive_destroy)(Primitive*);
  int (*dnnl_primitive_execute)(const Primitive*, Stream*, int count, const Argument*);
  int (*dnnl_memory_create)(Memory**, const Layout*, Engine*, void* data);
  int (*dnnl_memory_destroy)(Memory*);
  Engine* engine = nullptr;
};

// Null where it is absent, too old or too new, or where WEFT_ONEDNN=0 says not to look. Else it stays loaded.
const Library* library();
// Whether this process has asked for it; and what there is, as far as plans depend on it: "none" where there is none.
bool was_asked();
std::string identity();
// As `library`, of the file of that name.
std::shared_ptr<const Library> load(const char* file);
// "oneDNN 2.6.3"
std::string name(const Library& library);
// Whether the CPU that is compiled for has the instructions with which products of the dtype are faster than our own,
// and whether it has those with which convolutions are. No where this CPU has them not: the library can't be asked
// then.
bool is_fast(const Library& library, DType dtype);
bool convolves_fast(const Library& library, DType dtype);

}  // namespace weft::runtime::onednn
