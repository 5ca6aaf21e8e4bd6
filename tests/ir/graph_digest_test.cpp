// full_digest(): equal for graphs that mean the same, whichever objects they are made of.
#include "ir/graph_digest.hpp"

#include <doctest/doctest.h>

#include "tests/ir/support.hpp"
#include "weft/ops.hpp"

using namespace graph_test;

namespace {

std::shared_ptr<const Graph> body_of(double factor) {
  Recording recording;
  const Tensor a = recording.x(), b = recording.x();
  return std::make_shared<const Graph>(recording.graph({a * factor + b}));
}
Digest digest_of(const std::shared_ptr<const Graph>& first, const std::shared_ptr<const Graph>& second) {
  Recording recording;
  const Tensor a = recording.x(), b = recording.x();
  return *full_digest(recording.graph({call(second, call(first, a, b), b)}));
}

}  // namespace

TEST_CASE("a body counts by what it computes, not by who shares it") {
  const auto body = body_of(2);
  CHECK(digest_of(body, body) == digest_of(body, body_of(2)));
  CHECK(digest_of(body, body) != digest_of(body, body_of(3)));
  CHECK(digest_of(body, body_of(3)) != digest_of(body_of(3), body));
}
