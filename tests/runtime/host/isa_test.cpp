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
  CHECK(weft::name(Isa::avx2) == "avx2");
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
