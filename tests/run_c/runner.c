/* runner PACKAGE VALUES HELD SECRET LINALG: runs what writer.cpp has written through weft_run.h, compares every byte, and
   calls with what does not fit. HELD holds its weights; SECRET is the same file, of whose bytes each is one more. LINALG
   factors a matrix, which the runtime alone does not do. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft_run.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, weft_run_message());      \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

/* The status of a call, and what its message has. */
#define CHECK_REFUSED(call, expected, part)              \
  do {                                                   \
    CHECK((call) == (expected));                         \
    CHECK(strstr(weft_run_message(), (part)) != NULL);   \
  } while (0)

enum { parameters = 4, rows = 4, columns = 8, classes = 3, steps = 3 };
static const size_t sizes[parameters] = {16 * 8, 16, 3 * 16, 3};
static int64_t shapes[parameters][2] = {{16, 8}, {16, 0}, {3, 16}, {3, 0}};
static const int32_t ranks[parameters] = {2, 1, 2, 1};

static struct {
  float* parameter[parameters];
  float x[rows * columns], y[rows * classes];
  int64_t labels[rows];
  float losses[steps];
  float* after[parameters];
} values;

static void read_values(const char* path) {
  FILE* file = fopen(path, "rb");
  CHECK(file);
  for (int i = 0; i < parameters; ++i) {
    values.parameter[i] = malloc(sizes[i] * sizeof(float));
    CHECK(fread(values.parameter[i], sizeof(float), sizes[i], file) == sizes[i]);
  }
  CHECK(fread(values.x, sizeof values.x, 1, file) == 1);
  CHECK(fread(values.y, sizeof values.y, 1, file) == 1);
  CHECK(fread(values.labels, sizeof values.labels, 1, file) == 1);
  CHECK(fread(values.losses, sizeof values.losses, 1, file) == 1);
  for (int i = 0; i < parameters; ++i) {
    values.after[i] = malloc(sizes[i] * sizeof(float));
    CHECK(fread(values.after[i], sizeof(float), sizes[i], file) == sizes[i]);
  }
  fclose(file);
}

static weft_tensor tensor(void* data, int32_t rank, int64_t* shape) {
  weft_tensor made = {0};
  made.data = data;
  made.device.device_type = 1;
  made.ndim = rank;
  made.dtype.code = 2;
  made.dtype.bits = 32;
  made.dtype.lanes = 1;
  made.shape = shape;
  return made;
}

static weft_package* package;
static weft_function *forward, *step;

/* Calls forward on `count` rows of x, and compares what it gives. */
static void run_forward(const weft_function* function, int64_t count) {
  int64_t shape[2] = {count, columns};
  weft_tensor all[parameters + 1];
  const weft_tensor* arguments[parameters + 1];
  weft_managed_tensor* result;
  for (int i = 0; i < parameters; ++i) all[i] = tensor(values.parameter[i], ranks[i], shapes[i]);
  all[parameters] = tensor(values.x, 2, shape);
  for (int i = 0; i <= parameters; ++i) arguments[i] = &all[i];
  CHECK(weft_function_call(function, WEFT_ANY_KIND, arguments, parameters + 1, &result, 1) == WEFT_OK);
  CHECK(result->dl_tensor.ndim == 2 && result->dl_tensor.shape[0] == count && result->dl_tensor.shape[1] == classes);
  CHECK(result->dl_tensor.strides[0] == classes && result->dl_tensor.strides[1] == 1);
  CHECK(result->dl_tensor.device.device_type == 1 && result->dl_tensor.byte_offset == 0);
  CHECK(result->dl_tensor.dtype.code == 2 && result->dl_tensor.dtype.bits == 32 && result->dl_tensor.dtype.lanes == 1);
  CHECK(memcmp(result->dl_tensor.data, values.y, (size_t)count * classes * sizeof(float)) == 0);
  result->deleter(result);
}

static void* run_many(void* unused) {
  for (int i = 0; i < 200; ++i) run_forward(forward, 2 + i % 3);
  return unused;
}
/* Each thread has a message of its own. */
static void* has_no_message(void* unused) {
  CHECK(weft_run_message()[0] == '\0');
  return unused;
}

