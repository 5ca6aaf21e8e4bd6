// A package as data: compiled functions for programs that neither trace nor compile. In: plans, their guards by the
// names of arguments, and their kernels. Out: bytes, and the same data read back with its plans ready to run. Nothing
// in it is an address or depends on the process that made it. A reader needs only this folder and `base`.
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
#include "runtime/sources.hpp"

namespace weft::runtime {

// A guard on one leaf of the arguments, or what one leaf of a call or of its result is.
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
  // The rest depends on the kind. Tensors:
  bool defined = false, weak = false, frozen = false;
  DType dtype = DType::f32;
  Device device = {};
  std::vector<Dim> sizes = {};  // each a number or a symbol of the specialization; empty for a result
  // Other kinds:
  std::string bytes = {};   // number, list: the value
  std::uint64_t count = 0;  // count
  std::string text = {};    // the value as people read it: `3`, `"gelu"`, `length 2`
  static auto fields(auto& self) {
    return std::tie(self.kind, self.name, self.argument, self.defined, self.weak, self.frozen, self.dtype,
                    self.device.type, self.device.index, self.sizes, self.bytes, self.count, self.text);
  }
};

// The range of a symbol, which is a size that a call supplies. Where two leaves have the same symbol, the sizes of a
// call must be equal.
struct PackageSymbol {
  std::int64_t lower = 2, upper = INT64_MAX;
  static auto fields(auto& self) { return std::tie(self.lower, self.upper); }
};

// A guard on symbols: `left` equals `right`, or is less than it. `holds` is false where the opposite is required.
struct PackageCondition {
  DimCondition::Kind kind = DimCondition::Kind::equal;
  bool holds = true;
  Dim left, right;
  std::string place;  // the line that decided it: `at model.cpp:12`, `after model.cpp:12`; empty if unknown
  static auto fields(auto& self) { return std::tie(self.kind, self.holds, self.left, self.right, self.place); }
};

// A tensor that the plan computes.
struct PackageOutput {
  DType dtype = DType::f32;
  bool weak = false;
  Device device = {};
  std::vector<Dim> sizes;         // over the symbols
  std::uint32_t donor = no_leaf;  // the leaf whose memory it may take, if nothing else refers to that memory
  static constexpr std::uint32_t no_leaf = UINT32_MAX;
  static auto fields(auto& self) {
    return std::tie(self.dtype, self.weak, self.device.type, self.device.index, self.sizes, self.donor);
  }
};

// A tensor in the file. Plans read it as an argument; callers do not pass it.
struct PackageWeight {
  std::string name;  // `in.weight`
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::uint64_t offset = 0;     // from the first byte of the first weight
  Digest digest = {};           // of its bytes
  std::string_view bytes = {};  // row-major; a view of the file's bytes
  static auto fields(auto& self) {
    return std::tie(self.name, self.dtype, self.sizes, self.offset, self.digest.low, self.digest.high);
  }
};

// A function, compiled for one kind of arguments.
struct PackageSpecialization {
  std::vector<PackageLeaf> arguments;
  std::vector<PackageSymbol> symbols;
  std::vector<PackageCondition> conditions;
  std::vector<std::uint32_t> inputs;  // by argument of the plan: a leaf, generator_state, or a weight()
  std::vector<PackageOutput> outputs;
  std::vector<PackageLeaf> result;  // the leaves of the result
  std::vector<Source> results;      // for each tensor among them, in order
  std::vector<StateTensor> states;
  std::vector<StateNumbers> numbers;
  Source generator;           // the next state of the default generator; undefined if it does not change
  std::uint32_t library = 0;  // index in PackageFile::libraries, or no_library
  // Target of its kernels: an instruction set, or a DeviceTarget ("sm_90a") for a plan of a device. Several
  // specializations may have the same guards and different targets.
  std::string isa;
  Plan plan;  // prepared after prepare()
  static constexpr std::uint32_t no_library = UINT32_MAX, generator_state = UINT32_MAX;
  // Encodes in `inputs` an index in PackageFile::weights.
  static constexpr std::uint32_t weight(std::size_t index) { return static_cast<std::uint32_t>(index) | 1U << 31; }
  static constexpr bool is_weight(std::uint32_t input) { return input != generator_state && input >> 31 != 0; }
  static constexpr std::size_t weight_index(std::uint32_t input) { return input & ~(1U << 31); }
  static auto fields(auto& self) {
    return std::tie(self.arguments, self.symbols, self.conditions, self.inputs, self.outputs, self.result, self.results,
                    self.states, self.numbers, self.generator, self.library, self.isa);
  }
};

