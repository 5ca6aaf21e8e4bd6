#include "base/build_id.hpp"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "base/lazy.hpp"

namespace weft {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

std::string id_in(std::span<const unsigned char> notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t name = sizeof note, text = name + aligned(note.n_namesz), end = text + aligned(note.n_descsz);
    if (end > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !std::memcmp(notes.data() + name, "GNU", 4)) {
      std::string id;
      for (const unsigned char byte : notes.subspan(text, note.n_descsz))
        for (const int digit : {byte >> 4, byte & 15}) id += "0123456789abcdef"[digit];
      return id;
    }
    notes = notes.subspan(end);
  }
  return {};
}

// Of the module that holds this function.
int look_at(dl_phdr_info* module, std::size_t, void* found) {
  const auto here = reinterpret_cast<std::uintptr_t>(&look_at);
  const std::span headers(module->dlpi_phdr, module->dlpi_phnum);
  bool holds = false;
  for (const auto& header : headers) {
    const std::uintptr_t begin = module->dlpi_addr + header.p_vaddr;
    holds = holds || (header.p_type == PT_LOAD && here >= begin && here < begin + header.p_memsz);
  }
  if (!holds) return 0;
  for (const auto& header : headers)
    if (header.p_type == PT_NOTE)
      if (std::string id =
              id_in({reinterpret_cast<const unsigned char*>(module->dlpi_addr + header.p_vaddr), header.p_memsz});
          !id.empty())
        *static_cast<std::string*>(found) = std::move(id);
  return 1;
}

}  // namespace

const std::string& build_id() {
  static constinit Lazy<const std::string> instance;
  return instance.get([] {
    std::string id;
    dl_iterate_phdr(look_at, &id);
    return id;
  });
}

}  // namespace weft
