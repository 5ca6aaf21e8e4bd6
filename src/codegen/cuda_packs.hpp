// Packs of neighbouring elements in a kernel for a device: how a thread's packs are read from memory, turned in
// registers, and fetched into shared memory. In: instructions of the nest. Out: their text. cuda.cpp writes the loops
// that hold them.
#pragma once
#include <string>
#include <vector>

#include "codegen/cuda_loops.hpp"

namespace weft::codegen {

class DevicePacks : protected DeviceLoops {
 protected:
  using DeviceLoops::DeviceLoops;

  // A block of as many packs as a pack has elements, which are turned. Packs of a row of the tile lie by the number of
  // its block, so that eight threads, whether they write a column of packs or read a row, have all banks.
  void write_blocks_of_tile(const loop::Statement& it);
  // This thread's pack of the tile, after that.
  std::string in_tile(int i) const;
  std::string pack_type(int i) const;
  std::string pack_place(int i) const;
  // With a predicate, which then is one for all of the pack.
  std::string read_pack(int i) const;
  // Of whole packs that begin at words, or that lie apart.
  std::string read_whole_pack(int i) const;
  void ask_whether_words(const std::vector<int>& loads, const std::vector<int>& stores);
  // Whether a number that is compared with positions, such as a label, is one of the pack's: nearly all packs have
  // none.
  std::string numbers_among(const std::vector<loop::Statement>& body) const;
  // ---- packs in shared memory
  // Of rows that a unit walks in order there are two, which take turns.
  bool is_ahead() const;
  void packs_in_shared_memory();
  // The pack of this thread's position in this row, or in the next.
  std::string in_shared(int i, bool next = false) const;
  void fetch(int i);
};

}  // namespace weft::codegen
