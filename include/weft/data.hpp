// Data from files, in shuffled batches, with a progress bar.
//   auto train = data::fashion_mnist(data::Split::train);
//   for (auto [x, y] : data::batches(train, 64, rng)) progress.tick(step(model, opt, x, y));
#pragma once
#include <vector>

#include "weft/random.hpp"
#include "weft/tensor.hpp"

namespace weft::data {

// An IDX file (LeCun's format for MNIST), compressed with gzip or not, as a tensor of its sizes: u8, i32, f32 or f64
// (signed bytes and shorts become i32). Throws Error that names the file: it is missing, no IDX file, of another
// element type, shorter or longer than its header says, or damaged.
Tensor read_idx(const char* path, Loc loc = Loc::current());

// Examples: row i of `x` belongs to row i of `y`.
struct Dataset {
  Tensor x, y;
};

enum class Split : std::uint8_t { train, test };
// Fashion-MNIST (Xiao and others 2017): x f32[n, 784], normalized to mean 0 and deviation 1 over the training images,
// y i64[n] in [0, 10). Read from `folder`, else from $WEFT_FASHION_MNIST, else from where Debian's package
// dataset-fashion-mnist puts it, /usr/share/datasets/fashion-mnist.
Dataset fashion_mnist(Split split, const char* folder = nullptr, Loc loc = Loc::current());
// What the labels mean.
const char* fashion_mnist_class(std::int64_t label);

struct Batch {
  Tensor x, y;
};
struct BatchOptions {
  bool shuffle = true;
  bool keep_rest =
      false;  // whether rows that do not fill a batch make a last, smaller one: another shape to compile for
};

// One pass over a dataset, in an order that is drawn when the pass begins.
class Batches {
 public:
  Batches(const Dataset& dataset, std::int64_t size, Generator& generator, BatchOptions options, Loc loc);
  std::int64_t count() const;  // of batches

  struct End {};
  class Iterator {
   public:
    Batch operator*() const { return batches_->batch(position_); }
    Iterator& operator++() {
      ++position_;
      return *this;
    }
    bool operator!=(End) const { return position_ < batches_->count(); }

   private:
    friend class Batches;
    explicit Iterator(const Batches* batches) : batches_(batches) {}
    const Batches* batches_;
    std::int64_t position_ = 0;
  };
  Iterator begin() const { return Iterator(this); }
  End end() const { return {}; }

 private:
  Batch batch(std::int64_t position) const;
  Dataset dataset_;
  std::int64_t size_;
  std::int64_t rows_;
  BatchOptions options_;
  std::vector<std::int64_t> order_;  // empty: as they stand
  Loc loc_;
};
Batches batches(const Dataset& dataset, std::int64_t size, Generator& generator = default_generator(),
                BatchOptions options = {}, Loc loc = Loc::current());

}  // namespace weft::data

namespace weft {

// A bar on standard error that a loop ticks: steps done, their rate, the time that is left, and a number (the loss). It
// reads the number only when it draws, ten times a second, so that ticking waits for no computation. Where standard
// error is no terminal, it writes a plain line at each tenth of the way.
class Progress {
 public:
  Progress(const char* label, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  void tick();
  void tick(const Tensor& number);

 private:
  void draw(bool last);

  char label_[64];
  std::int64_t total_, done_ = 0, shown_tenths_ = 0;
  double start_, drawn_ = 0;  // seconds
  bool terminal_;
  Tensor number_;
};

}  // namespace weft
