// What Param::shard and Buffer::shard number: of which tensor a process holds a part (distributed::fully_shard). The
// elements of the tensor in row-major order are cut into as many parts of one length as there are processes, the last
// ones filled up with zeros; each process has the one of its rank, [length]. Equal descriptions have one number, so
// models that are sharded alike share what is compiled for one.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct Shard {
  std::vector<std::int64_t> sizes;  // of the whole tensor
  int processes = 1;
  bool begins = true;    // it is the first of those that are gathered together, in the order of the model's leaves
  bool reshards = true;  // it is gathered again for the derivative, and not held until then
  std::int64_t elements() const;
  std::int64_t length() const { return (elements() + processes - 1) / processes; }  // of a part
  bool operator==(const Shard&) const = default;
};

std::uint32_t intern_shard(const Shard& shard);  // from 1
const Shard& interned_shard(std::uint32_t number);
std::string to_string(const Shard& shard);  // "part of [12,32] in 4 processes"

}  // namespace weft
