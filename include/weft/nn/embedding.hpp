// Tables of vectors. An index that is no row is an error.
//
// With `sparse` the gradient of a table stays the rows that were read, from value_and_grad to SGD and Adam, whose step
// then costs these rows and not the table (weft/optim.hpp). It has the type and the value of the dense gradient, and
// whatever else reads it (a sum with a gradient that is dense, a norm that it is clipped by, the result of a compiled
// function) has that one.
#pragma once
#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft::nn {

inline constexpr std::int64_t no_padding = INT64_MIN;  // no index is padding

struct EmbeddingOptions {                 // of Embedding
  std::int64_t padding_idx = no_padding;  // this row starts at 0 and gets no gradient; negative: from the end
  bool sparse = false;                    // the gradient stays rows
  Options options = {};
};
// Rows of weight [num_embeddings, embedding_dim] at integers [...]: [..., embedding_dim]. With `sparse` the gradient of
// the weight stays rows.
Tensor embedding(At index, At weight, std::int64_t padding_idx = no_padding, bool sparse = false);
// Starts normal.
struct Embedding {
  Embedding() = delete;  // weft: it is made as nn::Embedding(num_embeddings, embedding_dim)
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, EmbeddingOptions options = {},
            Loc loc = Loc::current());
  // The rows at integers [...]: [..., embedding_dim]. Throws Error on other dtypes; an index that is no row is an
  // error.
  Tensor operator()(At index) const;
  // Draws the weight anew from a normal of mean 0 and deviation 1; the padding's row becomes 0.
  void initialize(Generator& generator);

  Param weight;              // [num_embeddings, embedding_dim]
  std::int64_t padding_idx;  // the row that gets no gradient; no_padding: none
  bool sparse_gradient;      // the gradient stays rows. No part of what io::save writes
  WEFT_MEMBERS(weight, padding_idx, sparse_gradient)
};

enum class BagMode : std::uint8_t { mean, sum, max };  // what is made of a bag's rows
struct BagOptions {                                    // of embedding_bag
  Tensor offsets = {};                    // where each bag begins in a vector of indices: ascending, the first is 0
  BagMode mode = BagMode::mean;           // what is made of a bag's rows
  Tensor per_sample_weights = {};         // as the indices: what each row is multiplied with. With mode sum alone
  bool include_last_offset = false;       // the last offset is the number of indices, the end of the last bag
  std::int64_t padding_idx = no_padding;  // indices of this row belong to no bag
  bool sparse = false;                    // the gradient of the weight stays rows
};
// The mean, sum or greatest of the rows of each bag: indices [bags, n] are bags of n; a vector of indices is cut at
// offsets [bags]. [bags, embedding_dim]; a bag of nothing gives 0. Throws, or stops the call, where offsets do not
// ascend from 0 or leave the indices.
Tensor embedding_bag(At index, At weight, const BagOptions& options = {});

struct EmbeddingBagOptions {  // of EmbeddingBag
  BagMode mode = BagMode::mean;
  bool include_last_offset = false;
  std::int64_t padding_idx = no_padding;  // this row starts at 0, its indices belong to no bag; negative: from the end
  bool sparse = false;                    // the gradient stays rows
  Options options = {};
};
struct EmbeddingBag {       // embedding_bag, with its weight
  EmbeddingBag() = delete;  // weft: it is made as nn::EmbeddingBag(num_embeddings, embedding_dim)
  EmbeddingBag(std::int64_t num_embeddings, std::int64_t embedding_dim, EmbeddingBagOptions options = {},
               Loc loc = Loc::current());
  // As embedding_bag: indices [bags, n], or a vector of indices and offsets [bags]; [bags, embedding_dim].
  Tensor operator()(At index, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;
  // Draws the weight anew from a normal of mean 0 and deviation 1; the padding's row becomes 0.
  void initialize(Generator& generator);

  Param weight;  // [num_embeddings, embedding_dim]
  BagMode mode;
  bool include_last_offset;
  std::int64_t padding_idx;  // indices of this row belong to no bag; no_padding: none
  bool sparse_gradient;      // the gradient stays rows. No part of what io::save writes
  WEFT_MEMBERS(weight, mode, include_last_offset, padding_idx, sparse_gradient)
};

}  // namespace weft::nn
