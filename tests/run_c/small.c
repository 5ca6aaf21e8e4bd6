/* small PACKAGE VALUES: the smallest program that runs an MLP of a package, linked for its two kinds of steps alone. It
   compares what writer.cpp has written. */
#include <stdio.h>
#include <string.h>

#include "weft_run.h"

const weft_step* const weft_linked_steps[] = {&weft_step_kernel, &weft_step_packed_matmul, NULL};

enum { parameters = 4, rows = 4, columns = 8, classes = 3 };
static float weight_in[16 * 8], bias_in[16], weight_out[3 * 16], bias_out[3], x[rows * columns], y[rows * classes];

int main(int count, char** names) {
  static const size_t sizes[] = {sizeof weight_in, sizeof bias_in, sizeof weight_out, sizeof bias_out, sizeof x, sizeof y};
  static int64_t shapes[][2] = {{16, 8}, {16, 0}, {3, 16}, {3, 0}, {rows, columns}};
  float* const memory[] = {weight_in, bias_in, weight_out, bias_out, x, y};
  weft_tensor tensors[parameters + 1];
  const weft_tensor* arguments[parameters + 1];
  weft_package* package;
  weft_function* forward;
  weft_managed_tensor* result;
  FILE* values = count == 3 ? fopen(names[2], "rb") : NULL;
  if (!values) return 2;
  for (int i = 0; i < parameters + 2; ++i)
    if (fread(memory[i], 1, sizes[i], values) != sizes[i]) return 2;
  fclose(values);
  memset(tensors, 0, sizeof tensors);
  for (int i = 0; i < parameters + 1; ++i) {
    tensors[i].data = memory[i];
    tensors[i].device.device_type = 1;
    tensors[i].ndim = i == 1 || i == 3 ? 1 : 2;
    tensors[i].dtype.code = 2, tensors[i].dtype.bits = 32, tensors[i].dtype.lanes = 1;
    tensors[i].shape = shapes[i];
    arguments[i] = &tensors[i];
  }
  if (weft_package_open(names[1], &package) || weft_package_function(package, "forward", &forward) ||
      weft_function_call(forward, WEFT_ANY_KIND, arguments, parameters + 1, &result, 1)) {
    fprintf(stderr, "%s\n", weft_run_message());
    return 1;
  }
  if (memcmp(result->dl_tensor.data, y, sizeof y) != 0) {
    fprintf(stderr, "the results differ\n");
    return 1;
  }
  result->deleter(result);
  return weft_function_close(forward) || weft_package_close(package);
}
