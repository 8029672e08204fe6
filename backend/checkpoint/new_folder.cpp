#include "backend/checkpoint/new_folder.h"

#include <fmt/format.h>

#include <system_error>

#include "backend/checkpoint/checkpoint_folder.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"

namespace shardscope {

namespace fs = std::filesystem;

NewFolder::NewFolder(const fs::path& place)
    : place_(fs::absolute(place).lexically_normal()),
      partial_(place_.parent_path() / fmt::format(".{}.partial", place_.filename().string())) {
  if (is_there(place_)) {
    throw Error({.where = place_.string(),
                 .what = "is there already",
                 .way_out = "give another -o, or remove it"});
  }
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
  create_folder(partial_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

void NewFolder::take_place(const CheckpointIndex& index) {
  write_atomically(partial_ / checkpoint_index_name, to_json(index));
  take_place();
}

void NewFolder::take_place() { put_in_place(partial_, place_); }

}  // namespace shardscope
