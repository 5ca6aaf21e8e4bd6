# What the library is built from. Hana is part of the interface; zlib, minizip, threads and OpenMP's runtime are linked; the rest
# are headers that only our own sources see.
find_package(Boost 1.75 REQUIRED)
find_package(range-v3 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(ZLIB REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_path(WEFT_XXHASH_INCLUDE xxhash.h REQUIRED)
# It has no package file of its own. A static weft takes the archive, so that its users' programs need no minizip to run.
find_path(WEFT_MINIZIP_INCLUDE minizip/unzip.h REQUIRED)
# PNG and JPEG. Where one is not installed, the functions that want it say so. A static weft takes the archives where there are any.
find_path(WEFT_PNG_INCLUDE png.h)
find_path(WEFT_JPEG_INCLUDE turbojpeg.h)
