// Data from files, in shuffled batches, with a progress bar.
//   auto train = data::fashion_mnist(data::Split::train) | data::shuffle(rng) | data::batch(64);
//   for (auto epoch = progress(train, "epoch 1"); auto [x, y] : epoch) epoch.show(step(model, opt, x, y));
#pragma once
#include <string>

#include "weft/data/image.hpp"
#include "weft/data/pipeline.hpp"
#include "weft/data/progress.hpp"
#include "weft/data/table.hpp"
#include "weft/data/text.hpp"

namespace weft::data {

// An IDX file (LeCun's format for MNIST), compressed with gzip or not, as a tensor of its sizes: u8, i32, f32 or f64
// (signed bytes and shorts become i32). Throws Error that names the file: it is missing, no IDX file, of another
// element type, shorter or longer than its header says, or damaged.
Tensor read_idx(const std::string& path, Loc loc = Loc::current());

// Examples: row i of `x` belongs to row i of `y`.
struct Dataset {
  Tensor x;  // [n, ...]: inputs
  Tensor y;  // [n, ...]: what belongs to them, labels say
};

enum class Split : std::uint8_t { train, test };  // the part of a data set
// Fashion-MNIST (Xiao and others 2017): x f32[n, 784], normalized to mean 0 and deviation 1 over the training images,
// y i64[n] in [0, 10). Read from `folder`, else from $WEFT_FASHION_MNIST, else from where Debian's package
// dataset-fashion-mnist puts it, /usr/share/datasets/fashion-mnist.
Dataset fashion_mnist(Split split, const char* folder = nullptr, Loc loc = Loc::current());
// What the labels mean.
const char* fashion_mnist_class(std::int64_t label);

}  // namespace weft::data
