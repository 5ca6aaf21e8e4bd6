// What the functions and the layers of normalization share.
#pragma once
#include "record/record.hpp"

namespace weft::nn {

// Running statistics of each channel, [C]; undefined: none.
struct RunningStatistics {
  Tensor &mean, &variance;
};
// Throws where statistics that begin outside of vmap would change inside of it: they are one for all examples. Nothing
// is written before it.
void refuse_shared_statistics(const char* name, const Tensor& running, Loc loc);
// Over all axes but that of the channels, axis 1. In training by x's own statistics, which the running ones follow.
Tensor normalize_batch(const At& input, RunningStatistics running, const Tensor& weight, const Tensor& bias,
                       bool training, At momentum, double eps, Loc loc);
// Over the axes after the channels; `own`: by x's own statistics, else by running ones where there are some.
Tensor normalize_instances(const At& input, RunningStatistics running, const Tensor& weight, const Tensor& bias,
                           bool own, At momentum, double eps, Loc loc);

}  // namespace weft::nn
