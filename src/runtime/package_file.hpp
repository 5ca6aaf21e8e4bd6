// A package as data: compiled functions for programs that neither trace nor compile. In: plans, what guards them, by
// names, and their kernels. Out: bytes, and the same read back, its plans ready to run. Nothing in it is an address or
// depends on the process that made it. Who reads it needs no more than this folder and `base`.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dim_expression.hpp"
#include "base/hash.hpp"
#include "runtime/package_device.hpp"
#include "runtime/plan_file.hpp"

namespace weft::runtime {

// What a leaf of the arguments must be, or what a leaf of the result is.
struct PackageLeaf {
  enum class Kind : std::uint8_t {
    tensor,  // Tensor, Param, Buffer, Scalar, Index
    number,  // of 8 bytes at most
    list,    // of numbers side by side, or the characters of a text
    count,   // a container's length, whether an optional has a value, which alternative a variant has
  };
  Kind kind = Kind::tensor;
  std::string name;            // `argument 0 (in.weight)`
  std::uint16_t argument = 0;  // position
  // Of a tensor.
  bool defined = false, weak = false, frozen = false;
  DType dtype = DType::f32;
  Device device = {};
  std::vector<Dim> sizes = {};  // each a number or a symbol of the specialization; of a result none
  // Of what is no tensor.
  std::string bytes = {};   // number, list: the value
  std::uint64_t count = 0;  // count
  std::string text = {};    // the value as people read it: `3`, `"gelu"`, `length 2`
  static auto fields(auto& self) {
    return std::tie(self.kind, self.name, self.argument, self.defined, self.weak, self.frozen, self.dtype,
                    self.device.type, self.device.index, self.sizes, self.bytes, self.count, self.text);
  }
};

// The range of a symbol: a size that a call supplies. Leaves with equal symbols have equal sizes there.
struct PackageSymbol {
  std::int64_t lower = 2, upper = INT64_MAX;
  static auto fields(auto& self) { return std::tie(self.lower, self.upper); }
};

// What the symbols satisfy: `left` is equal to, or less than, `right`; or it is not.
struct PackageCondition {
  DimCondition::Kind kind = DimCondition::Kind::equal;
  bool holds = true;
  Dim left, right;
  std::string place;  // where the function decided it: `model.cpp:12`; empty: unknown
  static auto fields(auto& self) { return std::tie(self.kind, self.holds, self.left, self.right, self.place); }
};

// What the plan computes.
struct PackageOutput {
  DType dtype = DType::f32;
  bool weak = false;
  Device device = {};
  std::vector<Dim> sizes;         // over the symbols
  std::uint32_t donor = no_leaf;  // the leaf whose memory it may be written into, where nothing else sees that
  static constexpr std::uint32_t no_leaf = UINT32_MAX;
  static auto fields(auto& self) {
    return std::tie(self.dtype, self.weak, self.device.type, self.device.index, self.sizes, self.donor);
  }
};

// Where a tensor of the result, or of changed state, comes from.
struct PackageSource {
  enum class Kind : std::uint8_t { undefined, output, argument } kind = Kind::undefined;
  std::uint32_t index = 0;  // output: which; argument: the leaf
  static auto fields(auto& self) { return std::tie(self.kind, self.index); }
};

struct PackageStateTensor {
  std::uint32_t leaf = 0;  // a tensor that the function changes
  PackageSource source;
  static auto fields(auto& self) { return std::tie(self.leaf, self.source); }
};

struct PackageNumbers {
  std::uint32_t leaf = 0;  // a number, or a list of them, that the function changes
  std::string bytes;       // to this
  static auto fields(auto& self) { return std::tie(self.leaf, self.bytes); }
};

// A tensor that the file holds: an argument of plans that no call passes.
struct PackageWeight {
  std::string name;  // `in.weight`
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::uint64_t offset = 0;     // of its first byte, from that of the first one
  Digest digest = {};           // of its bytes
  std::string_view bytes = {};  // in row-major order, in the bytes that were read
  static auto fields(auto& self) {
    return std::tie(self.name, self.dtype, self.sizes, self.offset, self.digest.low, self.digest.high);
  }
};

// A function, compiled for one kind of arguments.
struct PackageSpecialization {
  std::vector<PackageLeaf> arguments;
  std::vector<PackageSymbol> symbols;
  std::vector<PackageCondition> conditions;
  std::vector<std::uint32_t> inputs;  // the leaf of each argument of the plan, or generator_state, or a weight()
  std::vector<PackageOutput> outputs;
  std::vector<PackageLeaf> result;     // its leaves
  std::vector<PackageSource> results;  // of the tensors among them, in order
  std::vector<PackageStateTensor> states;
  std::vector<PackageNumbers> numbers;
  PackageSource generator;    // the next state of the default generator; undefined: it stays
  std::uint32_t library = 0;  // which of PackageFile::libraries the plan calls; no_library: none
  // What its kernels are for: an instruction set, or of a plan of a device a DeviceTarget ("sm_90a"). Of the same
  // guards there may be several.
  std::string isa;
  Plan plan;  // prepared, where it was read
  static constexpr std::uint32_t no_library = UINT32_MAX, generator_state = UINT32_MAX;
  // An input that is one of PackageFile::weights.
  static constexpr std::uint32_t weight(std::size_t index) { return static_cast<std::uint32_t>(index) | 1U << 31; }
  static constexpr bool is_weight(std::uint32_t input) { return input != generator_state && input >> 31 != 0; }
  static constexpr std::size_t weight_index(std::uint32_t input) { return input & ~(1U << 31); }
  static auto fields(auto& self) {
    return std::tie(self.arguments, self.symbols, self.conditions, self.inputs, self.outputs, self.result, self.results,
                    self.states, self.numbers, self.generator, self.library, self.isa);
  }
};

// A function by its name.
struct PackageEntry {
  std::string name;
  std::vector<std::string> types;  // of its arguments and its result, a line each: `argument 0 (in.weight): Param`
  std::vector<PackageSpecialization> specializations;
};

// The bytes of a shared object of kernels, or of a device's images (cuda/package_code.hpp).
struct PackageLibrary {
  Digest key;
  std::uint64_t units = 0;
  std::string bytes;
  // What it was compiled for: a digest of each specialization's symbols, what they satisfy, and the launches of its
  // kernels. Empty where nothing was written yet: then that is what is written.
  std::vector<std::array<std::uint64_t, 2>> uses = {};
  static auto fields(auto& self) { return std::tie(self.key.low, self.key.high, self.units, self.bytes, self.uses); }
};

struct PackageFile {
  std::vector<PackageEntry> entries;
  std::vector<PackageLibrary> libraries;  // of one that was read without their bytes: they are loaded
  std::string isa;                        // those that kernels are for; who writes leaves it empty: "avx2 of x86-64"
  std::string made_by;                    // likewise: the version of Weft that wrote it
  std::vector<PackageWeight> weights;
  std::string weights_header;  // of the safetensors file that they are in the file; who reads leaves it empty
};

// What a call must be to fit, as bytes: equal ones are equal guards.
std::string guards_text(const PackageSpecialization& made);

// The bytes of the file, up to those of the weights, which follow as their offsets say. `refusal`: why it can't be
// written; empty where it can.
std::string write_package(const PackageFile& package, std::string& refusal);

// All of a package but the elements of its weights: what is read into memory, so that nobody changes it after its
// digest was compared (MappedFile::HeadSize).
std::uint64_t package_head(std::string_view begin);

// Why bytes are no package that runs here. It goes on after the file's name: "was cut off or damaged".
struct PackageRefusal {
  std::string why;
};
// Reads all of it and holds it against itself: nothing is loaded, no plan is ready to run, and it may be for another
// machine. Steps of a device that read_step does not know are passed over, and can't be made ready. The weights are
// looked at in `bytes`, as long as somebody uses them, and not held against their digests. Throws PackageRefusal; where
// memory ends, OutOfMemory or std::bad_alloc.
PackageFile parse_package(std::string_view bytes, const StepReader& read_step);
// Of specializations with the same guards that is kept whose instruction set is the largest that this machine has, or
// whose code is the best for the device; their plans are given their kernels and prepared. Throws PackageRefusal, also
// where this machine has none of them. `packs`: weights are constant arguments of their plans (runtime/constants.hpp).
// `device`: null where plans of devices are not run.
void prepare(PackageFile& package, bool packs = true, const PackageDevice* device = nullptr);
// Both. Damage is found by the digest. What was forged, with a digest that is
// right, is refused here or where a call's sizes would make a step leave its memory; machine code and what it says that
// it was compiled for are believed. Throws PackageRefusal.
PackageFile read_package(std::string_view bytes, const StepReader& read_step);

// The name of a weight whose bytes are not those that were written; empty: there is none.
std::string damaged_weight(const PackageFile& package);

// What a call gives for a leaf.
struct GivenLeaf {
  PackageLeaf::Kind kind = PackageLeaf::Kind::tensor;
  bool defined = false, weak = false, frozen = false;
  DType dtype = DType::f32;
  Device device = {};
  std::vector<std::int64_t> sizes = {};
  std::string_view bytes = {};
  std::uint64_t count = 0;
  std::string text = {};
};
// Why the leaves of a call do not fit: the first that does not, what it is, and what the package holds. Empty where
// they fit. `leaf`: which one it is.
std::string mismatch(const PackageSpecialization& held, const std::vector<GivenLeaf>& given, std::size_t& leaf);
// Why a call fits none of several specializations: what it differs in from the nearest, the one that more leaves fit.
class NearestMismatch {
 public:
  // What mismatch() gives of the next one.
  void add(std::string why, std::size_t leaf);
  std::string text() const;

 private:
  std::string why_;
  std::size_t leaf_ = 0, count_ = 0;
};

// "f32[2,s0]"
std::string tensor_text(DType dtype, const std::vector<Dim>& sizes);
// Of one that was read: its format, the version that wrote it, and what its kernels are for.
std::string origin_text(const PackageFile& package);
// The functions, what each is guarded by and what it gives, for people. One that is there for several instruction sets
// is named once.
std::string to_text(const PackageFile& package);

}  // namespace weft::runtime
