// Layers, losses, and what is done to whole models. A module is a plain struct of parameters and other modules that can
// be called; nothing is registered.
#pragma once
#include "weft/nn/activation.hpp"
#include "weft/nn/attention.hpp"
#include "weft/nn/cells.hpp"
#include "weft/nn/containers.hpp"
#include "weft/nn/convolution.hpp"
#include "weft/nn/dropout.hpp"
#include "weft/nn/embedding.hpp"
#include "weft/nn/initial.hpp"
#include "weft/nn/linear.hpp"
#include "weft/nn/losses.hpp"
#include "weft/nn/model.hpp"
#include "weft/nn/normalization.hpp"
#include "weft/nn/packed.hpp"
#include "weft/nn/recurrent.hpp"
#include "weft/nn/transformer.hpp"
#include "weft/nn/vision.hpp"
