#include "base/log.hpp"

#include <doctest/doctest.h>

#include "tests/runtime/support.hpp"

namespace logging = weft::logging;
using logging::Channel;
using weft::test::CaptureLog;

TEST_CASE("channels are switched on by name, and only those write") {
  CaptureLog capture;
  logging::set_channels("cache,guards");
  CHECK(logging::enabled(Channel::cache));
  CHECK(logging::enabled(Channel::guards));
  CHECK_FALSE(logging::enabled(Channel::passes));
  logging::write(Channel::cache, "stored");
  logging::write(Channel::passes, "not shown");
  logging::set_channels("all");
  CHECK(logging::enabled(Channel::passes));
  logging::set_channels("");
  CHECK_FALSE(logging::enabled(Channel::cache));
  logging::write(Channel::cache, "not shown");
  CHECK(capture.lines == std::vector<std::string>{"[weft:cache] stored"});
}

TEST_CASE("a name that is no channel is answered with the names there are") {
  CaptureLog capture;
  logging::set_channels("cahce");
  CHECK(capture.count("no channel 'cahce'; there are: guards recompiles fusion kernels cache passes") == 1);
}

TEST_CASE("a warning is shown once") {
  CaptureLog capture;
  for (int i = 0; i < 3; ++i) logging::warn_once("log_test: the same");
  logging::warn_once("log_test: another");
  CHECK(capture.lines == std::vector<std::string>{"[weft] log_test: the same", "[weft] log_test: another"});
}