static void describe(void) {
  size_t count;
  const char* const* names;
  const char* text;
  const weft_tensor_info* infos;
  CHECK(weft_package_names(package, &count, &names) == WEFT_OK);
  CHECK(count == 2 && strcmp(names[0], "forward") == 0 && strcmp(names[1], "step") == 0);
  CHECK(weft_package_origin(package, &text) == WEFT_OK && strstr(text, ", made by Weft "));
  CHECK(weft_package_text(package, &text) == WEFT_OK && strstr(text, "argument 0 (in.weight): f32[16,8]"));
  CHECK(weft_package_check_weights(package) == WEFT_OK);
  CHECK(weft_package_check_weights(NULL) == WEFT_BAD_CALL);
  CHECK(weft_function_kinds(forward, &count) == WEFT_OK && count == 1);
  CHECK(weft_function_arguments(forward, 0, &count, &infos) == WEFT_OK && count == parameters + 1);
  CHECK(strcmp(infos[0].name, "argument 0 (in.weight)") == 0 && infos[0].rank == 2 && !infos[0].is_written);
  CHECK(infos[0].dtype.code == 2 && infos[0].dtype.bits == 32 && infos[0].dtype.lanes == 1);
  CHECK(infos[0].sizes[0] == 16 && infos[0].least[0] == 16 && infos[0].most[0] == 16 && infos[0].sizes[1] == 8);
  CHECK(infos[4].sizes[0] == WEFT_VARIES && infos[4].least[0] == 2 && infos[4].most[0] == INT64_MAX);
  CHECK(weft_function_results(forward, 0, &count, &infos) == WEFT_OK && count == 1);
  CHECK(strcmp(infos[0].name, "the result") == 0 && infos[0].sizes[0] == WEFT_VARIES && infos[0].sizes[1] == classes);
  CHECK(weft_function_arguments(step, 0, &count, &infos) == WEFT_OK && count == parameters + 2);
  CHECK(infos[0].is_written && infos[3].is_written && !infos[4].is_written);
  CHECK_REFUSED(weft_function_arguments(step, 7, &count, &infos), WEFT_BAD_CALL,
                "[weft_function_arguments] kind 7 of step of mlp.weft, which has 1");
}

static void train(void) {
  int64_t shape[2] = {rows, columns}, label_shape[1] = {rows};
  weft_tensor all[parameters + 2];
  const weft_tensor* arguments[parameters + 2];
  for (int i = 0; i < parameters; ++i) all[i] = tensor(values.parameter[i], ranks[i], shapes[i]);
  all[parameters] = tensor(values.x, 2, shape);
  all[parameters + 1] = tensor(values.labels, 1, label_shape);
  all[parameters + 1].dtype.code = 0;
  all[parameters + 1].dtype.bits = 64;
  for (int i = 0; i < parameters + 2; ++i) arguments[i] = &all[i];
  for (int i = 0; i < steps; ++i) {
    weft_managed_tensor* loss;
    CHECK(weft_function_call(step, 0, arguments, parameters + 2, &loss, 1) == WEFT_OK);
    CHECK(loss->dl_tensor.ndim == 0 && memcmp(loss->dl_tensor.data, &values.losses[i], sizeof(float)) == 0);
    loss->deleter(loss);
  }
  for (int i = 0; i < parameters; ++i)
    CHECK(memcmp(values.parameter[i], values.after[i], sizes[i] * sizeof(float)) == 0);
}

