// Recurrent layers on samples of several lengths, which PyTorch packs, and such samples as one tensor and back.
#pragma once
#include <vector>

#include "weft/nn/recurrent.hpp"

namespace weft::nn {

// A layer on samples of which sample i has the first lengths[i] steps: what pack_padded_sequence, the layer and
// pad_packed_sequence give in PyTorch. x [L, N, input_size] ([N, L, input_size] with batch_first), lengths integers [N]
// from 1 to L, in any order. What x has after a sample's length changes nothing, not even where it is NaN; the output
// [L, N, D * hidden] is 0 there, h_n and c_n are those of the sample's last step, and the reverse direction begins at
// it. States and dtypes are as of the layer's call. Throws Error on other shapes; a length that is not from 1 to L is
// an error when it is computed.
RecurrentResult packed(const RNN& layer, At x, const Tensor& lengths, const Tensor& h_0 = {});
RecurrentResult packed(const GRU& layer, At x, const Tensor& lengths, const Tensor& h_0 = {});
LstmResult packed(const LSTM& layer, At x, const Tensor& lengths, const Tensor& h_0 = {}, const Tensor& c_0 = {});

// Samples [L_i, ...] as one tensor [L, N, ...] ([N, L, ...] with batch_first), L the greatest length, with
// padding_value after the end of each. All have one dtype and the same sizes after the first. Throws Error on others,
// and where there are none.
Tensor pad_sequence(const std::vector<Tensor>& samples, bool batch_first = false, double padding_value = 0,
                    Loc loc = Loc::current());
// The first lengths[i] steps of each sample of [L, N, ...] ([N, L, ...] with batch_first). Throws Error where there are
// not as many lengths as samples, and where one is not from 0 to L.
std::vector<Tensor> unpad_sequence(At padded, const std::vector<std::int64_t>& lengths, bool batch_first = false);

}  // namespace weft::nn
