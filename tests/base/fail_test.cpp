// Errors: the text that a user reads, and copies that share it.
#include "base/fail.hpp"

#include <doctest/doctest.h>

using namespace weft;

namespace {
template <class Thrown, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "(nothing thrown)";
}
}  // namespace

TEST_CASE("a message is the operation, the parts and the user's line without its folders") {
  const Loc loc{"/home/user/model.cpp", 41};
  CHECK(message_of<Error>([&] { fail("matmul", loc, "inner sizes differ: ", 128, " x ", 256); }) ==
        "[matmul] inner sizes differ: 128 x 256, at model.cpp:41");
}

TEST_CASE("an unknown operation or line leaves its part out") {
  CHECK(message_of<Error>([] { fail("", Loc{}, "no such file: ", "a.gz"); }) == "no such file: a.gz");
  CHECK(message_of<Error>([] { fail("read", Loc{}, "short"); }) == "[read] short");
}

TEST_CASE("an invariant that fails is an internal error with our own line, and is no Error of the user's") {
  const int count = 3;
  const std::string text = message_of<InternalError>([&] { WEFT_CHECK(count == 4, "count is ", count); });
  CHECK(text.starts_with("[internal] invariant failed: count == 4 count is 3, at fail_test.cpp:"));
  CHECK_THROWS_AS([&] { WEFT_CHECK(count == 4); }(), InternalError);
  CHECK_NOTHROW([&] { WEFT_CHECK(count == 3); }());
}

TEST_CASE("copies share the text and outlive the original") {
  Error kept("kept");
  {
    const Error original("original");
    kept = original;
    const Error copy(original);
    CHECK(copy.what() == original.what());
  }
  CHECK(std::string(kept.what()) == "original");
}
