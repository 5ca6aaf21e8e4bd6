// Which code runs on which device.
#include "runtime/device_target.hpp"

#include <doctest/doctest.h>

using namespace weft::runtime;

TEST_CASE("code runs on devices of its major number, PTX on later ones, and what is for one device on that alone") {
  const auto runs = [](const char* name, int major, int minor) { return device_target(name)->runs_on({major, minor}); };
  CHECK(runs("sm_80", 8, 0));
  CHECK(runs("sm_80", 8, 9));
  CHECK_FALSE(runs("sm_89", 8, 6));
  CHECK_FALSE(runs("sm_80", 9, 0));
  CHECK(runs("sm_90a", 9, 0));
  CHECK_FALSE(runs("sm_90a", 10, 0));
  CHECK_FALSE(runs("sm_100", 9, 0));
  CHECK(runs("compute_80", 9, 0));
  CHECK(runs("compute_80", 12, 1));
  CHECK_FALSE(runs("compute_90", 8, 9));
  CHECK(device_target("sm_70") == nullptr);
  CHECK(device_target("") == nullptr);
}

TEST_CASE("the best code for a device is the latest that it runs, before PTX") {
  const auto best = [](int major, int minor) { return target_for({major, minor})->name; };
  CHECK(best(8, 0) == "sm_80");
  CHECK(best(8, 7) == "sm_86");
  CHECK(best(8, 9) == "sm_89");
  CHECK(best(9, 0) == "sm_90a");
  CHECK(best(10, 3) == "sm_100");
  CHECK(best(11, 0) == "compute_100");
  CHECK(text_target_for({9, 0})->name == "compute_90");
  CHECK(target_for({7, 5}) == nullptr);
  CHECK(device_target_names().find("sm_90a") != std::string::npos);
}

TEST_CASE("a thread compiles for a device in the block of a CompilingForDevice") {
  CHECK(current_device_target() == nullptr);
  {
    const CompilingForDevice outer(device_target("sm_80"));
    {
      const CompilingForDevice inner(nullptr);
      CHECK(current_device_target() == nullptr);
    }
    CHECK(current_device_target() == device_target("sm_80"));
  }
  CHECK(current_device_target() == nullptr);
}
