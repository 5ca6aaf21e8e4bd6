// weft_run.h: runs functions of packages (docs/packages.md) from C, and from every language that calls C. In: a package,
// tensors as DLPack describes them. Out: tensors of DLPack, which the caller owns. The CPU only, so far.
//
//   weft_package* package;
//   weft_function* forward;
//   if (weft_package_open("mlp.weft", &package) || weft_package_function(package, "forward", &forward)) {
//     fprintf(stderr, "%s\n", weft_run_message());
//     return 1;
//   }
//   const weft_tensor* arguments[] = {&weight, &bias, &x};
//   weft_managed_tensor* result;
//   if (weft_function_call(forward, WEFT_ANY_KIND, arguments, 3, &result, 1)) ...
//   result->deleter(result);
//
// Any thread may call any function, several at once with the same handles. No exception leaves a function: each gives
// a status. A null pointer and a handle that was closed are statuses, too.
#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEFT_RUN_API __attribute__((visibility("default")))
#else
#define WEFT_RUN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The version of this interface. It rises where a program that was built with an earlier header would no longer work.
#define WEFT_RUN_ABI 1
// The version that the library has. A program that loads the library at run time compares it with WEFT_RUN_ABI.
WEFT_RUN_API int32_t weft_run_abi(void);

// What a function gives: WEFT_OK is 0.
typedef int32_t weft_status;
enum {
  WEFT_OK = 0,
  WEFT_BAD_CALL = 1,     // a null pointer, a handle that was closed, an index or a count that is out of range
  WEFT_BAD_PACKAGE = 2,  // the file can't be read, is damaged, of another format or for another processor
  WEFT_NO_FUNCTION = 3,  // the package has no function of the name
  WEFT_UNSUPPORTED = 4,  // the function can't be run through this interface
  WEFT_MISMATCH = 5,     // the tensors are not what the package holds
  WEFT_FAILED = 6,       // the function stopped: one of its checks failed
  WEFT_NO_MEMORY = 7,    // memory has ended
  WEFT_INTERNAL = 8      // a defect of Weft
};
// What was wrong, in one sentence: of the latest call of this thread that gave a status other than WEFT_OK; "" where
// there was none. The text stays until this thread's next such call.
WEFT_RUN_API const char* weft_run_message(void);

// ---- tensors: the structs of dlpack.h, which are used where the program has included it before -----------------------

#ifdef DLPACK_DLPACK_H_
typedef DLDataType weft_data_type;
typedef DLTensor weft_tensor;
typedef DLManagedTensor weft_managed_tensor;
#else
typedef struct weft_device {  // DLDevice
  int32_t device_type;        // 1: the CPU; 3: page-locked memory of the host
  int32_t device_id;          // 0
} weft_device;
typedef struct weft_data_type {  // DLDataType
  uint8_t code;                  // 0 integer, 1 unsigned integer, 2 floating, 4 bfloat, 6 bool, 10 and 12 f8e4m3 and f8e5m2
  uint8_t bits;                  // of an element
  uint16_t lanes;                // 1
} weft_data_type;
typedef struct weft_tensor {  // DLTensor
  void* data;                 // the allocation; the first element is byte_offset after it
  weft_device device;         // where it lies
  int32_t ndim;               // the number of dimensions, 8 at most
  weft_data_type dtype;       // of the elements
  int64_t* shape;             // ndim sizes
  int64_t* strides;           // in elements; null: row-major
  uint64_t byte_offset;       // of the first element
} weft_tensor;
typedef struct weft_managed_tensor {             // DLManagedTensor
  weft_tensor dl_tensor;                         // the elements
  void* manager_ctx;                             // Weft's own
  void (*deleter)(struct weft_managed_tensor*);  // gives the memory back; call it once, with this struct
} weft_managed_tensor;
#endif

// ---- packages --------------------------------------------------------------------------------------------------------

typedef struct weft_package weft_package;    // a package that was read
typedef struct weft_function weft_function;  // a function of one; it stays when the package is closed

