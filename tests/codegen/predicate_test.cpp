// Loads with a predicate: how they are said, what they cost, and that no memory is touched where the predicate does not
// hold. The memory ends at pages that nobody may read.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/fail.hpp"
#include "codegen/cpp.hpp"
#include "codegen/cuda.hpp"
#include "loop/parse.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/host/jit.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

namespace {

// A stencil's gradient in small: rows before and after, columns before and after.
constexpr const char* padded = R"(weft_text_padded(f32 p0[1800], out f32 p1[2150])
  outer i0<50 outer i1<43 vector
  outer0 v0 bool = 0 <= i0 - 2
  outer0 v1 bool = 0 <= -i0 + 46
  outer0 v2 bool = bitwise_and(v0, v1)
  outer0 v3 bool = 0 <= i1 - 1
  outer0 v4 bool = 0 <= -i1 + 40
  outer0 v5 bool = bitwise_and(v3, v4)
  outer0 v6 bool = bitwise_and(v2, v5)
  outer0 v7 f32 = p0[40*i0 + i1 - 81] where v6
  outer0 v8 f32 = p0[40*i0 - 80] where v6
  outer0 v9 f32 = sub(v7, v8)
  outer0 p1[43*i0 + i1] = v9
)";

constexpr const char* rows_before = R"(weft_text_rows_before(f32 p0[1600], out f32 p1[2000])
  outer i0<50 outer i1<40 vector
  outer0 v0 bool = 0 <= i0 - 10
  outer0 v1 f32 = p0[40*i0 + i1 - 400] where v0
  outer0 p1[40*i0 + i1] = v1
)";

// Columns 0 to 23 from one matrix, 24 to 45 from another; the last pack of a row is not whole.
constexpr const char* joined = R"(weft_text_joined(f32 p0[1200], f32 p1[1100], out f32 p2[2300])
  outer i0<50 outer i1<46 vector
  outer0 v0 bool = 0 <= -i1 + 23
  outer0 v1 f32 = p0[24*i0 + i1] where v0
  outer0 v2 bool = 0 <= i1 - 24
  outer0 v3 f32 = p1[22*i0 + i1 - 24] where v2
  outer0 v4 f32 = where(v0, v1, v3)
  outer0 p2[46*i0 + i1] = v4
)";

// Bytes between two pages that may not be touched, at the front or at the back of what may be.
class FencedBytes {
 public:
  FencedBytes(std::size_t bytes, bool at_back) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inside = (bytes + page - 1) / page * page;
    size_ = inside + 2 * page;
    all_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(all_ != MAP_FAILED);
    if (inside > 0) REQUIRE(mprotect(all_ + page, inside, PROT_READ | PROT_WRITE) == 0);
    data_ = all_ + page + (at_back ? inside - bytes : 0);
  }
  ~FencedBytes() { munmap(all_, size_); }
  FencedBytes(const FencedBytes&) = delete;
  FencedBytes& operator=(const FencedBytes&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte *all_, *data_;
  std::size_t size_;
};

