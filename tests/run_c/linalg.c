/* linalg PACKAGE: factors a matrix with the part of Weft that the program has asked for. */
#include <stdio.h>

#include "weft_run.h"

const weft_step* const weft_linked_steps[] = {&weft_step_kernel, &weft_step_check, &weft_step_linear_algebra,
                                             NULL};

int main(int count, char** names) {
  float elements[9] = {4, 0, 0, 0, 9, 0, 0, 0, 16};
  int64_t shape[2] = {3, 3};
  weft_tensor x = {0};
  const weft_tensor* arguments[1] = {&x};
  weft_package* package;
  weft_function* function;
  weft_managed_tensor* result;
  if (count != 2) return 2;
  x.data = elements;
  x.device.device_type = 1;
  x.ndim = 2;
  x.dtype.code = 2, x.dtype.bits = 32, x.dtype.lanes = 1;
  x.shape = shape;
  if (weft_package_open(names[1], &package) || weft_package_function(package, "f", &function) ||
      weft_function_call(function, WEFT_ANY_KIND, arguments, 1, &result, 1)) {
    fprintf(stderr, "%s\n", weft_run_message());
    return 1;
  }
  const float* const y = result->dl_tensor.data;
  const int is_right = y[0] == 2 && y[4] == 3 && y[8] == 4 && y[1] == 0;
  result->deleter(result);
  if (!is_right) fprintf(stderr, "the results differ\n");
  return !is_right;
}
