// What the handles of the C interface stand for: a package, and a function of one with what its calls need to know.
#pragma once
#include <bit>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork.hpp"
#include "base/shared_value.hpp"
#include "base/storage.hpp"
#include "run/handle.hpp"
#include "runtime/guards.hpp"
#include "runtime/package_file.hpp"

namespace weft::run {

// The bytes of a package, and who keeps them.
struct PackageBytes {
  std::shared_ptr<const void> owner;
  std::string_view all;
};

struct Release {
  void operator()(Storage* storage) const { release(storage); }
};
using Owned = std::unique_ptr<Storage, Release>;

// The values that the weights have now.
struct Weights {
  std::vector<const void*> at;                     // by number: in row-major order
  std::vector<std::shared_ptr<Storage>> replaced;  // by number; null: in the file
};

// Tensors as C sees them.
struct TensorInfos {
  std::vector<weft_tensor_info> infos;
  std::vector<std::unique_ptr<std::int64_t[]>> sizes;  // of each: its sizes, least and most
  // Of a plan's output the sizes are expressions: what they may be is not asked.
  void add(const char* name, DType dtype, const std::vector<Dim>& sizes,
           const std::vector<runtime::PackageSymbol>* symbols, bool is_written);
};

struct OpenPackage {
  std::string name;                   // of the file, without its folders
  std::shared_ptr<const void> bytes;  // who keeps those in which its weights lie; null: it has none
  runtime::PackageFile file;
  mutable std::string text, origin;  // empty until they are asked for; of `updating`
  std::vector<const char*> names;
  bool is_loaded = true;  // false: to look at
  TensorInfos weight_infos;
  mutable RecursiveMutex updating;
  mutable SharedValue<const Weights> weights;  // a call takes it once
};

// What guards compare of a tensor on the host besides its sizes.
constexpr std::uint64_t tensor_word(weft_data_type dtype, std::int32_t rank) {
  return std::bit_cast<std::uint32_t>(dtype) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank)) << 32;
}

// One kind of arguments.
struct Kind {
  const runtime::PackageSpecialization* held = nullptr;
  runtime::Guards guards;              // of the tensors that a call passes: a tensor_word(), and its sizes
  std::vector<std::size_t> passed;     // the leaf of each tensor that a call passes
  std::vector<std::size_t> tensor_of;  // by leaf: which of these it is
  std::vector<bool> is_written;        // by leaf
  std::vector<runtime::Source> given;  // where each tensor that a call gives comes from
  TensorInfos arguments, results;
  std::string fixed;    // what a call can't tell it by: values, and which tensors are undefined
  std::string refusal;  // why it can't be run from C; empty where it can
  // By output of the plan: the first result that is it; and the leaf that it may be written over.
  std::vector<std::size_t> result_of;
  std::vector<std::uint32_t> in_place;
  static constexpr std::size_t none = SIZE_MAX;
};

struct OpenFunction {
  std::shared_ptr<const OpenPackage> package;
  std::string name;  // "forward of mlp.weft"
  std::vector<Kind> kinds;
};

}  // namespace weft::run

struct weft_package : weft::run::Handle<weft::run::OpenPackage> {};
struct weft_function : weft::run::Handle<weft::run::OpenFunction> {};