static void misuse(const char* path) {
  int64_t shape[3] = {rows, columns, 1}, other_shape[2] = {rows, 7}, negative[2] = {-1, columns};
  weft_tensor all[parameters + 1], other;
  const weft_tensor* arguments[parameters + 1];
  weft_managed_tensor* result = NULL;
  weft_package* none;
  weft_function* no_function;
  size_t count;
  for (int i = 0; i < parameters; ++i) all[i] = tensor(values.parameter[i], ranks[i], shapes[i]);
  all[parameters] = tensor(values.x, 2, shape);
  for (int i = 0; i <= parameters; ++i) arguments[i] = &all[i];
  const weft_tensor** const x = &arguments[parameters];
#define CALL(n) weft_function_call(forward, WEFT_ANY_KIND, arguments, n, &result, 1)

  other = all[parameters], *x = &other;
  other.dtype.bits = 64;
  CHECK_REFUSED(CALL(5), WEFT_MISMATCH, "[forward of mlp.weft] argument 1: dtype is f64, the package holds f32");
  CHECK(result == NULL);
  other.dtype.bits = 12;
  CHECK_REFUSED(CALL(5), WEFT_MISMATCH, "elements of code 2, 12 bits and 1 lane, which no dtype has");
  other = all[parameters], other.ndim = 3;
  CHECK_REFUSED(CALL(5), WEFT_MISMATCH, "argument 1: number of dimensions is 3, the package holds 2");
  other.ndim = 9;
  CHECK_REFUSED(CALL(5), WEFT_BAD_CALL, "tensor 4 of the call has 9 dimensions, a tensor has at most 8");
  other = all[parameters], other.shape = other_shape;
  CHECK_REFUSED(CALL(5), WEFT_MISMATCH, "argument 1: size of dimension 1 is 7, the package holds 8");
  other.shape = negative;
  CHECK_REFUSED(CALL(5), WEFT_BAD_CALL, "has a size that is negative");
  other.shape = NULL;
  CHECK_REFUSED(CALL(5), WEFT_BAD_CALL, "its shape is a null pointer");
  other = all[parameters], other.data = NULL;
  CHECK_REFUSED(CALL(5), WEFT_BAD_CALL, "its data is a null pointer");
  other = all[parameters], other.device.device_type = 2;
  CHECK_REFUSED(CALL(5), WEFT_MISMATCH, "is on a device of type 2");
  *x = NULL;
  CHECK_REFUSED(CALL(5), WEFT_BAD_CALL, "tensor 4 of the call is a null pointer");
  *x = &all[parameters];
  CHECK_REFUSED(CALL(4), WEFT_MISMATCH, "the call passes 4 tensors, the package holds 5");
  CHECK_REFUSED(weft_function_call(forward, 3, arguments, 5, &result, 1), WEFT_BAD_CALL, "kind 3");
  CHECK_REFUSED(weft_function_call(forward, 0, arguments, 5, &result, 0), WEFT_BAD_CALL, "gives 1 result");
  CHECK_REFUSED(weft_function_call(forward, 0, NULL, 5, &result, 1), WEFT_BAD_CALL, "arguments is a null pointer");
  CHECK_REFUSED(weft_function_call(forward, 0, arguments, 5, NULL, 1), WEFT_BAD_CALL, "results is a null pointer");
  CHECK_REFUSED(weft_function_call(NULL, 0, arguments, 5, &result, 1), WEFT_BAD_CALL, "the handle is a null pointer");

  CHECK_REFUSED(weft_package_open("/nowhere.weft", &none), WEFT_BAD_PACKAGE, "/nowhere.weft can't be opened: No such");
  CHECK(none == NULL);
  CHECK_REFUSED(weft_package_open("/", &none), WEFT_BAD_PACKAGE, "is no regular file");
  CHECK_REFUSED(weft_package_open("/dev/null", &none), WEFT_BAD_PACKAGE, "is no regular file");
  CHECK_REFUSED(weft_package_open(NULL, &none), WEFT_BAD_CALL, "path is a null pointer");
  CHECK_REFUSED(weft_package_open(path, NULL), WEFT_BAD_CALL, "package is a null pointer");
  CHECK_REFUSED(weft_package_open_bytes("no package", 10, "some bytes", &none), WEFT_BAD_PACKAGE,
                "[weft_package_open_bytes] some bytes is no package of Weft");
  CHECK_REFUSED(weft_package_function(package, "backward", &no_function), WEFT_NO_FUNCTION,
                "mlp.weft has no function \"backward\"; it has forward, step");
  CHECK(no_function == NULL);
  CHECK_REFUSED(weft_package_function(package, NULL, &no_function), WEFT_BAD_CALL, "name is a null pointer");
  CHECK_REFUSED(weft_function_kinds(forward, NULL), WEFT_BAD_CALL, "count is a null pointer");

  CHECK(weft_package_open(path, &none) == WEFT_OK && weft_package_close(none) == WEFT_OK);
  CHECK_REFUSED(weft_package_function(none, "forward", &no_function), WEFT_BAD_CALL, "the handle was closed");
  CHECK_REFUSED(weft_package_close(none), WEFT_BAD_CALL, "[weft_package_close] the handle was closed");
  CHECK(weft_package_function(package, "forward", &no_function) == WEFT_OK);
  CHECK(weft_function_close(no_function) == WEFT_OK);
  CHECK_REFUSED(weft_function_close(no_function), WEFT_BAD_CALL, "the handle was closed");
  CHECK_REFUSED(weft_function_kinds(no_function, &count), WEFT_BAD_CALL, "the handle was closed");
  CHECK_REFUSED(weft_function_call(no_function, 0, arguments, 5, &result, 1), WEFT_BAD_CALL, "the handle was closed");
  CHECK(weft_package_close(NULL) == WEFT_OK && weft_function_close(NULL) == WEFT_OK);
}

