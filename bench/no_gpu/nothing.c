// A CUDA driver, cuBLASLt and cuDNN that do nothing: bench_gpu_start runs with it where there is no GPU, and shows what
// a first step costs this side of the device, its kernels compiled by the NVRTC that is installed. Results are garbage.
//   cc -w -shared -fPIC -O1 -o nothing.so bench/no_gpu/nothing.c
//   cc -shared -fPIC -O1 -DNOTHING='"'$PWD/nothing.so'"' -o instead.so bench/no_gpu/instead.c -ldl
//   LD_PRELOAD=$PWD/instead.so WEFT_CACHE_DIR=$(mktemp -d) build/release/bench/bench_gpu_start gpt2-train
// FAKE_BLAS_MS, FAKE_PLAN_MS: how long cublasLtCreate and one plan of cuDNN take.
// FAKE_DNN_VERSION: cuDNN's. FAKE_DNN_REFUSES=1: it takes no algorithm but 5, and no plan's text. FAKE_DNN_COUNTS: a
// file to which a line is added at the end of the process: how often it was opened, asked for algorithms and for
// engines, how many plans it has made, how many of texts, and how many it made at once (tests/library_answers).
// FAKE_PLANS_AT_ONCE: a plan is made when so many are asked for at once, or after ten seconds.
// Of the weights' gradient of a convolution of three channels, which in ResNet-50 takes cuDNN longest: how long to
// name its algorithm takes, FAKE_CONVOLUTION_MS; FAKE_CONVOLUTION_AFTER: it is named when this file is there, or after
// ten seconds; FAKE_CONVOLUTION_REFUSES=1: there is none.
// FAKE_DEVICES: how many there are, 1 else. FAKE_LAUNCH_US: how long a launch takes. As the real driver it is ended by exit(): it aborts where another thread is
// inside of a launch then, or makes one later (tests/at_exit).
// fake_fail_checks(1): checks that this thread launches fail, until fake_fail_checks(0); with 2 they fail when a stream
// is waited for next; fake_refuse_modules(n): the
// next n modules can't be loaded; fake_counts(n): how many launches were made one by one so far, how many graphs were
// launched, and how many launches these had, how many launches of graphs were changed; fake_digest(): of all launches
// since it was asked last, with what they were given; fake_waits(): how often the host has waited for a stream
// (tests/stand_in).
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static _Atomic long next = 0x1000;
static void* dummy(void) { return (void*)(next += 16); }
#define OK(name) \
  int name() { return 0; }
#define NEW(name)      \
  int name(void** p) { \
    *p = dummy();      \
    return 0;          \
  }
