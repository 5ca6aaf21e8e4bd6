// The instruction sets that kernels are generated and pre-built for, which of them this CPU runs, and which one a
// compilation is for.
#pragma once
#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

enum class Architecture { x86_64, arm64, another };
#if defined(__x86_64__)
inline constexpr Architecture host_architecture = Architecture::x86_64;
#elif defined(__aarch64__)
inline constexpr Architecture host_architecture = Architecture::arm64;
#else
inline constexpr Architecture host_architecture = Architecture::another;
#endif
std::string_view name(Architecture architecture);  // "x86-64"

// x86-64, x86-64-v3, x86-64-v4; each contains the one before it. Other architectures have the first one alone: arm64's
// has NEON.
enum class Isa { baseline, avx2, avx512 };

// The widest that the CPU and the operating system support, capped by WEFT_ISA. Found once.
Isa host_isa();

// What kernels are compiled for.
struct InstructionSet {
  constexpr InstructionSet(Isa isa, Architecture architecture = host_architecture)
      : architecture(architecture), isa(isa) {}
  // Whether a machine that has this one runs what is compiled for the other.
  constexpr bool runs(InstructionSet other) const { return other.architecture == architecture && other.isa <= isa; }
  friend constexpr auto operator<=>(InstructionSet, InstructionSet) = default;
  Architecture architecture;
  Isa isa;
};
// "baseline", "avx2" and "avx512" of x86-64, "neon" of arm64, "other".
std::string_view name(InstructionSet set);
std::optional<InstructionSet> instruction_set(std::string_view name);
std::string instruction_set_names();  // that there are: "baseline, avx2, avx512, neon"

// The compiler's flag: "-march=x86-64-v4". Empty where it is not known.
std::string_view march_flag(InstructionSet set);

// What this thread compiles for: the host's, but in the block of a CompilingFor.
InstructionSet target_instruction_set();
class CompilingFor {
 public:
  explicit CompilingFor(std::optional<InstructionSet> target);  // nothing: the host's
  ~CompilingFor();
  CompilingFor(const CompilingFor&) = delete;

 private:
  const std::optional<InstructionSet>* before_;
  std::optional<InstructionSet> target_;
};

}  // namespace weft
