#include "base/log.hpp"

#include <doctest/doctest.h>

#include "tests/runtime/support.hpp"

namespace log = weft::log;
using log::Channel;
using weft::test::CaptureLog;

TEST_CASE("channels are switched on by name, and only those write") {
  CaptureLog capture;
  log::set_channels("cache,guards");
  CHECK(log::enabled(Channel::cache));
  CHECK(log::enabled(Channel::guards));
  CHECK_FALSE(log::enabled(Channel::compile));
  log::write(Channel::cache, "stored");
  log::write(Channel::compile, "not shown");
  log::set_channels("all");
  CHECK(log::enabled(Channel::compile));
  log::set_channels("");
  CHECK_FALSE(log::enabled(Channel::cache));
  log::write(Channel::cache, "not shown");
  CHECK(capture.lines == std::vector<std::string>{"[weft:cache] stored"});
}

TEST_CASE("a name that is no channel is answered with the names there are") {
  CaptureLog capture;
  log::set_channels("cahce");
  CHECK(capture.count("no channel 'cahce'; there are: guards recompiles fusion kernels cache passes compile") == 1);
}

TEST_CASE("a warning is shown once") {
  CaptureLog capture;
  for (int i = 0; i < 3; ++i) log::warn_once("log_test: the same");
  log::warn_once("log_test: another");
  CHECK(capture.lines == std::vector<std::string>{"[weft] log_test: the same", "[weft] log_test: another"});
}
