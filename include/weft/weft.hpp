// Everything: tensors and operations, linear algebra and Fourier transforms, random numbers, compile(), gradients,
// scalar expressions, layers, optimizers, data, files.
#pragma once
#include "weft/compile.hpp"
#include "weft/convolution.hpp"
#include "weft/data.hpp"
#include "weft/explain.hpp"
#include "weft/expr.hpp"
#include "weft/fft.hpp"
#include "weft/grad.hpp"
#include "weft/io.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/ops.hpp"
#include "weft/optim.hpp"
#include "weft/random.hpp"
#include "weft/tensor.hpp"
#include "weft/tree.hpp"
