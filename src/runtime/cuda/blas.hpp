// Matrix products on a device through cuBLASLt: f64, f32, by tf32 where that was asked for, f16 and bf16
// accumulated in f32, which may be the result too. In: strided operands, transposed ones where they lie. Out: c = a b
// for each batch, or a b + bias, rounded once, queued on the device's stream. The heuristic's choice is asked for once
// a shape.
#pragma once
#include <memory>
#include <optional>

#include "runtime/contraction.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/host/matmul.hpp"

namespace weft::runtime::cuda {

// What the library does to a product before it is stored: GELU by tanh, which may keep its argument (with the bias),
// and GELU's gradient at an argument that was kept, times the product.
enum class Epilogue : std::uint8_t { none, gelu, gelu_kept, gelu_gradient };

// A product of known sizes, as the library is asked for it. Its choice of a kernel is looked up at the first run.
class LibraryProduct {
 public:
  // None for strides that the library does not take (no axis of stride 1, overlapping rows) and for products over
  // nothing.
  // `measures`: its first run, where that is not recorded, times the library's kernels for it and keeps the fastest,
  // for this process and in the disk cache; else the heuristic's first choice is taken.
  static std::optional<LibraryProduct> make(DeviceState& device, const Matmul& product, bool measures = false,
                                            Epilogue epilogue = Epilogue::none);
  LibraryProduct(LibraryProduct&&) noexcept;
  LibraryProduct& operator=(LibraryProduct&&) noexcept;
  ~LibraryProduct();
  // `bias`: of a product that has one. `aux`: the argument that the epilogue keeps, or reads, as c lies. Throws
  // NoLibraryKernel where the library has none.
  void run(const void* a, const void* b, const void* bias, void* c, const Queue* queue,
           const void* aux = nullptr) const;

 private:
  struct Call;
  explicit LibraryProduct(std::unique_ptr<Call> call);
  std::unique_ptr<Call> call_;
};

// Whether products may be given to the library: it is installed, and they are not kept from it
// (ProcessOptions::own_kernels).
bool has_product_library();

// Loads the library and opens it on the device, which the first product would do. Where either fails, products say so.
void open_products(Device device);
bool products_are_open(Device device);

// What all products of a device share: the library's handle, and memory of so many bytes for each of its queues.
inline constexpr std::size_t product_workspace_bytes = std::size_t{32} << 20;
BlasHandle* product_handle(DeviceState& device);
void* product_workspace(DeviceState& device, const Queue* queue);

// The product of one item of the batch. Nothing where a size or a stride is a symbol.
std::optional<Matmul> known_product(const Contraction& product);
// Whether there will be one, as far as that is known before sizes are: a product for which not needs a kernel.
bool library_takes(const Contraction& product);

}  // namespace weft::runtime::cuda
