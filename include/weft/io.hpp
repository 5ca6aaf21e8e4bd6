// Models and their state on disk. Files are in the safetensors format, which PyTorch's and JAX's tools read: tensors
// under the names of their places.
//   io::save("run.safetensors", {{"model", model}, {"optimizer", opt}, {"generator", rng}, {"step", step}});
//   io::load("run.safetensors", {{"model", model}, {"optimizer", opt}, {"generator", rng}, {"step", step}});
// What is saved is whatever may be passed to a compiled function. A tensor's name is the name of its part and
// its path (weft/tree.hpp): model.blocks.0.weight. Numbers and text are in the file's metadata, where other programs do
// not look. Neither frozen flags nor lengths are saved: the struct into which a file is loaded has its structure
// already.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "weft/tree.hpp"

namespace weft::io {

namespace detail {
using weft::detail::LeafList;
using weft::detail::TypeDescription;

// A part of what is saved or loaded, erased.
struct Part {
  const char* name;  // empty: paths alone are the names
  const TypeDescription* description;
  void* value;
  void (*flatten)(void* value, LeafList& leaves);
};
template <class M>
Part make_part(const char* name, M& value) {
  (void)weft::detail::check_model<M>();
  return {name, &weft::detail::Description<std::remove_const_t<M>>::value,
          const_cast<void*>(static_cast<const void*>(&value)),
          [](void* object, LeafList& leaves) {
            if constexpr (weft::detail::Flattenable<M>) weft::detail::flatten(*static_cast<M*>(object), leaves);
          }};
}
}  // namespace detail

// A named part of what is saved, which is read.
struct Source {
  // The value must outlive the call of save. An empty name: paths alone are the names.
  template <class M>
  Source(const char* name, const M& value) : part(detail::make_part(name, value)) {}
  detail::Part part;  // the name and the value, erased
};
struct Place {  // a named part of what is loaded, which is written
  // The value must outlive the call of load. An empty name: paths alone are the names.
  template <class M>
  requires(!std::is_const_v<M>) Place(const char* name, M& value) : part(detail::make_part(name, value)) {}
  detail::Part part;  // the name and the value, erased
};

// The same name in two spellings: each * matches any characters, as few as fit, and the first * of one side matches
// the same as the first * of the other, and so on: {"blocks.*.norm.*", "h.*.ln_1.*"}.
struct Renamed {
  const char* place;    // as the struct says it
  const char* in_file;  // as the file says it
};
struct LoadOptions {                  // of load
  bool strict = true;                 // whether a name that only the file has, or only the struct, is an error
  bool allow_extra = false;           // whether the file may have names that nobody asks for: a part of it is read
  bool convert = false;               // whether tensors are cast where the file has another dtype than the place
  std::vector<Renamed> renames = {};  // the first row that fits says a place's name in the file
};

// Writes a file that holds all of it, but for `training`, the mode, which nn::train and nn::eval set, and
// `sparse_gradient` of embeddings. The file appears whole: it is written beside the path under another name, flushed to
// the disk and renamed, so what was there before stays until then, whatever happens. A process that is killed can leave
// the file under that name, NAME.tmp-..., which may be deleted. Values are computed first. Throws Error with the
// path: where the file can't be written, inside a compiled function, where a name occurs twice.
void save(const std::string& path, std::initializer_list<Source> parts, Loc loc = Loc::current());
template <class M>
void save(const std::string& path, const M& model, Loc loc = Loc::current()) {
  save(path, {Source("", model)}, loc);
}

// Gives the defined tensors, the numbers (but for the mode) and the text of the parts the values that the file has; a
// text keeps its length. Tensors are read from the mapped file when they are used, not before, without a copy where
// elements are aligned; so the file must not be changed in place while they live (save does not). Places on another
// device get a copy there. Throws Error, and changes nothing: where the file is none or damaged, and one that lists
// every name that is missing, is not asked for, or is of another shape or dtype. Numbers of a file in which no program
// put any keep their values.
void load(const std::string& path, std::initializer_list<Place> parts, const LoadOptions& options = {},
          Loc loc = Loc::current());
template <class M>
void load(const std::string& path, M& model, const LoadOptions& options = {}, Loc loc = Loc::current()) {
  load(path, {Place("", model)}, options, loc);
}

// A tensor of a file.
struct NamedTensor {
  std::string name;  // as the file says it
  Tensor value;      // its elements
};
// All tensors of a safetensors file, in the order in which they lie there. Throws where one is of a dtype that Weft has
// not.
std::vector<NamedTensor> load_tensors(const std::string& path, Loc loc = Loc::current());

// ---- NumPy's files --------------------------------------------------------------------------------------------------

// One array, as numpy.save writes it: of the host's byte order it lies in the mapped file, as load has it; of the other
// it is copied. Column-major arrays become views. Throws Error where the file is none, is damaged, or holds elements
// that no tensor has (strings, records, complex numbers, objects).
Tensor load_npy(const std::string& path, Loc loc = Loc::current());
// Throws Error on bf16, which NumPy has not, and where the file can't be written. The file appears whole.
void save_npy(const std::string& path, const Tensor& value, Loc loc = Loc::current());
// Several arrays with names, as numpy.savez and numpy.savez_compressed write them; saved without compression.
std::vector<NamedTensor> load_npz(const std::string& path, Loc loc = Loc::current());
void save_npz(const std::string& path, std::span<const NamedTensor> values, Loc loc = Loc::current());
inline void save_npz(const std::string& path, std::initializer_list<NamedTensor> values, Loc loc = Loc::current()) {
  save_npz(path, std::span<const NamedTensor>(values.begin(), values.size()), loc);
}

}  // namespace weft::io
