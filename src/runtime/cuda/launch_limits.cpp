#include "runtime/cuda/launch_limits.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"

namespace weft::runtime::cuda {

std::string beyond_limits(const LaunchNeeds& needs, const LaunchLimits& limits) {
  if (needs.threads < 0 || needs.static_shared < 0 || needs.dynamic_shared < 0)
    return concat_text("a block has ", needs.threads, " threads and ", needs.dynamic_shared, " bytes of shared memory");
  if (needs.threads > limits.threads)
    return concat_text("a block has ", needs.threads, " threads, and at most ", limits.threads, " fit");
  if (needs.static_shared + needs.dynamic_shared > limits.shared)
    return concat_text("a block wants ", needs.static_shared, " + ", needs.dynamic_shared,
                       " bytes of shared memory, and the device gives ", limits.shared);
  return {};
}

std::int64_t share_of_blocks(std::int64_t wanted, std::int64_t all, std::int64_t most) {
  if (wanted <= 0 || all <= most) return std::max<std::int64_t>(wanted, 0);
  const double share = static_cast<double>(wanted) / static_cast<double>(all);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(share * static_cast<double>(most)));
}

namespace {

template <class T>
T read_at(std::string_view bytes, std::uint64_t offset) {
  WEFT_CHECK(offset <= bytes.size() && sizeof(T) <= bytes.size() - offset, "a cubin that ends too early");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The section of a function for sm_90 and later begins with memory of the system, which the limits of a device leave
// out.
std::int64_t kept_by_system(const Elf64_Ehdr& header) {
  constexpr unsigned char with_flags_of_cuda_13 = 8;  // of the ABI: the architecture is in the second byte
  const unsigned flags = header.e_flags >> (header.e_ident[EI_ABIVERSION] >= with_flags_of_cuda_13 ? 8 : 0);
  return (flags & 0xff) >= 90 ? 1024 : 0;
}

}  // namespace

std::int64_t static_shared_in(std::string_view cubin, std::string_view function) {
  const auto header = read_at<Elf64_Ehdr>(cubin, 0);
  WEFT_CHECK(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0, "a cubin that is no ELF file");
  const auto section = [&](std::uint64_t i) {
    return read_at<Elf64_Shdr>(cubin, header.e_shoff + i * header.e_shentsize);
  };
  const std::uint64_t names = section(header.e_shstrndx).sh_offset;
  const std::string wanted = ".nv.shared." + std::string(function);
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr it = section(i);
    const std::string_view rest = cubin.substr(std::min<std::size_t>(names + it.sh_name, cubin.size()));
    if (rest.substr(0, rest.find('\0')) == wanted)
      return std::max<std::int64_t>(static_cast<std::int64_t>(it.sh_size) - kept_by_system(header), 0);
  }
  return 0;
}

}  // namespace weft::runtime::cuda
