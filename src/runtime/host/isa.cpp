#include "runtime/host/isa.hpp"

#include <algorithm>
#include <iterator>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/options.hpp"

namespace weft {

namespace {

struct Row {
  std::string_view name;
  InstructionSet set;
  std::string_view march;
};
constexpr Row rows[] = {{"baseline", {Isa::baseline, Architecture::x86_64}, "-march=x86-64"},
                        {"avx2", {Isa::avx2, Architecture::x86_64}, "-march=x86-64-v3"},
                        {"avx512", {Isa::avx512, Architecture::x86_64}, "-march=x86-64-v4"},
                        {"neon", {Isa::baseline, Architecture::arm64}, "-march=armv8-a"},
                        {"other", {Isa::baseline, Architecture::another}, ""}};
const Row& row_of(InstructionSet set) {
  const Row* const row = std::ranges::find(rows, set, &Row::set);
  WEFT_CHECK(row != std::end(rows), "an architecture has no such instruction set");
  return *row;
}

thread_local const std::optional<InstructionSet>* target = nullptr;

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#if defined(__clang__) && __clang_major__ < 18  // knows features, but not levels
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
#else
  const bool avx2 = __builtin_cpu_supports("x86-64-v3");
  const bool avx512 = __builtin_cpu_supports("x86-64-v4");
#endif
  const Isa widest = avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::baseline;
#if defined(WEFT_ONLY_ISA)
  if (widest < Isa::WEFT_ONLY_ISA)
    fail("weft", {}, "this library was built with WEFT_QUICK_BUILD for ", name(Isa::WEFT_ONLY_ISA),
         ", and this CPU has no more than ", name(widest), ": build it here");
#endif
  return widest;
#else
  return Isa::baseline;
#endif
}

}  // namespace

Isa host_isa() {
  static constinit Lazy<const Isa> detected;
  const Isa widest = detected.get(detect);
  const std::optional<InstructionSet> asked = instruction_set(options().isa);
  return asked && InstructionSet(widest).runs(*asked) ? asked->isa : widest;
}

std::string_view name(Architecture architecture) {
  switch (architecture) {
    case Architecture::x86_64: return "x86-64";
    case Architecture::arm64: return "arm64";
    case Architecture::another: break;
  }
  return "another";
}
std::string_view name(InstructionSet set) { return row_of(set).name; }
std::optional<InstructionSet> instruction_set(std::string_view name) {
  const Row* const row = std::ranges::find(rows, name, &Row::name);
  return row == std::end(rows) ? std::nullopt : std::optional(row->set);
}
std::string instruction_set_names() {
  std::string names;
  for (const Row& row : rows)
    if (row.set.architecture != Architecture::another) names += concat_text(names.empty() ? "" : ", ", row.name);
  return names;
}
std::string_view march_flag(InstructionSet set) { return row_of(set).march; }

InstructionSet target_instruction_set() { return target && *target ? **target : InstructionSet(host_isa()); }
CompilingFor::CompilingFor(std::optional<InstructionSet> set) : before_(target), target_(set) { target = &target_; }
CompilingFor::~CompilingFor() { target = before_; }

}  // namespace weft
