#include "core/base/error.h"
#include "traces/import/nsight_reader.h"

namespace shardscope {

ImportedTrace read_nsight(const std::filesystem::path&, const std::string& file,
                          const ImportOptions&) {
  throw Error({.where = file,
               .what = "an export of Nsight Systems, and this program is built without SQLite",
               .way_out = "install libsqlite3-dev and build again",
               .code = ExitCode::outside});
}

}  // namespace shardscope