// Reads a package. `*package` is null where the status is not WEFT_OK. What is read runs as code: open only what you
// would run.
WEFT_RUN_API weft_status weft_package_open(const char* path, weft_package** package);
// Reads a package to look at: none of its code is loaded, it may be for another machine, and weft_package_function gives
// WEFT_UNSUPPORTED.
WEFT_RUN_API weft_status weft_package_inspect(const char* path, weft_package** package);
// As weft_package_open, of a file that the program itself reads: one that is encrypted, or lies in an archive.
typedef struct weft_reader {
  void* context;  // the program's own, for both functions
  // Reads the file of this name whole and returns 0; any other number says that it could not. Weights are used where
  // they lie if `*bytes` is aligned to 16 bytes; else all is copied.
  int32_t (*read)(void* context, const char* path, const void** bytes, size_t* size);
  // Is called once, from any thread, for each `read` that returned 0, with what it gave (null, too), when Weft no longer
  // needs that: at once where the package has no weights, was copied or is refused, else when the package and its
  // functions are closed. Null: nothing is to be done.
  void (*release)(void* context, const void* bytes, size_t size);
} weft_reader;
// The reader itself is not needed afterwards.
WEFT_RUN_API weft_status weft_package_open_with(const char* path, const weft_reader* reader, weft_package** package);
// The same from `size` bytes, which are not needed afterwards. `name` stands in messages for the file's name.
WEFT_RUN_API weft_status weft_package_open_bytes(const void* bytes, size_t size, const char* name,
                                                 weft_package** package);
// Texts that the package gave end here. Null is no package, and no mistake.
WEFT_RUN_API weft_status weft_package_close(weft_package* package);
// The names of its functions.
WEFT_RUN_API weft_status weft_package_names(const weft_package* package, size_t* count, const char* const** names);
// Its format, the version of Weft that made it, and the processors that it is for, in a line for people.
WEFT_RUN_API weft_status weft_package_origin(const weft_package* package, const char** origin);
// Reads all weights that the package holds and compares them with their digests, which opening does not do: it is
// WEFT_BAD_PACKAGE where one is damaged.
WEFT_RUN_API weft_status weft_package_check_weights(const weft_package* package);
// What the package holds, for people: a paragraph for each kind of arguments of each function, in the order of kinds.
WEFT_RUN_API weft_status weft_package_text(const weft_package* package, const char** text);

// ---- functions -------------------------------------------------------------------------------------------------------

// The function of this name. `*function` is null where the status is not WEFT_OK.
WEFT_RUN_API weft_status weft_package_function(const weft_package* package, const char* name, weft_function** function);
// Infos that the function gave end here; a call of another thread goes on to its end. Null is no function, and no mistake.
WEFT_RUN_API weft_status weft_function_close(weft_function* function);

// For how many kinds of arguments the function was packaged.
WEFT_RUN_API weft_status weft_function_kinds(const weft_function* function, size_t* count);

#define WEFT_VARIES (-1)  // a size that a call decides
// A tensor of the arguments or of the result.
typedef struct weft_tensor_info {
  const char* name;      // "argument 0 (in.weight)"
  weft_data_type dtype;  // of the elements
  int32_t rank;          // the number of dimensions
  const int64_t* sizes;  // `rank` of them, or WEFT_VARIES
  const int64_t* least;  // of each size; 0 where a result computes it of others
  const int64_t* most;   // of each size; INT64_MAX where there is no limit, or a result computes it of others
  int32_t is_written;    // of an argument: 1 where the function changes it, else 0
} weft_tensor_info;

// The tensors that a call passes, and those that it gives. Numbers, text, lengths and tensors that were undefined when
// the function was packaged are not among them: they are what they were then, and weft_package_text shows them.
WEFT_RUN_API weft_status weft_function_arguments(const weft_function* function, size_t kind, size_t* count,
                                                 const weft_tensor_info** infos);
WEFT_RUN_API weft_status weft_function_results(const weft_function* function, size_t kind, size_t* count,
                                               const weft_tensor_info** infos);

// ---- weights that the package holds -----------------------------------------------------------------------------------

// The tensors that the file holds, by their names: "in.weight".
WEFT_RUN_API weft_status weft_package_weights(const weft_package* package, size_t* count,
                                              const weft_tensor_info** infos);
