// Dropout. Masks are drawn from the default generator unless another one is given, so they differ from call to call, in
// compiled functions too, and depend on its seed. Outside of training all give x.
#pragma once
#include "weft/random.hpp"

namespace weft {

// As dropout(x, p, generator) in training, else x, and nothing is drawn.
Tensor dropout(At x, double p, bool training, Generator& generator = default_generator());

namespace nn {

using weft::dropout;
// Whole channels become zero with this probability, the others are divided by 1 - p: one draw for each [N, C] of x
// [N, C, ...]; of an x without a batch, [C, ...] of `spatial` + 1 axes, for each C. Throws on other numbers of axes.
Tensor dropout_channels(At x, double p, bool training, int spatial, Generator& generator = default_generator());
// Keeps mean 0 and variance 1 (Klambauer and others 2017): dropped elements take selu's value at -infinity, then all
// are scaled and moved. Of channels: one draw for each [N, C].
Tensor alpha_dropout(At x, double p = 0.5, bool training = false, Generator& generator = default_generator());
Tensor feature_alpha_dropout(At x, double p = 0.5, bool training = false, Generator& generator = default_generator());

namespace detail {
double check_dropout(const char* name, double p, Loc loc);
}  // namespace detail
// These functions as layers, with their probability p: they draw while `training`, and else give x.
#define WEFT_DROPOUT(Name, call)                                                                               \
  struct Name {                                                                                                \
    explicit Name(double rate = 0.5, Loc loc = Loc::current()) : p(detail::check_dropout(#Name, rate, loc)) {} \
    Tensor operator()(At x, Generator& generator = default_generator()) const { return call; }                 \
    double p;                                                                                                  \
    bool training = true;                                                                                      \
    WEFT_MEMBERS(p, training)                                                                                  \
  };
WEFT_DROPOUT(Dropout, dropout(x, p, training, generator))
WEFT_DROPOUT(Dropout1d, dropout_channels(x, p, training, 1, generator))
WEFT_DROPOUT(Dropout2d, dropout_channels(x, p, training, 2, generator))
WEFT_DROPOUT(Dropout3d, dropout_channels(x, p, training, 3, generator))
WEFT_DROPOUT(AlphaDropout, alpha_dropout(x, p, training, generator))
WEFT_DROPOUT(FeatureAlphaDropout, feature_alpha_dropout(x, p, training, generator))
#undef WEFT_DROPOUT

}  // namespace nn
}  // namespace weft
