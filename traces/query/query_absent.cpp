#include "core/base/error.h"
#include "traces/query/query.h"

namespace shardscope {

bool can_query() { return false; }

QueryResult run_query(const std::vector<QueryRun>&, const std::string&, const QueryLimits&,
                      const std::stop_token&) {
  throw Error({.where = "SQL",
               .what = "this program is built without SQLite",
               .way_out = "install libsqlite3-dev and build again",
               .code = ExitCode::outside});
}

}  // namespace shardscope