// How a load moves along the lanes, and what its predicate depends on.
struct Form {
  const char* name;
  // The body between `v0`, `v1`, ... and the loaded value, over i0 < 3 and i1 < %length%. %count% elements are read in
  // a row; those before and after them are not there.
  const char* body;
  // The element that is read at (i0, i1), or -1.
  Int (*element)(Int i0, Int i1, Int count);
  Int (*elements)(Int count);
};
constexpr Int before = 5, behind = 9;  // lanes without an element
bool inside(Int i, Int count) { return i >= 0 && i < count; }
const Form forms[] = {
    {"contiguous",
     "  outer0 v0 bool = 0 <= i1 - 5\n  outer0 v1 bool = 0 <= -i1 + %count% + 4\n"
     "  outer0 v2 bool = bitwise_and(v0, v1)\n  outer0 v3 %dtype% = p0[i1 - 5] where v2\n",
     [](Int, Int i1, Int count) { return inside(i1 - before, count) ? i1 - before : -1; },
     [](Int count) { return count; }},
    {"reversed",
     "  outer0 v0 bool = 0 <= i1 - 5\n  outer0 v1 bool = 0 <= -i1 + %count% + 4\n"
     "  outer0 v2 bool = bitwise_and(v0, v1)\n  outer0 v3 %dtype% = p0[-i1 + %count% + 4] where v2\n",
     [](Int, Int i1, Int count) { return inside(i1 - before, count) ? count - 1 - (i1 - before) : -1; },
     [](Int count) { return count; }},
    {"strided",
     "  outer0 v0 bool = 0 <= 3*i1 - 15\n  outer0 v1 bool = 0 <= -2*i1 + 2*%count% + 9\n"
     "  outer0 v2 bool = bitwise_and(v0, v1)\n  outer0 v3 %dtype% = p0[3*i1 - 15] where v2\n",
     [](Int, Int i1, Int count) { return inside(i1 - before, count) ? 3 * (i1 - before) : -1; },
     [](Int count) { return 3 * count - 2; }},
    // Every second lane: neither the test nor the place is linear in the lanes' axis.
    {"spread",
     "  outer0 v0 bool = 0 <= i1 - 5\n  outer0 v1 bool = 0 <= -modulo(i1 - 5, 2)\n"
     "  outer0 v2 bool = bitwise_and(v0, v1)\n  outer0 v3 %dtype% = p0[floor_divide(i1 - 5, 2)] where v2\n",
     [](Int, Int i1, Int) { return i1 >= before && (i1 - before) % 2 == 0 ? (i1 - before) / 2 : -1; },
     [](Int count) { return (count + behind + 1) / 2; }},
    // Places that are values: nonsense where the predicate, which is read from memory, does not hold.
    {"gathered",
     "  outer0 v0 i64 = p2[i1]\n  outer0 v1 i64 = cast(v0) below 1000000\n"
     "  outer0 v2 bool = p3[i1]\n  outer0 v3 %dtype% = p0[v1] where v2\n",
     [](Int, Int i1, Int count) { return inside(i1 - before, count) ? count - 1 - (i1 - before) : -1; },
     [](Int count) { return count; }},
    // One place for all lanes of a row; the first row's is in front of the memory.
    {"uniform",
     "  outer0 v0 bool = 0 <= i1 - 5\n  outer0 v1 bool = 0 <= i0 - 1\n"
     "  outer0 v2 bool = bitwise_and(v0, v1)\n  outer0 v3 %dtype% = p0[i0 - 1] where v2\n",
     [](Int i0, Int i1, Int) { return i1 >= before && i0 >= 1 ? i0 - 1 : -1; }, [](Int) { return Int(2); }},
    // One predicate for all lanes of a row; the last row's memory is not there.
    {"row",
     "  outer0 v0 bool = 0 <= -i0 + 1\n  outer0 v1 bool = bitwise_and(v0, v0)\n"
     "  outer0 v2 bool = bitwise_or(v1, v0)\n  outer0 v3 %dtype% = p0[%length%*i0 + i1] where v2\n",
     [](Int i0, Int i1, Int count) { return i0 <= 1 ? (count + before + behind) * i0 + i1 : -1; },
     [](Int count) { return 2 * (count + before + behind); }},
    {"one of a row",
     "  outer0 v0 bool = 0 <= -i0 + 1\n  outer0 v1 bool = bitwise_and(v0, v0)\n"
     "  outer0 v2 bool = bitwise_or(v1, v0)\n  outer0 v3 %dtype% = p0[i0] where v2\n",
     [](Int i0, Int, Int) { return i0 <= 1 ? i0 : -1; }, [](Int) { return Int(2); }},
};

std::string filled(std::string text, const std::string& name, const std::string& with) {
  for (std::size_t at; (at = text.find(name)) != std::string::npos;) text.replace(at, name.size(), with);
  return text;
}

loop::Kernel copy_of(const Form& form, DType dtype, Int count) {
  const Int length = count + before + behind;
  std::string text = "k(%dtype% p0[%elements%], out %dtype% p1[%all%]%more%)\n  outer i0<3 outer i1<%length% vector\n" +
                     std::string(form.body) + "  outer0 p1[%length%*i0 + i1] = v3\n";
  const bool gathers = std::string_view(form.name) == "gathered";
  text = filled(text, "%more%", gathers ? ", i64 p2[%length%], bool p3[%length%]" : "");
  text = filled(text, "%elements%", std::to_string(form.elements(count)));
  text = filled(text, "%all%", std::to_string(3 * length));
  text = filled(text, "%length%", std::to_string(length));
  text = filled(text, "%count%", std::to_string(count));
  text = filled(text, "%dtype%", info(dtype).name);
  loop::Kernel kernel = loop::parse_kernel(text);
  kernel.name =
      filled("weft_fenced_" + std::string(form.name), " ", "_") + "_" + info(dtype).name + "_" + std::to_string(count);
  loop::verify(kernel);
  return kernel;
}