/* One that is to be looked at says what it holds, and runs nothing. */
static void inspect(const char* path) {
  weft_package* looked_at;
  weft_function* none;
  const char *text, *loaded;
  size_t count;
  const char* const* names;
  CHECK(weft_package_inspect(path, &looked_at) == WEFT_OK);
  CHECK(weft_package_text(looked_at, &text) == WEFT_OK && weft_package_text(package, &loaded) == WEFT_OK);
  CHECK(strcmp(text, loaded) == 0);
  CHECK(weft_package_names(looked_at, &count, &names) == WEFT_OK && count == 2);
  CHECK_REFUSED(weft_package_function(looked_at, "forward", &none), WEFT_UNSUPPORTED,
                "[weft_package_function] mlp.weft was opened to look at");
  CHECK(none == NULL && weft_package_close(looked_at) == WEFT_OK);
  CHECK_REFUSED(weft_package_inspect("/nowhere", &looked_at), WEFT_BAD_PACKAGE, "[weft_package_inspect] /nowhere can't");
}

static void open_from_bytes(const char* path) {
  static char bytes[1 << 20];
  FILE* file = fopen(path, "rb");
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  weft_package* again;
  weft_function* function;
  fclose(file);
  CHECK(size > 0 && size < sizeof bytes);
  CHECK(weft_package_open_bytes(bytes, size, "from memory", &again) == WEFT_OK);
  bytes[size / 2] ^= 1;
  CHECK(weft_package_function(again, "forward", &function) == WEFT_OK);
  CHECK(weft_package_close(again) == WEFT_OK);
  run_forward(function, rows); /* it stays when its package is closed */
  CHECK(weft_function_close(function) == WEFT_OK);
  CHECK_REFUSED(weft_package_open_bytes(bytes, size, "from memory", &again), WEFT_BAD_PACKAGE,
                "from memory was cut off or damaged");
}

/* ---- a package that holds its weights */

static int reads, releases;
static int32_t read_secret(void* context, const char* path, const void** bytes, size_t* size) {
  FILE* file = fopen(path, "rb");
  /* Odd context: at an odd address, from which nothing can be used as it lies. */
  unsigned char* all = malloc(1 << 20);
  const size_t shift = (size_t)(*(int*)context & 1);
  ++reads;
  if (!file) return free(all), 17;
  *size = fread(all + shift, 1, (1 << 20) - 1, file);
  fclose(file);
  for (size_t i = 0; i < *size; ++i) --all[shift + i];
  *bytes = all + shift;
  return 0;
}
static void release_secret(void* context, const void* bytes, size_t size) {
  CHECK(size > 0);
  ++releases;
  free((char*)bytes - (*(int*)context & 1));
}

/* What forward of HELD gives for x. */
static void call_held(const weft_function* function, float* y) {
  int64_t shape[2] = {rows, columns};
  const weft_tensor x = tensor(values.x, 2, shape);
  const weft_tensor* arguments[1] = {&x};
  weft_managed_tensor* result;
  CHECK(weft_function_call(function, WEFT_ANY_KIND, arguments, 1, &result, 1) == WEFT_OK);
  memcpy(y, result->dl_tensor.data, sizeof values.y);
  result->deleter(result);
}