// From now on the weights of these names have these values, in all functions of the package. The values are copied, and
// may have any strides; their dtypes and sizes are those that the package holds. A call of another thread meanwhile has
// all of the new ones or all of those before. The file stays. Where the status is not WEFT_OK none is replaced:
// WEFT_MISMATCH where the package has no weight of a name, or it has another dtype or other sizes.
WEFT_RUN_API weft_status weft_package_update_constants(weft_package* package, const char* const* names,
                                                       const weft_tensor* const* values, size_t count);

// ---- calls -----------------------------------------------------------------------------------------------------------

#define WEFT_ANY_KIND ((size_t)-1)  // the one that fits
// Runs the function. `arguments`: its tensors, in the order of weft_function_arguments. They are borrowed: nothing
// refers to them afterwards. One that the function changes (is_written) is written where it lies: it must be in row-major
// order and share no memory with another argument. The others may have any strides.
// `results`: room for result_count pointers. The memory is the caller's: call each one's deleter once, from any thread,
// also after the function was closed. It is in row-major order, and no two results share any.
// The tensors are compared with what the package holds, always. Where the status is not WEFT_OK, all results are null,
// and arguments hold what they held. `kind`: an index, or WEFT_ANY_KIND. Kinds that differ in a number or text alone
// can't be told apart by tensors: WEFT_ANY_KIND is then a mismatch.
WEFT_RUN_API weft_status weft_function_call(const weft_function* function, size_t kind,
                                            const weft_tensor* const* arguments, size_t argument_count,
                                            weft_managed_tensor** results, size_t result_count);

// ---- small programs ----------------------------------------------------------------------------------------------------

// A program that links the archive (weft::runtime), and runs packages of few kinds of steps, may say which: then no others
// are linked, and a package that has another one is refused. Once, in one of its files:
//   const weft_step* const weft_linked_steps[] = {&weft_step_kernel, &weft_step_packed_matmul, NULL};
#if defined(__GNUC__)
typedef struct weft_step weft_step;
// Generated kernels; products of Weft's own, oneDNN's, CBLAS's; convolutions of Weft's own, oneDNN's, those of a kernel
// a channel.
extern const weft_step weft_step_kernel __asm__("_ZN4weft7runtime5steps6kernelE");
extern const weft_step weft_step_packed_matmul __asm__("_ZN4weft7runtime5steps13packed_matmulE");
extern const weft_step weft_step_onednn_matmul __asm__("_ZN4weft7runtime5steps13onednn_matmulE");
extern const weft_step weft_step_cblas_matmul __asm__("_ZN4weft7runtime5steps12cblas_matmulE");
extern const weft_step weft_step_direct_convolution __asm__("_ZN4weft7runtime5steps18direct_convolutionE");
extern const weft_step weft_step_onednn_convolution __asm__("_ZN4weft7runtime5steps18onednn_convolutionE");
extern const weft_step weft_step_depthwise_convolution __asm__("_ZN4weft7runtime5steps21depthwise_convolutionE");
// Sums by index, sorts, factorizations and Fourier transforms, parts of a value that are replaced, checks, loops.
extern const weft_step weft_step_scatter __asm__("_ZN4weft7runtime5steps7scatterE");
extern const weft_step weft_step_argsort __asm__("_ZN4weft7runtime5steps7argsortE");
extern const weft_step weft_step_factorization __asm__("_ZN4weft7runtime5steps13factorizationE");
extern const weft_step weft_step_update_slice __asm__("_ZN4weft7runtime5steps12update_sliceE");
extern const weft_step weft_step_update_rows __asm__("_ZN4weft7runtime5steps11update_rowsE");
extern const weft_step weft_step_check __asm__("_ZN4weft7runtime5steps5checkE");
extern const weft_step weft_step_loop __asm__("_ZN4weft7runtime5steps4loopE");
// weft_step_factorization together with what does it: Eigen, from weft::runtime_eigen.
extern const weft_step weft_step_linear_algebra __asm__("_ZN4weft7runtime5steps14linear_algebraE");
extern const weft_step* const weft_linked_steps[];
#endif

#ifdef __cplusplus
}  // extern "C"
#endif

#endif
