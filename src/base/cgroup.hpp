// Folders of this process's control groups: its own and those above it, whose limits hold for it too.
#pragma once
#include <string>

namespace weft {

// What a small file has, or a part of it where it can't be read to its end. Not by a stream: those are a tenth of a
// small program.
std::string text_of_file(const std::string& path);

// Calls `visit` with each folder that limits what this controller ("memory", "cpu") gives the process, and whether it
// is of version 2, which names its files otherwise than version 1. `root` is put before /proc and /sys.
void for_each_cgroup(const std::string& root, const std::string& controller,
                     void (*visit)(void* context, const std::string& folder, bool version_2), void* context);

}  // namespace weft