// Element i of a buffer: no zero, and a number that keeps its bits on the way through the lanes.
std::uint64_t element_bits(DType dtype, Int i) {
  const auto n = static_cast<std::uint64_t>(i);
  switch (dtype) {
    case DType::boolean: return 1;
    case DType::f32: return 0x3f800000 + n;
    case DType::f64: return 0x3ff0000000000000 + n;
    case DType::bf16: return 0x3f80 + n % 64;
    case DType::f16: return 0x3c00 + n % 64;
    default: return 1 + n % 100;
  }
}

void check_fenced(const Form& form, DType dtype, Int count, runtime::KernelFunction function, bool at_back) {
  const Int length = count + before + behind, elements = form.elements(count);
  const auto size = static_cast<std::size_t>(storage_bytes(dtype, 1));
  const FencedBytes from(static_cast<std::size_t>(elements) * size, at_back);
  for (Int i = 0; i < elements; ++i) {
    const std::uint64_t bits = element_bits(dtype, i);
    std::memcpy(from.data() + static_cast<std::size_t>(i) * size, &bits, size);
  }
  std::vector<std::byte> to(static_cast<std::size_t>(3 * length) * size, std::byte{0xAB});
  std::vector<Int> places;
  std::vector<std::uint8_t> admitted;
  for (Int i = 0; i < length; ++i) {
    const Int element = form.element(1, i, count);
    admitted.push_back(element >= 0);
    places.push_back(element >= 0 ? element : (i % 2 ? 1 : -1) * (Int(1) << 40));
  }
  void* buffers[] = {from.data(), to.data(), places.data(), admitted.data()};
  function(buffers, nullptr, 0, 3);
  for (Int i0 = 0; i0 < 3; ++i0)
    for (Int i1 = 0; i1 < length; ++i1) {
      const Int element = form.element(i0, i1, count);
      const std::uint64_t wanted = element < 0 ? 0 : element_bits(dtype, element);
      std::uint64_t got = 0;
      std::memcpy(&got, to.data() + static_cast<std::size_t>(i0 * length + i1) * size, size);
      if (got != wanted) FAIL_CHECK("row ", i0, ", lane ", i1, ": ", got, ", should be ", wanted);
    }
}

}  // namespace

TEST_CASE("text to kernel: a load with a predicate reads back, and counts what it can read at most") {
  for (const char* text : {padded, rows_before}) CHECK(loop::to_text(loop::parse_kernel(text)) == text);
  CHECK(loop::cost(loop::parse_kernel(rows_before)).bytes.same(Dim(4 * (1600 + 2000))));
  loop::Kernel kernel = loop::parse_kernel(rows_before);
  CHECK_NOTHROW(loop::verify(kernel));
  kernel.body[0].dtype = DType::i64;
  CHECK_THROWS_AS(loop::verify(kernel), InternalError);
}

