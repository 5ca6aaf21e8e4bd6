#include "base/cgroup.hpp"

#include <algorithm>
#include <fstream>

namespace weft {

void for_each_cgroup(const std::string& root, const std::string& controller,
                     void (*visit)(void* context, const std::string& folder, bool version_2), void* context) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/path", or "4:cpu,memory:/path" of version 1
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
