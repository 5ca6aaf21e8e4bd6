// Packs that a kernel for a device asks for before it uses the first of them: of the next row, of a row that a later
// walk reads more of, and of a row of which a thread has several. In: its loads (loop/loads_ahead.hpp). Out: the text
// that asks for them. cuda.cpp writes the loops that use them.
#pragma once
#include <string>
#include <vector>

#include "codegen/cuda_reductions.hpp"
#include "loop/loads_ahead.hpp"

namespace weft::codegen {

class DeviceReadsAhead : protected DeviceReductions {
 protected:
  using DeviceReductions::DeviceReductions;

  // ---- rows whose packs are asked for ahead
  // What is read before the kernels in front have ended: of that they write nothing.
  bool begins_early() const;
  std::string packs_of(const char* name, int load) const;
  std::string asked(const std::string& row, const std::string& first, const char* name) const;
  void open_turn_ahead();
  // Whether packs are words is asked once: a branch at each of them would wait for it.
  void ask_for_first_packs();

  // ---- a row of which a later walk reads more
  void ask_for_later_packs();

  // ---- a row of which a thread has several packs
  // Whether packs are words is asked once, in front of them: all of them are then on their way together.
  void ask_for_row();

  const std::vector<int> ahead_ = loop::loads_ahead(kernel_, analysis_);
  const std::vector<int> later_ = loop::loads_of_later_walks(loop::choose_team(kernel_), kernel_);
  // Empty once the first walk is written: later walks find what they need in registers.
  std::vector<int> row_ = loop::loads_of_whole_row(loop::choose_team(kernel_), kernel_);
};

}  // namespace weft::codegen
