#include "runtime/host/plain_image.hpp"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/host/abi.hpp"

namespace weft {

namespace {

constexpr int machine = elf_machine(host_architecture);

// A place that gets an address: of a symbol plus a number, or of a place in the object.
#if defined(__aarch64__)
constexpr std::uint64_t of_symbol[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT, R_AARCH64_ABS64};
constexpr std::uint64_t of_object = R_AARCH64_RELATIVE;
#else
constexpr std::uint64_t of_symbol[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT, R_X86_64_64};
constexpr std::uint64_t of_object = R_X86_64_RELATIVE;
#endif

// What compilers call by themselves, and every program has.
struct Known {
  std::string_view name;
  void* address;
};
void* address_of_known(std::string_view name) {
  const Known all[] = {{"memcpy", reinterpret_cast<void*>(&std::memcpy)},
                       {"memmove", reinterpret_cast<void*>(&std::memmove)},
                       {"memset", reinterpret_cast<void*>(&std::memset)},
                       {"memcmp", reinterpret_cast<void*>(&std::memcmp)}};
  const Known* const found = std::ranges::find(all, name, &Known::name);
  return found == std::end(all) ? nullptr : found->address;
}

constexpr std::size_t most = std::size_t{1} << 30;

// A struct at an offset of `size` bytes; false where it is not inside.
template <class T>
bool read(const void* bytes, std::size_t size, std::size_t at, T& value) {
  if (at > size || size - at < sizeof value) return false;
  std::memcpy(&value, static_cast<const char*>(bytes) + at, sizeof value);
  return true;
}

int protection_of(const Elf64_Phdr& part) {
  return (part.p_flags & PF_R ? PROT_READ : 0) | (part.p_flags & PF_W ? PROT_WRITE : 0) |
         (part.p_flags & PF_X ? PROT_EXEC : 0);
}

}  // namespace

std::unique_ptr<PlainImage> PlainImage::map(std::string_view bytes, std::string& reason) {
  const auto refuse = [&](const char* why) {
    reason = why;
    return nullptr;
  };
  Elf64_Ehdr header;
  if (!read(bytes.data(), bytes.size(), 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN || header.e_machine != machine)
    return refuse("they are no shared object of this processor");
  std::vector<Elf64_Phdr> parts;
  const Elf64_Phdr* dynamic = nullptr;
  std::size_t size = 0;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto whole_pages = [&](std::size_t end) { return (end + page - 1) / page * page; };
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    if (header.e_phoff > most || !read(bytes.data(), bytes.size(), header.e_phoff + i * sizeof part, part))
      return refuse("they are cut off");
    if (part.p_type == PT_TLS) return refuse("they have variables of threads");
    if (part.p_type != PT_LOAD && part.p_type != PT_DYNAMIC) continue;
    if (part.p_vaddr > most || part.p_memsz > most || part.p_filesz > part.p_memsz || part.p_offset > bytes.size() ||
        part.p_filesz > bytes.size() - part.p_offset)
      return refuse("they are cut off");
    if (part.p_type == PT_LOAD && part.p_vaddr / page * page < size) return refuse("their parts share pages");
    if (part.p_type == PT_LOAD) size = whole_pages(part.p_vaddr + part.p_memsz);
    parts.push_back(part);
  }
  const auto found = std::ranges::find(parts, static_cast<Elf64_Word>(PT_DYNAMIC), &Elf64_Phdr::p_type);
  if (found != parts.end()) dynamic = &*found;
  if (!dynamic || size == 0 || dynamic->p_vaddr > size || dynamic->p_memsz > size - dynamic->p_vaddr)
    return refuse("they have no symbols");

  std::unique_ptr<PlainImage> image(new PlainImage);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return refuse("memory has ended");
  image->memory_ = static_cast<unsigned char*>(memory);
  image->size_ = size;
  for (const Elf64_Phdr& part : parts)
    if (part.p_type == PT_LOAD && part.p_filesz > 0)
      std::memcpy(image->memory_ + part.p_vaddr, bytes.data() + part.p_offset, part.p_filesz);

  std::size_t hash_at = 0;
  std::size_t moved_at[2] = {}, moved[2] = {};  // two tables of places that get addresses, and their bytes
  bool ended = false;
  for (std::size_t at = dynamic->p_vaddr; !ended; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    if (!read(memory, std::min(size, static_cast<std::size_t>(dynamic->p_vaddr + dynamic->p_memsz)), at, entry)) break;
    switch (entry.d_tag) {
      case DT_NULL: ended = true; break;
      case DT_SYMTAB: image->symbols_at_ = entry.d_un.d_ptr; break;
      case DT_STRTAB: image->names_at_ = entry.d_un.d_ptr; break;
      case DT_STRSZ: image->names_ = entry.d_un.d_val; break;
      case DT_GNU_HASH: hash_at = entry.d_un.d_ptr; break;
      case DT_RELA: moved_at[0] = entry.d_un.d_ptr; break;
      case DT_RELASZ: moved[0] = entry.d_un.d_val; break;
      case DT_JMPREL: moved_at[1] = entry.d_un.d_ptr; break;
      case DT_PLTRELSZ: moved[1] = entry.d_un.d_val; break;
      case DT_RELAENT:
      case DT_RELACOUNT:
      case DT_PLTREL:
      case DT_PLTGOT:
      case DT_SYMENT:
      case DT_SONAME:
      case DT_FLAGS:
      case DT_FLAGS_1:
      case DT_HASH: break;
      default: return refuse("they refer to other places");
    }
  }
  // Of the hash table the numbers of symbols alone: those before `first` are not defined here.
  std::uint32_t buckets = 0, first = 0, filter = 0, last = 0;
  if (!read(memory, size, hash_at, buckets) || !read(memory, size, hash_at + 4, first) ||
      !read(memory, size, hash_at + 8, filter) || image->names_at_ > size || image->names_ > size - image->names_at_)
    return refuse("they have no symbols");
  const std::size_t buckets_at = hash_at + 16 + std::size_t{filter} * 8,
                    chain_at = buckets_at + std::size_t{buckets} * 4;
  for (std::size_t i = 0; i < buckets; ++i) {
    std::uint32_t begins = 0;
    if (!read(memory, size, buckets_at + i * 4, begins)) return refuse("they have no symbols");
    last = std::max(last, begins);
  }
  for (std::uint32_t link = 0; last >= first && last > 0 && !(link & 1); ++last)
    if (!read(memory, size, chain_at + std::size_t{last - first} * 4, link)) return refuse("they have no symbols");
  image->symbols_ = std::max(last, first);
  if (image->symbols_at_ > size || image->symbols_ > (size - image->symbols_at_) / sizeof(Elf64_Sym))
    return refuse("they have no symbols");

  for (const int table : {0, 1})
    if (reason = image->relocate(moved_at[table], moved[table]); !reason.empty()) return nullptr;

  for (const Elf64_Phdr& part : parts) {
    if (part.p_type != PT_LOAD) continue;
    const std::size_t begin = part.p_vaddr / page * page;
    unsigned char* const at = image->memory_ + begin;
    const std::size_t length = whole_pages(part.p_vaddr + part.p_memsz) - begin;
    if (mprotect(at, length, protection_of(part)) != 0) return refuse("this system runs no code from memory");
    __builtin___clear_cache(reinterpret_cast<char*>(at), reinterpret_cast<char*>(at + length));
  }
  return image;
}

std::string PlainImage::relocate(std::size_t at, std::size_t bytes) {
  if (bytes > 0 && (at > size_ || bytes > size_ - at)) return "they are cut off";
  for (const std::size_t end = at + bytes; at < end; at += sizeof(Elf64_Rela)) {
    Elf64_Rela each;
    if (!read(memory_, size_, at, each) || each.r_offset > size_ || size_ - each.r_offset < sizeof(std::uint64_t))
      return "they are cut off";
    const std::uint64_t type = ELF64_R_TYPE(each.r_info), symbol = ELF64_R_SYM(each.r_info);
    void* from = memory_;
    if (type != of_object) {
      if (std::ranges::find(of_symbol, type) == std::end(of_symbol) || symbol >= symbols_)
        return "they refer to other places";
      from = address_of(symbol);
      if (!from) from = address_of_known(name_of(symbol));
      if (!from) return "they call " + std::string(name_of(symbol));
    }
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(from) + static_cast<std::uint64_t>(each.r_addend);
    std::memcpy(memory_ + each.r_offset, &address, sizeof address);
  }
  return {};
}

PlainImage::~PlainImage() {
  if (memory_) munmap(memory_, size_);
}

std::string_view PlainImage::name_of(std::size_t symbol) const {
  Elf64_Sym entry;
  std::memcpy(&entry, memory_ + symbols_at_ + symbol * sizeof entry, sizeof entry);
  if (entry.st_name >= names_) return {};
  const auto* const name = reinterpret_cast<const char*>(memory_ + names_at_ + entry.st_name);
  return {name, strnlen(name, names_ - entry.st_name)};
}

void* PlainImage::find(std::string_view symbol) const {
  for (std::size_t i = 1; i < symbols_; ++i) {
    if (name_of(i) == symbol) return address_of(i);
  }
  return nullptr;
}
void* PlainImage::address_of(std::size_t symbol) const {
  Elf64_Sym entry;
  std::memcpy(&entry, memory_ + symbols_at_ + symbol * sizeof entry, sizeof entry);
  return entry.st_shndx != SHN_UNDEF && entry.st_value < size_ ? memory_ + entry.st_value : nullptr;
}

}  // namespace weft
