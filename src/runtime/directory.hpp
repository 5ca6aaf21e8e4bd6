// Directories that only this user can write into. A directory is opened once, checked through its descriptor, and used
// through it from then on, so that nothing can be swapped between the check and the use.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace weft {

struct PrivateDirectory {
  Descriptor descriptor;
  std::string path;
  std::string refusal;  // why it was refused, when there is no descriptor
  bool ours = false;    // it bears our mark: what has a name of ours there may be removed
};

// Opens the directory, made with mode 0700 when it is not there (and the folders above it). An empty one gets our mark,
// a file. Where there are other files and no mark, "weft" inside of it is opened instead: what a user keeps is never
// among what we remove. Refused: another owner, a symbolic link, group or world may write.
PrivateDirectory open_private_directory(const std::string& path);

bool is_directory(const std::string& path);

// Where working files may lie, best first: weft-<uid> in those of $TMPDIR, /tmp and /dev/shm that are there.
std::vector<std::string> scratch_paths();

// A new folder for one compilation, removed with all its files at the end.
class WorkDirectory {
 public:
  // Nothing, and the reason, where it can't be made or `parent` has no room.
  static std::optional<WorkDirectory> make(const std::string& parent, std::string& reason);
  WorkDirectory(WorkDirectory&&) = default;
  ~WorkDirectory();
  int descriptor() const { return self_.get(); }
  const std::string& path() const { return path_; }
  bool write(const std::string& name, std::string_view bytes) const;
  std::optional<std::string> read(const std::string& name, std::size_t limit) const;

 private:
  WorkDirectory() = default;
  Descriptor parent_;
  Descriptor self_;
  std::string name_;
  std::string path_;
};

// Removes what is in the making (base/file.hpp) and whose process must have ended long ago, by the names that
// unique_name() makes. For marked folders.
void remove_leftovers(int directory);

// Names in a directory, without "." and "..". `listed`: whether it could be read.
std::vector<std::string> list_names(int directory, bool* listed = nullptr);

}  // namespace weft
