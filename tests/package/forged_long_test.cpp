// The same as forged_test.cpp, of 10^5 forged packages.
#include "package/forged.hpp"
#include "tests/needs_compiler.hpp"

using namespace package_test;
using weft::test::a_compiler;
using weft::test::needs;

TEST_CASE("of 10^5 packages of bytes at random each is a sentence, or computes within its memory" * needs(a_compiler)) {
  const Folder folder;
  const std::vector<Forgeable> all = forgeables(folder);
  const int each = 100000 / static_cast<int>(all.size()) + 1;
  for (const Forgeable& of : all) {
    const Outcomes found =
        call_forged(of, folder, each, [&](int number) { return with_other_bytes(of.bytes, 1000 + number); });
    MESSAGE(of.name << ": " << found.refused << " refused, " << found.computed << " computed, " << found.endless
                    << " without an end");
  }
}
