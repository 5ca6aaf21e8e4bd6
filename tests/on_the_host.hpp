// Suites that make their tensors anywhere run twice: on the host, and, with WEFT_TEST_FACTORIES=cuda, with every tensor
// whose device they don't name on cuda:0 (main.cpp). A case that can't hold there says why, as its need:
//   TEST_CASE("..." * needs(order_of_least_memory))
#pragma once
#include <cstddef>
#include <string>

#include "record/default_device.hpp"
#include "tests/needs.hpp"
#include "weft/cuda.hpp"

namespace weft::test {

inline bool on_the_host() { return default_device == Device::cpu(); }

// A check that fails on a device is an error of who waits for the device.
inline void wait_for_device() {
  if (!test::on_the_host()) cuda::synchronize(default_device);
}

// What a text would be on the host: types of a device's tensors name it.
inline std::string without_device(std::string text) {
  const std::string device = "@cuda:0";
  for (std::size_t at; !test::on_the_host() && (at = text.find(device)) != std::string::npos;)
    text.erase(at, device.size());
  return text;
}

// Steps that share no memory run side by side on a device where they take less than 64 MB (schedule/order.cpp), and its
// temporaries below 1 MB overwrite none (schedule/places.hpp): what these suites plan says nothing about memory there.
inline bool in_least_memory() { return test::on_the_host(); }
inline std::string order_of_least_memory() {
  return in_least_memory() ? "" : "a device orders steps by memory from 64 MB on, and these take less";
}

}  // namespace weft::test
