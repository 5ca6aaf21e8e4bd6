#include "base/cgroup.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace weft {

std::string text_of_file(const std::string& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char part[4096];
  for (ssize_t count; (count = read(file, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(count));
  close(file);
  return text;
}

void for_each_cgroup(const std::string& root, const std::string& controller,
                     void (*visit)(void* context, const std::string& folder, bool version_2), void* context) {
  const std::string groups = text_of_file(root + "/proc/self/cgroup");
  for (std::size_t begin = 0, end = 0; begin < groups.size(); begin = end + 1) {
    end = std::min(groups.find('\n', begin), groups.size());
    const std::string line = groups.substr(begin, end - begin);  // "0::/path", or "4:cpu,memory:/path" of version 1
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos || second + 1 == line.size()) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool version_2 = controllers == ",,";
    if (!version_2 && controllers.find("," + controller + ",") == controllers.npos) continue;
    const std::string mounted = root + "/sys/fs/cgroup" + (version_2 ? "" : "/" + controller);
    for (std::string folder = line.substr(second + 1);;) {
      visit(context, mounted + folder + "/", version_2);
      if (folder.empty()) break;
      folder.resize(std::min(folder.rfind('/'), folder.size() - 1));
    }
  }
}

}  // namespace weft
