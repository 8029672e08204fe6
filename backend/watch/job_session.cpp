#include "backend/watch/job_session.h"

#include "core/base/error.h"

namespace shardscope {

ExitCode run_as_rank(JobSession* session, const std::function<ExitCode()>& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (session == nullptr || session->watchdog.report(error)) throw;
    return error.code();
  }
}

}  // namespace shardscope