// A function, by name.
struct PackageEntry {
  std::string name;
  std::vector<std::string> types;  // a line for each type of the signature: `argument 0 (in.weight): Param`
  std::vector<PackageSpecialization> specializations;
};

// Machine code: a shared object of kernels, or the images of a device (cuda/package_code.hpp).
struct PackageLibrary {
  Digest key;
  std::uint64_t units = 0;
  std::string bytes;
  // Digests of the specializations that it was compiled for: of their symbols, conditions and kernel launches.
  // write_package() fills in an empty list.
  std::vector<std::array<std::uint64_t, 2>> uses = {};
  static auto fields(auto& self) { return std::tie(self.key.low, self.key.high, self.units, self.bytes, self.uses); }
};

struct PackageFile {
  std::vector<PackageEntry> entries;
  std::vector<PackageLibrary> libraries;  // after prepare() without their bytes
  std::string isa;                        // after reading: the targets of all kernels, "avx2 of x86-64"
  std::string made_by;                    // after reading: the version of Weft that wrote it
  std::vector<PackageWeight> weights;
  std::string weights_header;  // for writing: the header of the safetensors file that holds them
};

// The guards as bytes. Equal bytes mean equal guards.
std::string guards_text(const PackageSpecialization& made);

// The bytes of the file up to the weights. The weights follow, each at its offset. `refusal`: why the package can't be
// written, or empty.
std::string write_package(const PackageFile& package, std::string& refusal);

// The size of everything before the elements of the weights (MappedFile::HeadSize). This part is read, not mapped, so
// that it can't change after its digest was compared.
std::uint64_t package_head(std::string_view begin);

// Why bytes are not a package that runs here. The text continues a sentence that begins with the file's name: "was cut
// off or damaged".
struct PackageRefusal {
  std::string why;
};
// Reads a package and checks that it is consistent. Loads no code and prepares no plan, so the package may be for
// another machine. Steps of a device that read_step does not know are kept as bytes and can't be prepared. Weights are
// views of `bytes`, which must outlive them; their digests are not compared. Throws PackageRefusal, and OutOfMemory or
// std::bad_alloc if memory runs out.
PackageFile parse_package(std::string_view bytes, const StepReader& read_step);
// Chooses among specializations with the same guards the one with the largest instruction set that this machine has, or
// with the best code for the device. Then loads its kernels and prepares its plan. Throws PackageRefusal, also if this
// machine can run none of them. `packs`: weights become constant arguments of their plans (runtime/constants.hpp).
// `device`: null if plans of devices are not run.
void prepare(PackageFile& package, bool packs = true, const PackageDevice* device = nullptr);
// parse_package() and prepare(). The digest finds damage. A forged package with a correct digest is refused here, or in
// a call whose sizes would make a step leave its memory. Machine code, and what it says it was compiled for, is
// trusted. Throws PackageRefusal.
PackageFile read_package(std::string_view bytes, const StepReader& read_step);

// The name of the first weight whose digest is wrong, or an empty text.
std::string damaged_weight(const PackageFile& package);

// Describes the first leaf of a call that the guards refuse: its name, what it is, and what the package holds. Empty if
// all fit. `given`: what the call passes, whose names are not read and whose sizes are numbers. `leaf`: the index of
// that leaf.
std::string mismatch(const PackageSpecialization& held, const std::vector<PackageLeaf>& given, std::size_t& leaf);
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

// Of the first sizes of each range of a function those that none of its specializations takes, a sentence for each:
// "x: size of dimension 2 is not 1, since s0 != 1, as decided at model.cpp:12".
std::vector<std::string> sizes_left_out(const PackageEntry& entry);

// "f32[2,s0]"
std::string tensor_text(DType dtype, const std::vector<Dim>& sizes);
// For a package that was read: its format, the version of Weft that wrote it, and the targets of its kernels.
std::string origin_text(const PackageFile& package);
// Lists the functions with their guards and results, for people. A specialization that exists for several targets is
// listed once.
std::string to_text(const PackageFile& package);

}  // namespace weft::runtime