static weft_package* held;
static weft_function* held_forward;
static float before[rows * classes], replaced[rows * classes];
static int more_calls = 1;
/* Both weights are replaced at once: no call sees one of them alone. */
static void* call_while_replaced(void* unused) {
  float y[rows * classes];
  while (__atomic_load_n(&more_calls, __ATOMIC_RELAXED)) {
    call_held(held_forward, y);
    CHECK(memcmp(y, before, sizeof y) == 0 || memcmp(y, replaced, sizeof y) == 0);
  }
  return unused;
}

static void replace_weights(const char* path, const char* secret) {
  size_t count;
  const weft_tensor_info* infos;
  float bias[classes] = {1, 2, 3}, weight[16][3], scattered[2 * classes] = {9, 0, 8, 0, 7, 0}, y[rows * classes];
  int64_t bias_shape[1] = {classes}, two[1] = {2}, matrix[2] = {3, 16}, columns_first[2] = {1, 3}, twice[1] = {2};
  weft_tensor new_bias = tensor(bias, 1, bias_shape), new_weight = tensor(weight, 2, matrix), other;
  const weft_tensor* both[2] = {&new_bias, &new_weight};
  const char *names[2] = {"out.bias", "out.weight"}, *unknown = "out.beis";
  CHECK(weft_package_open(path, &held) == WEFT_OK);
  CHECK(weft_package_function(held, "forward", &held_forward) == WEFT_OK);
  CHECK(weft_package_weights(held, &count, &infos) == WEFT_OK && count == parameters);
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(infos[i].name, "out.weight") != 0) continue;
    CHECK(infos[i].rank == 2 && infos[i].sizes[0] == 3 && infos[i].sizes[1] == 16 && infos[i].dtype.bits == 32);
  }
  call_held(held_forward, before);
  /* Kernels of known sizes add in another order. */
  for (int i = 0; i < rows * classes; ++i) CHECK(before[i] - values.y[i] < 1e-6f && values.y[i] - before[i] < 1e-6f);

  /* Elements of the transposed matrix, and every second one. */
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 3; ++j) weight[i][j] = (float)(i - 8 * j) / 16;
  new_weight.strides = columns_first;
  columns_first[0] = 1, columns_first[1] = 3;
  new_bias.data = scattered, new_bias.strides = twice;
  CHECK(weft_package_update_constants(held, names, both, 2) == WEFT_OK);
  memset(scattered, 0, sizeof scattered); /* they were copied */
  call_held(held_forward, replaced);
  CHECK(memcmp(before, replaced, sizeof before) != 0);
  /* The same values in order give the same. */
  float plain[3][16], nine[classes] = {9, 8, 7};
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 3; ++j) plain[j][i] = weight[i][j];
  new_weight = tensor(plain, 2, matrix), new_bias = tensor(nine, 1, bias_shape);
  CHECK(weft_package_update_constants(held, names, both, 2) == WEFT_OK);
  call_held(held_forward, y);
  CHECK(memcmp(y, replaced, sizeof y) == 0);

  /* All or none. */
  const char* wrong[2] = {"out.bias", unknown};
  new_bias.data = bias;
  CHECK_REFUSED(weft_package_update_constants(held, wrong, both, 2), WEFT_MISMATCH,
                "[weft_package_update_constants] held.weft holds no weight \"out.beis\"");
  other = new_bias, other.shape = two, both[1] = &other, wrong[1] = "in.bias";
  CHECK_REFUSED(weft_package_update_constants(held, wrong, both, 2), WEFT_MISMATCH,
                "in.bias is f32[2], held.weft holds f32[16]");
  other.dtype.bits = 64;
  CHECK_REFUSED(weft_package_update_constants(held, wrong, both, 2), WEFT_MISMATCH, "in.bias is f64[2]");
  other.data = NULL;
  CHECK_REFUSED(weft_package_update_constants(held, wrong, both, 2), WEFT_BAD_CALL, "in.bias has no memory");
  both[1] = NULL;
  CHECK_REFUSED(weft_package_update_constants(held, wrong, both, 2), WEFT_BAD_CALL, "in.bias is a null pointer");
  wrong[1] = NULL;
  CHECK_REFUSED(weft_package_update_constants(held, wrong, both, 2), WEFT_BAD_CALL, "a name is a null pointer");
  CHECK_REFUSED(weft_package_update_constants(held, NULL, both, 2), WEFT_BAD_CALL, "names is a null pointer");
  CHECK(weft_package_update_constants(held, NULL, NULL, 0) == WEFT_OK);
  call_held(held_forward, y);
  CHECK(memcmp(y, replaced, sizeof y) == 0);

  /* Beside calls of other threads, between those of the file and these. */
  weft_tensor old_bias = tensor(values.after[3], 1, bias_shape), old_weight = tensor(values.after[2], 2, matrix);
  const weft_tensor *old[2] = {&old_bias, &old_weight}, *now[2] = {&new_bias, &new_weight};
  new_bias.data = nine;
  memcpy(values.after[3], values.parameter[3], sizes[3] * sizeof(float));
  memcpy(values.after[2], values.parameter[2], sizes[2] * sizeof(float));
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, call_while_replaced, NULL) == 0);
  for (int i = 0; i < 300; ++i)
    CHECK(weft_package_update_constants(held, names, i % 2 ? old : now, 2) == WEFT_OK);
  __atomic_store_n(&more_calls, 0, __ATOMIC_RELAXED);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  call_held(held_forward, y);
  CHECK(memcmp(y, before, sizeof y) == 0);
  CHECK(weft_function_close(held_forward) == WEFT_OK && weft_package_close(held) == WEFT_OK);

  /* A file that only the program's own reader can read. */
  for (int shift = 0; shift < 2; ++shift) {
    const weft_reader reader = {&shift, read_secret, release_secret};
    weft_package* none;
    reads = releases = 0;
    CHECK(weft_package_open_with(secret, &reader, &held) == WEFT_OK && reads == 1);
    CHECK(releases == shift); /* what does not lie as it should is copied */
    CHECK(weft_package_function(held, "forward", &held_forward) == WEFT_OK);
    CHECK(weft_package_close(held) == WEFT_OK && releases == shift);
    call_held(held_forward, y);
    CHECK(memcmp(y, before, sizeof y) == 0);
    CHECK(weft_function_close(held_forward) == WEFT_OK && releases == 1);
    CHECK_REFUSED(weft_package_open_with("/nowhere", &reader, &none), WEFT_BAD_PACKAGE,
                  "[weft_package_open_with] /nowhere can't be read: its reader gave 17");
    CHECK(none == NULL && releases == 1);
    CHECK_REFUSED(weft_package_open_with(path, &reader, &none), WEFT_BAD_PACKAGE, "is no package of Weft");
    CHECK(releases == 2);
    CHECK_REFUSED(weft_package_open_with(path, NULL, &none), WEFT_BAD_CALL, "reader is a null pointer");
  }
}

