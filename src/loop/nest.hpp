// The loops of a kernel: a tree of statements. In: a kernel, which says what is computed at a point of its axes, and
// its analysis. Out: which loops enclose what, in which order, for the host or for a device. A generator prints
// the tree. For a device it also chooses how threads share the points of a tile, and how many blocks there are.
//
// The trees of the two targets differ in the roles of their loops and in how a reduction is held; what a walk computes,
// reads back or keeps comes from the one analysis.
#pragma once
#include <memory>
#include <vector>

#include "base/reduce_chunks.hpp"
#include "loop/analysis.hpp"

namespace weft::loop {

enum class Role : std::uint8_t {
  pool,    // host: its turns are shared out among the threads of a pool
  grid,    // device: its turns are shared out among teams of threads
  team,    // device: its turns are shared out among the threads of a team
  held,    // device: the same of the first Team::held turns of each thread, which are written out
  serial,  // one thread, or every thread of a team, takes all turns in order
  lanes,   // a turn is one vector of neighbours on the host, one element of a thread's pack on a device
};

// An axis that a loop walks. Piece > 1: a turn of the loop is so many neighbours, which loops inside it walk.
struct LoopAxis {
  int axis = -1;
  std::int64_t piece = 1;
};

// Memory of a kernel's own, which holds the values of an instruction at some points of its axes between loops.
enum class Scope : std::uint8_t {
  registers,  // of a thread
  shared,     // of a team; on the host a thread's, in the first-level cache
};
struct Local {
  int instruction = -1;
  Scope scope = Scope::registers;
  std::vector<LoopAxis> over;  // its axes, the last one fastest: all of an axis, or a piece of it that a loop walks
  bool fetched = false;  // packs of a load, which asynchronous copies put there; of rows that a unit walks in order
                         // those of two rows, which take turns
};

struct Statement {
  enum class Kind : std::uint8_t {
    loop,
    value,       // the instruction, computed
    reload,      // its value, read from where the store `from` has put it
    recall,      // its value, read from its local memory
    keep,        // its value is put into its local memory
    store,       // a store
    start,       // the state of a reduction or a scan begins
    clear,       // ... and begins again
    open,        // the columns of the lanes' state are taken into registers
    accumulate,  // the reduction's operand at this point is added
    put,         // ... and put back
    close,       // the end of a chunk
    join,        // the threads of a team join what each has; neighbouring joins are one. Of a scan: what the threads
                 // before this one have
    result,      // the reduction has its value
    barrier,     // the threads of a team wait for each other
    ask,         // the predicate is read: where it is not 0, nothing is stored from here on
    fetch,       // the team's packs of a load start on their way to shared memory: those of the row; in front of a loop
                 // over rows those of the first, inside of it those of the next
    arrive,      // those of this row are there
    multiply,    // a product's panels are multiplied into its tile
  };
  Kind kind = Kind::value;
  int instruction = -1;
  int from = -1;
  Role role = Role::serial;          // loop
  std::vector<LoopAxis> axes;        // loop: walked as one, the last axis fastest
  std::vector<Statement> body = {};  // loop
};

// How a reduction or a scan is held while it is walked.
enum class State : std::uint8_t {
  none,
  row,      // lanes, which are folded at the end; device: a register of each thread, which the team joins
  packed,   // a row in several runs: elements are packed into whole vectors first
  narrow,   // rows of narrow columns: elements are packed, and chunks are folded side by side
  lanes,    // the columns of the lanes, in registers
  columns,  // the columns of a strip, or of the whole row, in the first-level cache; device: registers of each thread
  tile,     // the rows and columns of a product's tile, in the first-level cache; device: registers of each thread
};

// How a device is used.
struct Team {
  int width = 1;    // elements of the vector axis in a thread's pack; of columns, in their walk alone
  int members = 1;  // threads that share a row, or a column
  int columns = 1;  // columns that lie side by side
  int threads = 256;
  std::int64_t turns = 0;   // packs that a thread has in a row, where values are kept in registers, and of columns the
                            // rows of packs that are on their way; else 0
  std::int64_t held = 0;    // of a row in shared memory: packs of a thread, its first ones, whose values stay in its
                            // registers
  std::int64_t shared = 0;  // bytes of shared memory that hold fetched packs
  int across = -1;          // the other axis of tiles: one along which memory is closer than along the lanes, and which
                            // a team turns, or the rows of a product
  int tile = 0;             // their points each way
  bool in_blocks = false;   // what is read across is turned in registers, in blocks of a pack's width each way
  int blocks = 0;           // that a multiprocessor is to hold at once; 0: as it comes
  int ahead = 0;            // packs of a row that a thread has asked for while it uses as many before them; 0: none
};

struct Nest {
  Analysis analysis;
  std::vector<State> states;  // by instruction
  std::vector<Local> locals;
  Team team;
  std::vector<Statement> body;
  std::vector<std::vector<Step>> held_walks;  // as Analysis::walks, of the packs that are held
  // Host: the loops above keep rows whose length is symbolic, of at most KeepLimits::elements; these serve longer rows.
  // Null: the loops above serve all.
  std::shared_ptr<const Nest> of_long_rows = nullptr;

