#include "runtime/host/plain_image.hpp"

#include <doctest/doctest.h>

#include <random>

#include "runtime/host/abi.hpp"
#include "runtime/host/compiler.hpp"
#include "tests/needs.hpp"
#include "tests/runtime/support.hpp"
#include "tests/sanitized.hpp"

using weft::PlainImage;

namespace {

std::string compiled(const std::string& unit) {
  return weft::compile_units(weft::host_compiler(), {unit}, weft::host_isa(), {1, 2});
}

}  // namespace

TEST_CASE("an object that needs nothing runs without the system's loader" *
          weft::test::needs(weft::test::kernels_without_sanitizer)) {
  std::string reason;
  const auto image = PlainImage::map(compiled(weft::test::unit_answering(42)), reason);
  REQUIRE_MESSAGE(image, reason);
  CHECK(reinterpret_cast<int (*)()>(image->find("answer"))() == 42);
  CHECK(*static_cast<const int*>(image->find(weft::abi_symbol)) == weft::kernel_abi);
  CHECK(image->find("no_such") == nullptr);
}

TEST_CASE("one that calls what compilers call by themselves, and has addresses of its own, runs so too" *
          weft::test::needs(weft::test::kernels_without_sanitizer)) {
  const char* const own = "extern \"C\" __attribute__((visibility(\"default\"))) ";
  std::string reason;
  const auto image =
      PlainImage::map(compiled(std::string("extern \"C\" void* memcpy(void*, const void*, unsigned long);\n") + own +
                               "int number = 3;\n" + own + "int* place = &number;\n" + own +
                               "void copy(void* to, const void* from, long size) { memcpy(to, from, size); }\n"),
                      reason);
  REQUIRE_MESSAGE(image, reason);
  CHECK(**static_cast<int**>(image->find("place")) == 3);
  CHECK(*static_cast<int**>(image->find("place")) == image->find("number"));
  char text[8] = {};
  reinterpret_cast<void (*)(void*, const void*, long)>(image->find("copy"))(text, "copied", 7);
  CHECK(std::string(text) == "copied");
}

TEST_CASE("one that needs more is refused, and so is what is none" *
          weft::test::needs(weft::test::kernels_without_sanitizer)) {
  const auto why = [](const std::string& bytes) {
    std::string reason;
    CHECK(!PlainImage::map(bytes, reason));
    return reason;
  };
  const char* const own = "extern \"C\" __attribute__((visibility(\"default\"))) ";
  CHECK(why("no ELF") == "they are no shared object of this processor");
  CHECK(why(compiled(std::string("extern \"C\" double cbrt(double);\n") + own +
                     "double root(double x) { return cbrt(x); }\n")) == "they call cbrt");
  CHECK(why(compiled(std::string(own) +
                     "int chosen() { return 1; }\n"
                     "extern \"C\" int (*choose())() { return chosen; }\n"
                     "extern \"C\" __attribute__((ifunc(\"choose\"), visibility(\"hidden\"))) int late();\n" +
                     own + "int call() { return late(); }\n")) == "they refer to other places");
}

TEST_CASE("bytes that were changed are refused, or mapped: nothing outside of them is read" *
          weft::test::needs(weft::test::kernels_without_sanitizer)) {
  const std::string bytes = compiled(weft::test::unit_answering(42));
  std::mt19937_64 random(3);
  std::string reason;
  int mapped = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string changed = bytes;
    if (i % 4 == 0) changed.resize(random() % changed.size());
    for (auto left = 1 + random() % 3; left > 0 && !changed.empty(); --left)
      changed[random() % std::min<std::size_t>(changed.size(), 0x400)] = static_cast<char>(random());
    if (const auto image = PlainImage::map(changed, reason)) {
      image->find("answer"), image->find("no_such");
      ++mapped;
    }
  }
  CHECK(mapped > 0);
}