/* It may be looked at. */
static void refuse_linear_algebra(const char* path) {
  weft_package* linalg;
  CHECK_REFUSED(weft_package_open(path, &linalg), WEFT_BAD_PACKAGE,
                "linalg.weft can't be used: [linalg] the part of Weft that factors matrices and transforms rows is not "
                "linked: ");
  CHECK(linalg == NULL);
  CHECK(weft_package_inspect(path, &linalg) == WEFT_OK && weft_package_close(linalg) == WEFT_OK);
}

int main(int count, char** arguments) {
  pthread_t threads[4];
  CHECK(count == 6);
  CHECK(weft_run_abi() == WEFT_RUN_ABI && weft_run_message()[0] == '\0');
  read_values(arguments[2]);
  CHECK(weft_package_open(arguments[1], &package) == WEFT_OK);
  CHECK(weft_package_function(package, "forward", &forward) == WEFT_OK);
  CHECK(weft_package_function(package, "step", &step) == WEFT_OK);
  describe();
  run_forward(forward, rows);
  run_forward(forward, 2);
  misuse(arguments[1]);
  CHECK(pthread_create(threads, NULL, has_no_message, NULL) == 0 && pthread_join(threads[0], NULL) == 0);
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, run_many, NULL) == 0);
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  inspect(arguments[1]);
  open_from_bytes(arguments[1]);
  train();
  read_values(arguments[2]);
  replace_weights(arguments[3], arguments[4]);
  refuse_linear_algebra(arguments[5]);
  CHECK(weft_function_close(forward) == WEFT_OK && weft_function_close(step) == WEFT_OK);
  CHECK(weft_package_close(package) == WEFT_OK);
  return 0;
}