TEST_CASE("text to kernel: loads with predicates against plain loops") {
  std::vector<Trial> trials;
  trials.emplace_back(loop::parse_kernel(padded));
  trials.emplace_back(loop::parse_kernel(rows_before));
  trials.emplace_back(loop::parse_kernel(joined));
  trials.emplace_back(loop::parse_kernel(R"(weft_text_padded_rows(f32 p0[3600], out f32 p1[90], out f32 p2[4050])
  outer i0<90 inner i1<45 vector
  inner0 v0 bool = 0 <= i1 - 5
  inner0 v1 f32 = p0[40*i0 + i1 - 5] where v0
  inner0 v2 f32 = exp(v1)
  outer1 v3 f32 = reduce_sum(v2)
  inner1 v4 f32 = div(v2, v3)
  outer1 p1[i0] = v3
  inner1 p2[45*i0 + i1] = v4
)"));
  trials.emplace_back(loop::parse_kernel(R"(weft_text_padded_columns(f32 p0[3600], out f32 p1[45])
  outer i0<45 vector inner i1<90
  outer0 v0 bool = 0 <= i0 - 5
  inner0 v1 bool = 0 <= i1 - 10
  inner0 v2 bool = bitwise_and(v0, v1)
  inner0 v3 f32 = p0[40*i1 + i0 - 405] where v2
  outer1 v4 f32 = reduce_sum(v3)
  outer1 p1[i0] = v4
)"));
  check_all(trials);
}

TEST_CASE("where a predicate is one for a row it is tested, along the lanes it is a mask of neighbours") {
  const std::string row = codegen::generate_cpp(loop::parse_kernel(rows_before));
  INFO(row);
  CHECK(row.find("const bool b0 = is_true(v0);") != std::string::npos);
  CHECK(row.find("v1 = b0 ? load(") != std::string::npos);
  const std::string lanes = codegen::generate_cpp(loop::parse_kernel(padded));
  INFO(lanes);
  CHECK(lanes.find("v3 = lanes_from(") != std::string::npos);
  CHECK(lanes.find("v4 = lanes_below(") != std::string::npos);
  CHECK(lanes.find("v7 = load_where(") != std::string::npos);
  CHECK(lanes.find("v8 = load_one_where(") != std::string::npos);
  const std::string device = codegen::generate_cuda(loop::parse_kernel(rows_before)).text;
  INFO(device);
  CHECK(device.find("Pack<float, 4> p1; p1.read_where(v0.value, ") != std::string::npos);
  const std::string elements = codegen::generate_cuda(loop::parse_kernel(padded)).text;
  INFO(elements);
  CHECK(elements.find("v7 = v6.value ? load(") != std::string::npos);
  // What is the same for all of each pack is asked once for it.
  const std::string packs = codegen::generate_cuda(loop::parse_kernel(joined)).text;
  INFO(packs);
  CHECK(packs.find("p1.read_where(v0.value, x0 + (24*i0) + begin, n);") != std::string::npos);
  CHECK(packs.find("p3.read_where(v2.value, x1 + (22*i0 - 24) + begin, n);") != std::string::npos);
}

TEST_CASE("a load with a predicate touches no memory where the predicate does not hold") {
  constexpr DType dtypes[] = {DType::boolean, DType::u8,  DType::i8,  DType::i16, DType::u16, DType::u32,
                              DType::bf16,    DType::f16, DType::i32, DType::i64, DType::f32, DType::f64};
  std::vector<loop::Kernel> kernels;
  struct Run {
    const Form* form;
    DType dtype;
    Int count;
  };
  std::vector<Run> runs;
  for (const Form& form : forms)
    for (const DType dtype : dtypes)
      for (const Int count : {1, 40, 50}) {  // less than a vector; a rest; whole vectors
        if (count == 50 && dtype != DType::f32) continue;
        runs.push_back({&form, dtype, count});
        kernels.push_back(copy_of(form, dtype, count));
      }
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    const std::shared_ptr<Library> library = jit({codegen::cpp_units(kernels, unit_count(kernels.size())), isa, {}});
    if (isa > host_isa()) continue;  // it compiles
    for (std::size_t i = 0; i < runs.size(); ++i) {
      INFO(std::string(name(isa)) << " " << kernels[i].name);
      const auto function = library->function<void(void* const*, const Int*, Int, Int)>(kernels[i].name.c_str());
      for (const bool at_back : {false, true})
        check_fenced(*runs[i].form, runs[i].dtype, runs[i].count, function, at_back);
    }
  }
}

TEST_CASE("CUDA: loads with predicates of every dtype and access compile" * needs(nvrtc)) {
  std::vector<std::string> texts;
  for (const Form& form : forms)
    for (const DType dtype :
         {DType::boolean, DType::u8, DType::i16, DType::u32, DType::bf16, DType::i64, DType::f32, DType::f64})
      texts.push_back(codegen::generate_cuda(copy_of(form, dtype, 50)).text);
  CHECK_NOTHROW(runtime::cuda::compile_units(codegen::cuda_units(texts), "sm_90", runtime::cuda::Effort::check));
}