static void end_driver(void);
int cuInit() {
  atexit(end_driver);
  return 0;
}
int cuDriverGetVersion(int* v) {
  *v = 13000;
  return 0;
}
int cuDeviceGetCount(int* v) {
  const char* const count = getenv("FAKE_DEVICES");
  *v = count ? atoi(count) : 1;
  return 0;
}
int cuDeviceGet(int* v, int o) {
  *v = o;
  return 0;
}
int cuDeviceGetName(char* n, int l, int d) {
  snprintf(n, l, "fake H200");
  return 0;
}
int cuDeviceGetAttribute(int* v, int a, int d) {
  *v = a == 16 ? 132 : a == 75 ? 9 : a == 76 ? 0 : a == 97 ? 232448 : 1;
  return 0;
}
// A context is one of these; a stream and an event point to that in which they were made.
static char contexts[64];
static _Thread_local void* context;
int cuDevicePrimaryCtxRetain(void** p, int device) {
  *p = &contexts[device];
  return 0;
}
int cuCtxSetCurrent(void* p) {
  context = p;
  return 0;
}
int cuCtxGetCurrent(void** p) {
  *p = context;
  return 0;
}
static int of_context(void** p) {
  void** made = malloc(sizeof(void*));
  *made = context;
  *p = made;
  return 0;
}
int cuStreamCreate(void** p) { return of_context(p); }
static _Atomic int waits;
static void end_checks(void);
int cuStreamSynchronize() {
  ++waits;
  end_checks();
  return 0;
}
int fake_waits(void) { return waits; }
// A graph is its launches: what a kernel is given as words, by which a check fails.
struct Launched {
  void* function;
  int is_check;
  size_t bytes;
  uint64_t words[512];
  void* extra[5];
};
struct Graph {
  int count, room;
  struct Launched** launches;
};
static _Thread_local struct Graph* captured;
static _Atomic int counts_of_launches[4];
static _Atomic uint64_t digest_of_launches;
void fake_counts(int* to) {
  for (int i = 0; i < 4; ++i) to[i] = counts_of_launches[i];
}
uint64_t fake_digest(void) {
  const uint64_t digest = digest_of_launches;
  digest_of_launches = 0;
  return digest;
}
int cuStreamBeginCapture_v2() {
  captured = calloc(1, sizeof *captured);
  return 0;
}
int cuStreamEndCapture(void* s, void** g) {
  *g = captured;
  captured = NULL;
  return 0;
}
int cuEventCreate(void** p) { return of_context(p); }
int cuEventRecord(void** event, void** stream) { return *event == *stream ? 0 : 400; }
int cuEventDestroy_v2(void* event) {
  free(event);
  return 0;
}
 OK(cuEventSynchronize) int cuEventElapsedTime(float* f, void* a, void* b) {
  *f = 1;
  return 0;
}
OK(cuStreamWaitValue32_v2)
int cuMemHostGetDevicePointer_v2(uint64_t* d, void* h, unsigned f) {
  *d = (uint64_t)h;
  return 0;
}
OK(cuMemFreeHost)
OK(cuStreamWaitEvent)
int cuStreamGetCaptureInfo_v2(void* stream, int* status, void* id, void** graph, void* const** latest, size_t* count) {
  *status = captured ? 1 : 0;
  *graph = captured;
  *count = captured && captured->count > 0;
  if (*count) *latest = (void* const*)&captured->launches[captured->count - 1];
  return 0;
}
int cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
  *count = ((struct Graph*)graph)->count;
  return 0;
}
struct KernelNode {
  void* function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
  void *kernel, *context;
};
int cuGraphKernelNodeGetParams_v2(void* node, struct KernelNode* to) {
  struct Launched* launched = node;
  memset(to, 0, sizeof *to);
  to->function = launched->function;
  launched->extra[1] = launched->words, launched->extra[3] = &launched->bytes;
  to->extra = launched->extra;
  return 0;
}
// The program is the graph.
int cuGraphExecKernelNodeSetParams_v2(void* program, void* node, const struct KernelNode* from) {
  struct Launched* launched = node;
  ++counts_of_launches[3];
  launched->bytes = *(size_t*)from->extra[3];
  memcpy(launched->words, from->extra[1], launched->bytes);
  return 0;
}
int cuGraphInstantiateWithFlags(void** program, void* graph, unsigned long long flags) {
  *program = graph;
  return 0;
}
OK(cuGraphExecDestroy)
OK(cuGraphDestroy)
int cuMemHostAlloc(void** p, size_t n, unsigned f) {
  *p = calloc(1, n + 64);
  return 0;
}
int cuMemsetD32Async(uint64_t p, unsigned value, size_t n, void* s) {
  for (size_t i = 0; i < n; ++i) ((unsigned*)p)[i] = value;
  return 0;
}
OK(cuMemsetD8Async) OK(cuMemsetD2D32Async) static int map(uint64_t* p, size_t n) {
  void* at = mmap(0, n + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *p = (uint64_t)at;
  return at == MAP_FAILED ? 2 : 0;
}
int cuMemAlloc_v2(uint64_t* p, size_t n) { return map(p, n); }
NEW(cuMemPoolCreate) OK(cuMemPoolSetAttribute) int cuMemPoolGetAttribute(void* p, int a, void* v) {
  *(uint64_t*)v = 0;
  return 0;
}
OK(cuMemPoolSetAccess) OK(cuMemPoolTrimTo) int cuMemAllocFromPoolAsync(uint64_t* p, size_t n, void* q, void* s) {
  return map(p, n);
}
OK(cuMemFreeAsync)
int cuDeviceCanAccessPeer(int* c, int d, int e) {
  *c = 0;
  return 0;
}
int cuPointerGetAttribute() { return 1; }  // memory of the host as any other
int cuMemGetInfo_v2(size_t* f, size_t* t) {
  *f = *t = 140ul << 30;
  return 0;
}
OK(cuMemcpyHtoDAsync_v2)
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t n, void* s) {
  memset(to, 0, n);
  return 0;
}
OK(cuMemcpyDtoDAsync_v2) OK(cuMemcpy2DAsync_v2)
static _Atomic int modules_to_refuse;
void fake_refuse_modules(int n) { modules_to_refuse = n; }
int cuModuleLoadData(void** p, const void* image) {
  if (modules_to_refuse > 0) return --modules_to_refuse, 200;
  *p = dummy();
  return 0;
}
OK(cuModuleUnload) static void* _Atomic check_function;
int cuModuleGetFunction(void** f, void* m, const char* n) {
  *f = dummy();
  if (!strcmp(n, "weft_check")) {
    if (check_function) *f = check_function;
    check_function = *f;
  }
  return 0;
}
int cuFuncGetAttribute(int* v, int a, void* f) {
  *v = a == 0 ? 1024 : 0;
  return 0;
}
OK(cuFuncSetAttribute)
static _Thread_local int checks_fail;
static _Thread_local uint64_t waiting[4];  // of a check that is to fail later: its words
static void fail_check(const uint64_t* words) {
  int* error = (int*)words[1];
  if (*error == 0) *error = *(volatile int*)words[3] = (int)words[2];
}
static void end_checks(void) {
  if (waiting[1]) fail_check(waiting);
  waiting[1] = 0;
}
void fake_fail_checks(int on) { checks_fail = on; }
static _Atomic int launching, has_ended;
static _Thread_local int ends_it;
static void end_driver(void) {
  has_ended = 1, ends_it = 1;
  if (launching == 0) return;
  fprintf(stderr, "the driver was ended while a thread was in it\n");
  abort();
}
static void nap_us(const char* name) {
  const char* v = getenv(name);
  if (v) usleep(atoi(v));
}
// The words of the arguments of a check are: what must hold, the device's word, a number, the host's word.
static void do_launch(const struct Launched* it) {
  uint64_t digest = digest_of_launches;
  for (size_t i = 0; i <= it->bytes / 8; ++i)
    digest = (digest ^ (i == 0 ? (uint64_t)it->function : it->words[i - 1])) * 0x9E3779B97F4A7C15u,
    digest ^= digest >> 29;
  digest_of_launches = digest;
  if (!it->is_check || !checks_fail) return;
  if (checks_fail == 2)
    memcpy(waiting, it->words, sizeof waiting);
  else
    fail_check(it->words);
}
static void capture_launch(const struct Launched* it) {
  if (captured->count == captured->room) {
    captured->room = 2 * captured->room + 8;
    captured->launches = realloc(captured->launches, captured->room * sizeof *captured->launches);
  }
  struct Launched* own = captured->launches[captured->count++] = malloc(sizeof *own);
  *own = *it;
}
static int launch(void* function, void** extra) {
  if (has_ended && !ends_it) {
    fprintf(stderr, "a thread calls the driver that was ended\n");
    abort();
  }
  ++launching;
  nap_us("FAKE_LAUNCH_US");
  struct Launched it = {function, function == check_function, extra ? *(size_t*)extra[3] : 0};
  if (it.bytes > sizeof it.words) it.bytes = sizeof it.words;
  if (extra) memcpy(it.words, extra[1], it.bytes);
  if (captured)
    capture_launch(&it);
  else
    ++counts_of_launches[0], do_launch(&it);
  --launching;
  return 0;
}
int cuGraphLaunch(void* program, void* stream) {
  const struct Graph* graph = program;
  ++counts_of_launches[1];
  counts_of_launches[2] += graph->count;
  for (int i = 0; i < graph->count; ++i) do_launch(graph->launches[i]);
  return 0;
}
int cuLaunchKernel(void* f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned shared,
                   void* stream, void** parameters, void** extra) {
  return launch(f, extra);
}
int cuLaunchKernelEx(const void* how, void* f, void** parameters, void** extra) { return launch(f, extra); }
OK(cuTensorMapEncodeTiled)
int cuGetErrorString(int e, const char** t) {
  *t = "?";
  return 0;
}
int cuGetErrorName(int e, const char** t) {
  *t = "?";
  return 0;
}
size_t cublasLtGetVersion() { return 130100; }
static void nap(const char* name) {
  const char* v = getenv(name);
  if (v) usleep(1000 * atoi(v));
}
int cublasLtCreate(void** p) {
  nap("FAKE_BLAS_MS");
  *p = dummy();
  return 0;
}
NEW(cublasLtMatmulDescCreate)
OK(cublasLtMatmulDescDestroy)
OK(cublasLtMatmulDescSetAttribute)
NEW(cublasLtMatrixLayoutCreate)
OK(cublasLtMatrixLayoutDestroy)
OK(cublasLtMatrixLayoutSetAttribute) NEW(cublasLtMatmulPreferenceCreate) OK(cublasLtMatmulPreferenceDestroy)
    OK(cublasLtMatmulPreferenceSetAttribute) struct H {
  uint64_t data[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
int cublasLtMatmulAlgoGetHeuristic(void* h, void* d, void* a, void* b, void* c, void* e, void* p, int n, struct H* r,
                                   int* f) {
  memset(r, 0, sizeof *r);
  *f = 1;
  return 0;
}
int cublasLtMatmul() {  // asks to be told of the end when it is first called
  static _Atomic int asked;
  if (asked++ == 0) atexit(end_driver);
  return 0;
}
enum { opened, algorithms, engines, plans, texts, at_once, counted };
static _Atomic int counts[counted];
__attribute__((destructor)) static void say_counts(void) {
  const char* path = getenv("FAKE_DNN_COUNTS");
  FILE* file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "opened %d algorithms %d engines %d plans %d texts %d at once %d\n", counts[opened], counts[algorithms],
          counts[engines], counts[plans], counts[texts], counts[at_once]);
  fclose(file);
}
static int refuses(void) { return getenv("FAKE_DNN_REFUSES") != NULL; }
int cudnnCreate(void** p) {
  ++counts[opened];
  *p = dummy();
  return 0;
}
OK(cudnnSetStream)
struct T {
  int channels;
};
int cudnnCreateTensorDescriptor(struct T** t) {
  *t = calloc(1, sizeof **t);
  return 0;
}
int cudnnDestroyTensorDescriptor(struct T* t) {
  free(t);
  return 0;
}
int cudnnSetTensorNdDescriptor(struct T* t, int type, int count, const int* sizes, const int* strides) {
  t->channels = sizes[1];
  return 0;
}
NEW(cudnnCreateFilterDescriptor)
OK(cudnnDestroyFilterDescriptor)
OK(cudnnSetFilterNdDescriptor)
NEW(cudnnCreateConvolutionDescriptor) OK(cudnnDestroyConvolutionDescriptor) OK(cudnnSetConvolutionNdDescriptor)
    OK(cudnnSetConvolutionMathType) OK(cudnnSetConvolutionGroupCount) struct A {
  int algorithm, status;
  float ms;
  int unused;
  size_t workspace;
  int deterministic, math;
  int reserved[4];
};
static int is_named(const struct T* input) {
  const char* after = getenv("FAKE_CONVOLUTION_AFTER");
  if (input->channels != 3) return 1;
  nap("FAKE_CONVOLUTION_MS");
  for (int i = 0; after && access(after, F_OK) && i < 10000; ++i) usleep(1000);
  return !getenv("FAKE_CONVOLUTION_REFUSES");
}
#define ALG(name, named)                                                                     \
  int name(void* h, void* a, void* b, void* c, void* d, int most, int* found, struct A* r) { \
    ++counts[algorithms];                                                                    \
    memset(r, 0, sizeof *r);                                                                 \
    *found = 0;                                                                              \
    if (!(named)) return 0;                                                                  \
    r->algorithm = refuses() ? 5 : 1;                                                        \
    r->deterministic = 1;                                                                    \
    *found = 1;                                                                              \
    return 0;                                                                                \
  }
ALG(cudnnGetConvolutionForwardAlgorithm_v7, 1)
ALG(cudnnGetConvolutionBackwardDataAlgorithm_v7, 1)
ALG(cudnnGetConvolutionBackwardFilterAlgorithm_v7, is_named(a))
#define WS(name)                                                            \
  int name(void* h, void* a, void* b, void* c, void* d, int g, size_t* n) { \
    *n = 100 * g;                                                           \
    return refuses() && g == 1 ? 3000 : 0;                                  \
  }
WS(cudnnGetConvolutionForwardWorkspaceSize)
WS(cudnnGetConvolutionBackwardDataWorkspaceSize)
WS(cudnnGetConvolutionBackwardFilterWorkspaceSize)
OK(cudnnConvolutionForward) NEW(cudnnCreateActivationDescriptor) OK(cudnnDestroyActivationDescriptor)
    OK(cudnnSetActivationDescriptor) OK(cudnnConvolutionBiasActivationForward) OK(cudnnConvolutionBackwardData)
        OK(cudnnConvolutionBackwardFilter) size_t cudnnGetVersion() {
  const char* v = getenv("FAKE_DNN_VERSION");
  return v ? atoi(v) : 92000;
}
void cudnnGetLastErrorString(char* t, size_t n) { *t = 0; }
// A descriptor: its kind, and whether a text was given.
struct D {
  int kind, has_text;
};
int cudnnBackendCreateDescriptor(int type, void** d) {
  struct D* x = calloc(1, sizeof *x);
  x->kind = type;
  *d = x;
  return 0;
}
static const char plan_text[] = "a plan";
OK(cudnnBackendDestroyDescriptor)
int cudnnBackendSetAttribute(struct D* d, int name, int type, int64_t count, const void* v) {
  if (name != 405) return 0;
  if (refuses() || count != sizeof plan_text || memcmp(v, plan_text, sizeof plan_text)) return 3000;
  ++counts[texts];
  d->has_text = 1;
  return 0;
}
int cudnnBackendGetAttribute(void* d, int name, int type, int64_t most, int64_t* count, void* v) {
  *count = name == 1303 ? 0 : name == 405 ? sizeof plan_text : 1;
  if (name == 402) *(int64_t*)v = 700;
  if (name == 405 && v) memcpy(v, plan_text, sizeof plan_text);
  return 0;
}
static void make_plan(void) {
  static _Atomic int asked;
  const char* v = getenv("FAKE_PLANS_AT_ONCE");
  const int now = ++asked, wanted = v ? atoi(v) : 1;
  for (int most = counts[at_once]; most < now && !atomic_compare_exchange_weak(&counts[at_once], &most, now);) continue;
  for (int i = 0; counts[at_once] < wanted && i < 10000; ++i) usleep(1000);
  nap("FAKE_PLAN_MS");
  --asked;
}
int cudnnBackendFinalize(struct D* d) {
  if (d->kind == 4) ++counts[engines];
  if (d->kind == 5 && !d->has_text) {
    ++counts[plans];
    make_plan();
  }
  return 0;
}
OK(cudnnBackendExecute)
