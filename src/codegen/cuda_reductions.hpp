// What the threads of a team add up and join in a kernel for a device, and which of them stores it. In: reductions and
// scans of the nest. Out: their types, states and results as text. cuda.cpp writes the loops that hold them.
#pragma once
#include <string>
#include <vector>

#include "codegen/cuda_packs.hpp"

namespace weft::codegen {

class DeviceReductions : protected DevicePacks {
 protected:
  using DevicePacks::DevicePacks;

  bool packs_columns() const { return analysis_.form == Form::columns && team_.tile == 0 && team_.width > 1; }

  // The type of what a thread holds of a reduction or a scan.
  std::string reduction_type(int i) const;
  // Columns that a thread holds itself have a state for each of its elements.
  std::string registers(int i) const;
  // A scan of a chunk begins with what is before the chunk.
  void begin_scan(int i);
  void accumulate(int i);
  // The element of a scan here.
  std::string scanned(int i) const;
  void join(const std::vector<int>& reductions);
  std::string result(int i) const;

  // Who stores what all threads of a team have. A predicate is asked here and not where the kernel begins: what it is
  // has long been read then.
  std::string guard() const;
  std::string team_barrier() const;

 private:
  loop::State state(int i) const { return nest_.states[static_cast<std::size_t>(i)]; }
  std::string accumulated(int i) const;
  std::string held(int i) const;
  // The operand of a reduction or a scan, as it is added.
  std::string operand(int i) const;
  // The load whose packs it is the greatest or the least of, two elements at a time, as they are read in its walk; or
  // -1.
  int load_of_twos(int i) const;
  std::string storing_threads() const;
};

}  // namespace weft::codegen
