// Progress of a loop, on standard error.
//   for (auto epoch = progress(train, "epoch 1"); auto [x, y] : epoch) epoch.show(step(model, opt, x, y));
#pragma once
#include <utility>

#include "weft/tensor.hpp"

namespace weft {

// A bar that a loop ticks: steps done, their rate, the time that is left, and a number (the loss). It reads the number
// only when it draws, ten times a second, so that ticking waits for no computation. Where standard error is no
// terminal, it writes a plain line at each tenth of the way, and after ten seconds without one.
class Progress {
 public:
  // The label, of at most 63 bytes, is shown before the bar; `total` steps are expected. The time runs from here.
  Progress(const char* label, std::int64_t total);
  ~Progress();  // draws a last time, and ends the line

  Progress(const Progress&) = delete;
  void show(const Tensor& number) { number_ = number; }  // from the next time on that it draws
  void tick();                                           // one more step is done
  // One more step is done; shows the number.
  void tick(const Tensor& number) {
    show(number);
    tick();
  }

 private:
  void draw(bool last);

  char label_[64];
  std::int64_t total_, done_ = 0, shown_tenths_ = 0, shown_ = 0;
  double start_, drawn_;  // seconds
  bool terminal_;
  Tensor number_;
};

// A range with size(), once, with a bar that each step ticks.
template <class R>
class ProgressRange {
 public:
  // progress(range, label) makes it.
  template <class Given>
  ProgressRange(Given&& range, const char* label)
      : range_(static_cast<Given&&>(range)), bar_(label, static_cast<std::int64_t>(range_.size())) {}
  void show(const Tensor& number) { bar_.show(number); }  // beside the bar, from the next time on that it draws

  // The range's iterator, which ticks the bar.
  template <class Inner>
  struct Iterator {
    Inner inner;                                         // the range's own
    Progress* bar;                                       // of the range
    decltype(auto) operator*() const { return *inner; }  // the range's element
    // Moves on, and ticks the bar.
    Iterator& operator++() {
      ++inner;
      bar->tick();
      return *this;
    }
    // Whether the range has another element.
    template <class End>
    bool operator!=(const End& end) const {
      return !(inner == end);
    }
  };
  // Begins a pass over the range: may be called once.
  auto begin() { return Iterator<decltype(range_begin())>{range_begin(), &bar_}; }
  auto end() { return range_.end(); }  // the range's own

 private:
  auto range_begin() { return range_.begin(); }
  R range_;
  Progress bar_;
};
// One that has a name is referred to.
template <class R>
ProgressRange<R> progress(R&& range, const char* label) {
  return {static_cast<R&&>(range), label};
}

}  // namespace weft
