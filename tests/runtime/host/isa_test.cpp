#include "runtime/host/isa.hpp"

#include <doctest/doctest.h>

#include "tests/runtime/support.hpp"

using weft::Isa;

TEST_CASE("the widest ISA can be capped and never raised") {
  const weft::test::KeepOptions keep;
  weft::options().isa.clear();
  const Isa widest = weft::host_isa();
  weft::options().isa = "baseline";
  CHECK(weft::host_isa() == Isa::baseline);
  weft::options().isa = "avx2";
  CHECK(weft::host_isa() == std::min(widest, Isa::avx2));
  weft::options().isa = "avx512";
  CHECK(weft::host_isa() == widest);
  CHECK(weft::name(weft::host_isa()) == weft::name(widest));
}

TEST_CASE("code for the host's ISA runs") {
  const weft::test::Folder folder;
  const weft::test::KeepOptions keep;
  weft::options().cache_directory = folder.path();
  for (int i = 0; i <= static_cast<int>(weft::host_isa()); ++i) {
    weft::KernelSource source = weft::test::source_answering(i);
    source.isa = static_cast<Isa>(i);
    CHECK(weft::test::answer(*weft::jit(source)) == i);
  }
}

TEST_CASE("an instruction set runs what is compiled for it, and a compilation is for the one that its block says") {
  using weft::Architecture, weft::InstructionSet;
  const InstructionSet neon = *weft::instruction_set("neon"), avx2 = *weft::instruction_set("avx2");
  CHECK(neon.architecture == Architecture::arm64);
  CHECK(weft::name(neon) == "neon");
  CHECK(weft::march_flag(neon) == "-march=armv8-a");
  CHECK(avx2.runs(*weft::instruction_set("baseline")));
  CHECK(!avx2.runs(*weft::instruction_set("avx512")));
  CHECK(!avx2.runs(neon));
  CHECK(!neon.runs(avx2));
  CHECK(!weft::instruction_set("avx1024"));
  CHECK(weft::instruction_set_names() == "baseline, avx2, avx512, neon");
  const InstructionSet here = weft::host_isa();
  CHECK(weft::target_instruction_set() == here);
  {
    const weft::CompilingFor target(neon);
    CHECK(weft::target_instruction_set() == neon);
    const weft::CompilingFor own(std::nullopt);
    CHECK(weft::target_instruction_set() == here);
  }
  CHECK(weft::target_instruction_set() == here);
}
