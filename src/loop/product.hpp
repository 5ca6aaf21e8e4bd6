// Sums of products of integers, which are the same in any order. Runs on a kernel whose axes are final, before its
// loops are made. In: a kernel. Out: the same values; a sum over an inner axis of what differs from row to row times
// what differs from lane to lane is a product of panels (loop/product_nest.hpp).
#pragma once
#include "loop/kernel.hpp"

namespace weft::loop {

void find_product(Kernel& kernel);

}  // namespace weft::loop
