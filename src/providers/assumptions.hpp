// What a compilation assumes of a library's answer instead of waiting for it, while other threads ask
// (Providers::add_questions): that the library takes the operation. In: questions, from providers. Out: whether every
// answer was yes. A compilation that assumed wrongly is done again without assumptions, so a graph never depends on how
// soon a library answers.
#pragma once
#include <functional>
#include <utility>
#include <vector>

namespace weft::providers {

class Assumptions {
 public:
  // Of what this thread compiles until the end of the block. Not `allowed`: nothing is assumed there.
  explicit Assumptions(bool allowed);
  ~Assumptions();
  Assumptions(const Assumptions&) = delete;
  Assumptions& operator=(const Assumptions&) = delete;

  // Waits for all answers. What throws there throws here.
  bool hold() const;

  // Those of this thread; null where nothing may be assumed.
  static Assumptions* current();
  // `holds` waits for the answer.
  void add(std::function<bool()> holds) { all_.push_back(std::move(holds)); }

 private:
  std::vector<std::function<bool()>> all_;
  Assumptions* before_;
};

}  // namespace weft::providers
