// Which code runs on which device, with which instructions, and what kernels are laid out for.
#include "base/device_target.hpp"

#include <doctest/doctest.h>

using namespace weft;

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

TEST_CASE("an instruction is in code for its first capability and later ones, but for those of one device") {
  const auto has = [](const char* name, DeviceInstruction instruction) {
    return device_target(name)->has(instruction);
  };
  CHECK(has("sm_89", DeviceInstruction::mma_float8));
  CHECK(has("sm_120", DeviceInstruction::mma_float8));
  CHECK_FALSE(has("sm_86", DeviceInstruction::mma_float8));
  for (const DeviceInstruction of_hopper : {DeviceInstruction::bulk_copy, DeviceInstruction::tensor_copy,
                                            DeviceInstruction::cluster, DeviceInstruction::dependent_launch}) {
    for (const char* name : {"sm_90", "sm_90a", "sm_100", "compute_90", "compute_120"}) CHECK(has(name, of_hopper));
    for (const char* name : {"sm_80", "sm_89", "compute_80", "compute_89"}) CHECK_FALSE(has(name, of_hopper));
    CHECK(ComputeCapability{9, 0}.has(of_hopper));
    CHECK_FALSE(ComputeCapability{8, 9}.has(of_hopper));
  }
  CHECK(has("sm_90a", DeviceInstruction::wgmma));
  for (const char* name : {"sm_80", "sm_89", "sm_90", "sm_100", "sm_120", "compute_90", "compute_100"})
    CHECK_FALSE(has(name, DeviceInstruction::wgmma));
  CHECK_FALSE(ComputeCapability{9, 0}.has(DeviceInstruction::wgmma));
}

// Other numbers are other kernels, whose sums have another order: results of a GPU change.
TEST_CASE("kernels are laid out for what all targets have") {
  CHECK(device_layout::multiprocessors == 132);
  CHECK(device_layout::registers == 65536);
  CHECK(device_layout::threads == 1024);
  CHECK(device_layout::shared_of_block == 99 << 10);
  for (const DeviceTarget& target : detail::device_targets) {
    CHECK(target.registers >= device_layout::registers);
    CHECK(target.shared_of_block >= device_layout::shared_of_block);
  }
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
