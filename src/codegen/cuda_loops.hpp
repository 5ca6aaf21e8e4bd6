// Opens the loops of one kernel for a device: which points of its axes belong to a block, to a thread of it, and to a
// pack of neighbouring elements. In: a loop of the nest. Out: its head as text, with names for what its body reads. Who
// derives from it (cuda.cpp) writes the bodies and closes the loops.
#pragma once
#include <string>
#include <vector>

#include "codegen/cuda_writer.hpp"
#include "loop/device_team.hpp"

namespace weft::codegen {

class DeviceLoops : protected DeviceWriter {
 protected:
  using DeviceWriter::DeviceWriter;

  // ---- the grid: what a block walks
  void open_grid();
  // Teams of a block. In a loop over rows: the first one, and how many rows on its next one is.
  int teams() const { return team_.threads / team_.members; }
  std::string first_row() const;
  std::string rows_on() const;
  void count_rows();
  bool counts_rows_ = false;  // which the function's head has done

  // ---- a team of threads
  void open_team();
  void open_team_of_tile(const loop::Statement& it);
  void open_team_of_panel(const loop::Statement& it);
  void open_team_of_sums(const loop::Statement& it);
  // What a loop over a product's panel keeps; -1: it is none.
  static int kept_in(const loop::Statement& loop);
  // The packs of a row that are this thread's.
  void open_positions(std::int64_t first_turn = 0);
  // Those of them that are held.
  void open_held();
  void enter_position();

  // ---- loops of one thread
  void open_serial(const loop::Statement& it);

  // ---- packs
  // From here on `number` says which pack of the vector axis this is.
  void enter_pack(std::string number);
  std::string pack_begin() const;
  // Where this pack begins, and how many of its elements exist.
  void open_pack();
  // `asks_each`: what does not exist is not computed.
  void open_elements(bool asks_each);

  std::int64_t pack_bytes(int i) const {
    return team_.width * static_cast<std::int64_t>(storage_bytes(at(i).dtype, 1));
  }
  // Loads and stores whose packs are moved in one branch: where all of them are whole and begin at words, as nearly all
  // do, nothing parts the loads, which are then on their way together.
  std::vector<int> moved_together(const std::vector<loop::Statement>& body, loop::Statement::Kind kind) const;
  // What is computed of an element beyond the end is not stored: only what reads or writes alone must know.
  bool moves_packs_alone(const std::vector<loop::Statement>& body) const;
  // A thread's loads of a tile are all on their way before the first of them is kept, while there are registers, and
  // where whether they are words is one question for all.
  int turns_of_tile() const { return team_.tile * team_.tile / team_.width / team_.threads; }
  bool reads_tile(const loop::Statement& it);
  // Where memory limits, blocks that come one after the other read and write it in its order, and those that stride
  // drift apart; so it is of rows that a block computes alone. Where arithmetic does, what a block does before its
  // first pack counts, as where packs have rows.
  bool strides() const;

  // A value in the registers of its thread, or in a tile.
  std::string element(bool vector) const;
  std::string kept(int i) const;

  Dim blocks_ = 1;  // of the grid
  bool pack_is_open_ = false;
  std::vector<int> packs_;  // the loads and stores that have their pack here
  const bool scans_ = loop::has_scans(kernel_);

 private:
  void open_grid_of_packs();
  void open_grid_of_tiles();
  void open_grid_of_rows();
  void open_grid_of_columns();

  bool all_exist_ = true;  // every thread that walks a row is at a pack of it
  std::string pack_;       // which pack of the vector axis this is
};

}  // namespace weft::codegen