  const Local* local(int instruction) const;  // that holds its values; null: none
  bool is_fetched(int load) const;
};

Nest host_nest(const Kernel& kernel);
Nest device_nest(const Kernel& kernel);

// A load or store whose neighbours in memory are neighbours on this outer axis, and not on the lanes.
bool runs_across(const Kernel& kernel, const Analysis& analysis, int instruction, int axis);
// The load or store moves neighbours on the lanes, all of them: no predicate tells them apart.
bool is_contiguous(const Kernel& kernel, const Analysis& analysis, int instruction);
// The same in rows, of neighbours in reverse: the next lane's element lies in front of this one's.
bool is_reversed(const Kernel& kernel, const Analysis& analysis, int instruction);

// A line a statement, for people and tests.
std::string to_text(const Kernel& kernel, const Nest& nest);

// What the builders of both targets are made of.
class Nester {
 protected:
  explicit Nester(const Kernel& kernel) : kernel_(kernel) {}

  const Instruction& at(int i) const { return kernel_.body[static_cast<std::size_t>(i)]; }
  const Facts& facts(int i) const { return nest_.analysis.facts[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(kernel_.body.size()); }
  Dim extent(int axis) const { return kernel_.axes[static_cast<std::size_t>(axis)].extent; }
  bool is_once(int i) const { return facts(i).axes == 0 && facts(i).phase == 0; }
  // Outside of the walks and off the lanes.
  bool is_uniform(int i) const { return !facts(i).inner && !facts(i).vector; }
  static std::vector<LoopAxis> walked(const std::vector<int>& axes);
  const std::vector<Step>& walk(int phase) const { return nest_.analysis.walks[static_cast<std::size_t>(phase)]; }
  std::vector<int> reductions_of(int phase) const;
  std::vector<int> scans_of(int phase) const;  // those that the walk computes

  void add(Statement::Kind kind, int instruction = -1, int from = -1) {
    block_->push_back({kind, instruction, from, Role::serial, {}, {}});
  }
  // A value, a store or a result in place.
  void compute(int i);
  void step(const Step& step);
  // What the analysis keeps between walks over the inner axes.
  void keep_values(Scope scope);
  // The state of a scan begins, or begins again in a later walk.
  void start_scans(int phase, State state);
  void hold(int reduction, State state) { nest_.states[static_cast<std::size_t>(reduction)] = state; }
  template <class Body>
  void loop(Role role, std::vector<LoopAxis> axes, Body body) {
    Statement statement{Statement::Kind::loop, -1, -1, role, std::move(axes), {}};
    std::vector<Statement>* const outside = block_;
    block_ = &statement.body;
    body();
    block_ = outside;
    block_->push_back(std::move(statement));
  }

  const Kernel& kernel_;
  Nest nest_;
  std::vector<Statement>* block_ = &nest_.body;
};

}  // namespace weft::loop
